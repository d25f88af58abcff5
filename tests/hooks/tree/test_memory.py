from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from doxascope import UserError
from doxascope.hooks.backends.backend import PackOutput
from doxascope.hooks.backends.captures import CapturePlan
from doxascope.hooks.backends.libraries import TransformersBackend
from doxascope.hooks.exact.option_beliefs import largest_difference, read_packed, start_reading
from doxascope.hooks.exact.queries import Query
from doxascope.hooks.prompts.options import make_options
from doxascope.hooks.prompts.places import LAST
from doxascope.hooks.tree.memory import is_out_of_memory, sum_costs
from doxascope.hooks.tree.token_tree import Pack

WORDS = ("coral", "shirt", "radio", "river")


class Small(TransformersBackend):
    """A device on which more than `room` tokens of a pass do not fit."""

    def __init__(self, lm: Any, room: int, error: Exception) -> None:
        super().__init__(lm.model)
        self.room, self.error = room, error
        self.read: list[int] = []

    def run(self, pack: Pack, **asked: Any) -> PackOutput:
        if (pack.most or len(pack)) > self.room:
            raise self.error
        self.read += pack.nodes.tolist()
        return super().run(pack, **asked)


def queries(lm: Any) -> list[Query]:
    options = make_options(["yes", "no"])
    where = {"last": LAST}
    return [
        lm.reader.query(w, [{"role": "user", "content": f"Is it {w}? " * 4}], options, positions=where) for w in WORDS
    ]


def read(lm: Any, backend: Any, budget: int) -> Any:
    return read_packed(queries(lm), backend, lm.head, budget=budget, capture=CapturePlan())


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError(),
        MemoryError(),
        RuntimeError("err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
    ],
)
def test_out_of_memory_halves_the_budget_and_reads_the_same(
    tiny: Any, error: Exception, noise: Callable[[Any], float]
) -> None:
    expected, free, taken = read(tiny, tiny.backend, 10_000)
    assert (free.packs, free.halvings, free.budget) == (1, 0, 10_000)
    readings, cost, captured = read(tiny, Small(tiny, 150, error), 10_000)
    assert cost.halvings == 1
    assert cost.budget == cost.tokens_tree // 2 <= 150
    assert cost.tokens_run == cost.tokens_tree  # in pieces
    for one, other in zip(readings, expected, strict=True):
        assert largest_difference(one, other) < noise(other.logp)
    torch.testing.assert_close(
        captured.residuals, taken.residuals, rtol=0, atol=max(map(noise, taken.residuals.values()))
    )


def test_what_was_read_before_memory_ran_out_is_not_read_again(tiny: Any) -> None:
    class Shrinking(Small):
        def run(self, pack: Pack, **asked: Any) -> PackOutput:
            output = super().run(pack, **asked)
            self.room = 90
            return output

    backend = Shrinking(tiny, 150, torch.OutOfMemoryError())
    readings, cost, _ = read(tiny, backend, 150)
    assert cost.halvings == 1
    assert len(backend.read) == len(set(backend.read))
    assert all(np.isfinite(reading.logp).all() for reading in readings)


def test_a_halving_is_counted_once_among_the_items_that_share_it(tiny: Any) -> None:
    sets = [[query] for query in queries(tiny)]
    backend = Small(tiny, 150, torch.OutOfMemoryError())
    costs = [reading.cost for reading in start_reading(sets, backend, tiny.head, budget=10_000, joined=True)()]
    assert len(costs) > 1
    assert sum_costs(costs).halvings >= 1
    assert all(cost.halvings == 0 for cost in costs[1:])


def test_a_path_that_does_not_fit_is_refused(tiny: Any) -> None:
    with pytest.raises(UserError, match=r"out of memory on a single path of \d+ tokens"):
        read(tiny, Small(tiny, 5, torch.OutOfMemoryError()), 10_000)


def test_other_errors_are_not_taken_for_a_lack_of_memory(tiny: Any) -> None:
    with pytest.raises(RuntimeError, match="assert"):
        read(tiny, Small(tiny, 5, RuntimeError("CUDA error: device-side assert triggered")), 10_000)


def test_the_allocator_of_the_cpu_says_what_is_looked_for() -> None:
    with pytest.raises(RuntimeError) as failure:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(failure.value)
