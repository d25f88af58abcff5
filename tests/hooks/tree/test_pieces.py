"""Packs that take several passes: what is long is run once, and read as if it were run alone."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from doxascope import Steer, load
from doxascope.base.errors import UserError
from doxascope.benchmarks.tiny_families import FAMILIES
from doxascope.hooks.backends.captures import CapturePlan
from doxascope.hooks.backends.libraries import TransformersBackend
from doxascope.hooks.exact.option_beliefs import largest_difference
from doxascope.hooks.exact.self_check import choose_path
from doxascope.hooks.prompts.options import make_options
from doxascope.hooks.prompts.places import LAST
from doxascope.hooks.tree.memory import SMALLEST, run_packs
from doxascope.hooks.tree.token_tree import REPEATED, TokenTree, cut_into_packs

sequences = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=12)
LONG = "one two three four five six seven eight " * 4
ANSWERS = ["yes", "no", "perhaps not"]


@given(sequences, st.integers(1, 20))
def test_few_tokens_are_run_twice_and_none_where_packs_go_on(given: list[list[int]], budget: int) -> None:
    tree = TokenTree()
    read = {tree.add(ids)[-1] for ids in given}
    packs = cut_into_packs(tree, read, budget, continues=True)
    assert sorted(node for pack in packs for node in pack.nodes) == sorted(read)
    assert sum(map(len, packs)) <= (1 + REPEATED) * len({node for pack in packs for node in pack.members.tolist()})
    for pack in packs:
        assert len(pack) <= budget or (pack.most == budget and len(packs) == 1)


def test_packs_that_repeat_nothing_are_run_apart_where_they_could_go_on() -> None:
    tree = TokenTree()
    read = [tree.add([first] * 10)[-1] for first in range(2)]
    assert [(len(pack), pack.most) for pack in cut_into_packs(tree, read, 10, continues=True)] == [(10, 0)] * 2


@pytest.fixture(scope="module", params=["transformers", "transformer_lens", "nnsight"])
def lm(request: pytest.FixtureRequest, save_architecture: Callable[..., Path]) -> Iterator[Any]:
    pytest.importorskip(request.param)
    with load(str(save_architecture("gemma3_text", FAMILIES["gemma3_text"])), backend=request.param) as loaded:
        yield loaded


def asked(lm: Any, n: int = 3) -> list[Any]:
    return [
        lm.reader.query(
            str(i),
            [{"role": "user", "content": f"{LONG}{'eight ' * i}?"}],
            make_options(ANSWERS),
            positions={"last": LAST},
        )
        for i in range(n)
    ]


@pytest.mark.parametrize("budget", [7, 40, 150])
def test_what_is_read_in_pieces_is_what_is_read_alone(lm: Any, budget: int, noise: Callable[[Any], float]) -> None:
    queries = asked(lm)
    whole = lm.read(queries, budget=10_000, capture=CapturePlan())
    assert lm.backend.layout.continues
    assert whole.cost.tokens_tree > 150
    pieces = lm.read(queries, budget=budget, capture=CapturePlan())
    assert pieces.cost.tokens_run == pieces.cost.tokens_tree == whole.cost.tokens_tree
    for query, piece, other in zip(queries, pieces.readings, whole.readings, strict=True):
        assert largest_difference(piece, other) < noise(other.logp)
        assert largest_difference(piece, lm.read_plain(query)) < noise(other.logp)
    for site, values in whole.captured.residuals.items():
        torch.testing.assert_close(pieces.captured.residuals[site], values, rtol=0, atol=noise(values))


def test_what_is_edited_in_one_piece_is_seen_by_the_next(lm: Any, noise: Callable[[Any], float]) -> None:
    conversation = [{"role": "user", "content": LONG}]
    push = Steer(np.ones(lm.model.config.hidden_size), layers=0, at="all", strength=3.0)
    few, whole = (
        lm.beliefs([conversation], options=ANSWERS, edits={"pushed": [push]}, budget=budget).beliefs
        for budget in (20, 10_000)
    )
    assert few["logp"].to_numpy() == pytest.approx(whole["logp"].to_numpy(), abs=noise(whole["logp"]))
    plain, pushed = (whole[whole["method"].str.contains("pushed") == found]["logp"] for found in (False, True))
    assert np.abs(plain.to_numpy() - pushed.to_numpy()).max() > 0.1


def test_sets_that_share_a_pass_leave_those_alone_that_take_several(lm: Any, noise: Callable[[Any], float]) -> None:
    short = [lm.reader.query("short", [{"role": "user", "content": "one?"}], make_options(ANSWERS))]
    together = lm.start_reading([asked(lm, 1), short], together=True, budget=128)()
    for queries, reading in zip((asked(lm, 1), short), together, strict=True):
        assert largest_difference(reading.readings[0], lm.read_plain(queries[0])) < noise(reading.readings[0].logp)
    assert together[0].cost.tokens_run == together[0].cost.tokens_tree


def test_memory_that_runs_out_makes_pieces_smaller_up_to_an_end() -> None:
    tree = TokenTree()
    read = [tree.add([*range(500), n])[-1] for n in range(3)]
    room, sizes = 100, list[int]()

    def run(pack: Any) -> int:
        sizes.append(pack.most or len(pack))
        if sizes[-1] > room:
            raise MemoryError
        return len(pack)

    def cut(tree: TokenTree, nodes: Any, budget: int) -> Any:
        return cut_into_packs(tree, nodes, budget, continues=True)

    cost = run_packs(tree, read, 400, run, cut)
    assert sizes == [400, 200, 100]
    assert (cost.tokens_run, cost.halvings) == (len(tree), 2)
    room = 0
    with pytest.raises(UserError, match="a single path of 501 tokens"):
        run_packs(tree, read, 400, run, cut)
    assert sizes[-1] <= SMALLEST


def test_what_turns_by_the_length_of_a_pass_is_never_read_in_pieces(save_architecture: Callable[..., Path]) -> None:
    dynamic = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    with load(str(save_architecture("llama", {**FAMILIES["llama"], "rope_parameters": dynamic}))) as lm:
        assert lm.chosen.path == "packed"
        assert not lm.backend.layout.continues
        assert lm.read(asked(lm), budget=40).cost.packs > 1


def test_a_model_that_breaks_where_a_pass_goes_on_is_never_read_in_pieces(tiny: Any) -> None:
    class Breaking(TransformersBackend):
        def run(self, pack: Any, **more: Any) -> Any:
            if pack.most:
                raise ZeroDivisionError
            return super().run(pack, **more)

    terminators, words = tiny.reader.terminators, range(3, 30)
    for backend, continues in ((TransformersBackend, True), (Breaking, False)):
        chosen = choose_path(partial(backend, tiny.model), tiny.model, tiny.head, terminators, words)
        assert chosen.backend.layout.continues == continues


def test_a_single_path_that_does_not_fit_whole_is_read_in_pieces() -> None:
    tree = TokenTree()
    read = [tree.add(range(300))[-1]]

    def run(pack: Any) -> int:
        if (pack.most or len(pack)) > 100:
            raise MemoryError
        return len(pack)

    def cut(tree: TokenTree, nodes: Any, budget: int) -> Any:
        return cut_into_packs(tree, nodes, budget, continues=True)

    assert run_packs(tree, read, 400, run, cut).tokens_run == 300
