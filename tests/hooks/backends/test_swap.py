"""A context with another's rows in place reads as it does in plain torch, and so does every branch beside it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from doxascope import load
from doxascope.benchmarks.tiny_families import FAMILIES
from doxascope.hooks.backends.libraries import TransformersBackend
from doxascope.hooks.exact.option_beliefs import ExactReading, largest_difference, read_packed
from doxascope.hooks.exact.queries import Query, Swap
from doxascope.hooks.lm import LanguageModel
from doxascope.hooks.model.blocks import Point, blocks
from doxascope.hooks.prompts.options import make_options
from doxascope.hooks.tree.layouts import LAYOUTS

TINY = ("llama", "gemma3_text", "gpt2")
TEXTS = ("Is it red or blue, say?", "Is it old or long, say?")


@pytest.fixture(scope="module", params=[*TINY, "smollm2-135m"])
def lm(request: pytest.FixtureRequest, save_architecture: Callable[..., Path]) -> Iterator[LanguageModel]:
    if request.param == "smollm2-135m":
        yield request.getfixturevalue("smollm")
        return
    with load(str(save_architecture(request.param, FAMILIES[request.param]))) as loaded:
        yield loaded


def queries(lm: LanguageModel) -> tuple[Query, Query]:
    """Two prompts of equal length that differ in two words."""
    options = make_options(["yes", "no"], ["{option}", '"{Option}'])
    base, donor = (lm.reader.query(text, [{"role": "user", "content": text}], options) for text in TEXTS)
    assert len(base.prompt.ids) == len(donor.prompt.ids)
    return base, donor


def states(lm: LanguageModel, query: Query) -> list[torch.Tensor]:
    """[T, d_model] before the first block and after each but the last."""
    with torch.inference_mode():
        ids = torch.tensor([query.prompt.ids], device=lm.model.device)
        return [state[0] for state in lm.model(ids, output_hidden_states=True, use_cache=False).hidden_states[:-1]]


def swaps(lm: LanguageModel, base: Query, donor: Query) -> list[Swap]:
    """At one token, at several that do not follow each other, and at two points at once."""
    other = states(lm, donor)
    n = len(base.prompt.ids)
    first = next(i for i in range(n) if base.prompt.ids[i] != donor.prompt.ids[i])
    middle = len(blocks(lm.model)) // 2
    embedding, inside = Point(0, "resid_pre"), Point(middle - 1, "resid_post")

    def swap(tokens: tuple[int, ...], *points: Point) -> Swap:
        return Swap(tokens, {p: other[0 if p == embedding else middle][list(tokens)] for p in points})

    return [
        swap((first,), inside),
        swap((first,), embedding),
        swap((n - 1,), inside),
        swap((0, first, n - 1), embedding, inside),
    ]


@contextmanager
def swapped(lm: LanguageModel, swap: Swap | None) -> Iterator[None]:
    """Plain torch hooks that write rows into what goes into, or comes out of, a block."""

    def write(hidden: torch.Tensor, rows: torch.Tensor) -> None:
        hidden[0, list(swap.tokens if swap else ())] = rows

    def before(rows: torch.Tensor) -> Callable[..., None]:
        return lambda _, args, kwargs: write(args[0] if args else kwargs["hidden_states"], rows)

    def after(rows: torch.Tensor) -> Callable[..., None]:
        return lambda _, args, output: write(output[0] if isinstance(output, tuple) else output, rows)

    rows: Mapping[Point, torch.Tensor] = swap.rows if swap else {}
    handles = [
        blocks(lm.model)[point.layer].register_forward_pre_hook(before(values), with_kwargs=True)
        if point.site == "resid_pre"
        else blocks(lm.model)[point.layer].register_forward_hook(after(values))
        for point, values in rows.items()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class Contexts(NamedTuple):
    """A base context, itself with swaps, and its donor; and what plain torch hooks make of each."""

    queries: list[Query]
    plain: list[ExactReading]


@pytest.fixture(scope="module")
def contexts(lm: LanguageModel) -> Contexts:
    base, donor = queries(lm)
    every = [base, *(replace(base, readout_id=str(i), swap=s) for i, s in enumerate(swaps(lm, base, donor))), donor]
    plain = []
    for query in every:
        with swapped(lm, query.swap):
            plain.append(lm.read_plain(replace(query, swap=None)))
    return Contexts(every, plain)


@pytest.mark.parametrize("layout", ["packed", "forked", "padded"])
@pytest.mark.parametrize("budget", [1000, 1])
def test_swapped_contexts_in_one_tree_read_as_plain_hooks_make_them(
    lm: LanguageModel, contexts: Contexts, layout: str, budget: int, noise: Callable[[Any], float]
) -> None:
    backend = TransformersBackend(lm.model, LAYOUTS[layout])
    if budget == 1 and lm.spec.name == "smollm2-135m":
        budget = 16  # tiny ones go through token by token
    readings, cost, _ = read_packed(contexts.queries, backend, lm.head, budget=budget)
    assert (cost.packs == 1) == (budget == 1000 or layout == "packed")  # which goes through in pieces
    for reading, plain in zip(readings, contexts.plain, strict=True):
        assert largest_difference(reading, plain) < noise(plain.logp)
    free, *changed, _ = readings
    assert all(largest_difference(one, free) > 0.01 for one in changed)


def test_the_plain_path_swaps_as_plain_hooks_do(lm: LanguageModel, contexts: Contexts) -> None:
    for query, plain in zip(*contexts, strict=True):
        assert largest_difference(lm.read_plain(query), plain) == 0


def test_rows_of_the_context_itself_change_nothing(tiny: Any, noise: Callable[[Any], float]) -> None:
    base, _ = queries(tiny)
    own = states(tiny, base)[1]
    swap = Swap((3, 5), {Point(0, "resid_post"): own[[3, 5]]})
    free, same = tiny.read([base, replace(base, readout_id="same", swap=swap)]).readings
    assert largest_difference(free, same) < noise(free.logp)
