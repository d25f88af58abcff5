"""A tree computed level by level: that its calls are a partition of it, and what they cost."""

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from transformers import DynamicCache, LlamaConfig

from doxascope.experiments.run.config import load_config
from doxascope.hooks.exact.option_beliefs import QueryTree
from doxascope.hooks.exact.queries import PromptReader
from doxascope.hooks.model.loading import load_text_side
from doxascope.hooks.model.spec import resolve_model
from doxascope.hooks.prompts.options import TERMINATORS
from doxascope.hooks.tree.layouts import CALL, NOWHERE, ROW_TOKENS, Forked, Paired, Stepped, fork_cache, levels
from doxascope.hooks.tree.token_tree import ROOT, Pack, TokenTree, cut_into_packs


def random_pack(seed: int, size: int) -> Pack:
    """A tree that mostly goes on and sometimes branches."""
    draw, tree = np.random.default_rng(seed), TokenTree()
    nodes = [ROOT]
    for _ in range(size):
        below = nodes[-1] if draw.random() < 0.7 else nodes[int(draw.integers(len(nodes)))]
        nodes += tree.add([int(draw.integers(50))], below)
    (pack,) = cut_into_packs(tree, range(len(tree)), 10 * size)
    return pack


@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(1, 8), st.sampled_from([Forked, Paired, Stepped]))
def test_every_token_is_computed_once_after_the_one_before_it(
    seed: int, size: int, most_rows: int, layout: type[Forked]
) -> None:
    pack = random_pack(seed, size)
    plan = list(levels(pack, most_rows, layout.lengths))
    homes = np.zeros(len(pack), dtype=int)
    for number, (source, origin, tokens) in enumerate(plan):
        here = np.unique(tokens[tokens != NOWHERE])
        homes[here] += 1
        assert source < number
        for row, cells in zip(origin, tokens, strict=True):
            path = cells[cells != NOWHERE]
            assert (pack.parents[path[1:]] == path[:-1]).all()
            before = (
                ROOT if source == ROOT else plan[source].tokens[row, -1]
            )  # padding would be NOWHERE, as no parent is
            assert pack.parents[path[0]] == before
            assert before != NOWHERE or source == ROOT
        shortest, longest = layout.lengths
        if source != ROOT:
            assert shortest <= tokens.shape[1] <= (longest or len(pack))
        assert len(tokens) <= most_rows or tokens.shape[1] == shortest
    assert (homes == 1).all()


def cheapest(pack: Pack, start: int, shortest: int) -> int:
    """What the calls below a depth cost at least, by trying every way to cut it."""
    depth = pack.positions + 1
    leaves = np.setdiff1d(np.arange(len(pack)), pack.parents)
    deepest, costs = int(depth.max()), [0]
    for n in range(deepest - start):
        for middle in combinations(range(start + 1, deepest), n):
            cuts = [(first, last) for first, last in pairwise((start, *middle, deepest))]
            if all(last - first >= shortest for first, last in cuts[:-1]):
                ended = [((depth[leaves] > first) & (depth[leaves] < last)).sum() for first, last in cuts]
                rows = [(depth == last).sum() + over for (_, last), over in zip(cuts, ended, strict=True)]
                lengths = [max(shortest, last - first) for first, last in cuts]
                costs.append(sum(r * t + CALL for r, t in zip(rows, lengths, strict=True)))
    return int(min(costs[1:], default=0))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 25), st.sampled_from([Forked, Paired]))
def test_no_other_calls_are_cheaper(seed: int, size: int, layout: type[Forked]) -> None:
    pack = random_pack(seed, size)
    assume(pack.positions.max() < 9)
    first, *others = levels(pack, len(pack), layout.lengths)
    assert sum(level.tokens.size + CALL for level in others) == cheapest(pack, first.tokens.shape[1], layout.lengths[0])
    if layout is Forked:
        assert sum(level.tokens.size + CALL for level in (first, *others)) == cheapest(pack, 0, 1)


def test_a_call_has_as_many_rows_as_it_may() -> None:
    tree = TokenTree()
    trunk = tree.add(range(9))[-1]
    (pack,) = cut_into_packs(tree, [tree.add([n] * 5, trunk)[-1] for n in range(4)], 100)
    assert [level.tokens.shape for level in levels(pack, 4, Forked.lengths)] == [(1, 9), (4, 5)]


def test_a_fork_leaves_the_cache_as_it_was() -> None:
    config = LlamaConfig(num_hidden_layers=1, layer_types=["linear_attention"])  # type: ignore
    cache = DynamicCache(config=config)
    cache.update_conv_state(torch.arange(6.0).view(2, 1, 3), 0)
    cache.update_recurrent_state(torch.arange(2.0).view(2, 1), 0)
    fork = fork_cache(cache, torch.tensor([1, 1, 0]))
    fork.update_conv_state(torch.full((3, 1, 2), 9.0), 0)
    fork.update_recurrent_state(torch.full((3, 1), 9.0), 0)
    layer: Any = cache.layers[0]
    forked: Any = fork.layers[0]
    assert layer.conv_states[0].flatten().tolist() == list(range(6))
    assert layer.recurrent_states[0].flatten().tolist() == [0, 1]
    assert forked.conv_states[0][:, 0].tolist() == [[5, 9, 9], [5, 9, 9], [2, 9, 9]]


def test_an_item_costs_little_more_than_its_tokens() -> None:
    spec = resolve_model("smollm2-135m")
    reader = PromptReader(spec, load_text_side(spec), TERMINATORS)
    experiment, config = load_config("consistency", ["items=1"])
    (item,) = experiment.items(config)
    asked = experiment.questions(config, item)
    built = QueryTree([reader.query(q.readout_id, q.conversation, q.options, q.prefill) for q in asked])
    for layout, budget, most in ((Forked, 1024, 1.3), (Stepped, 1024, 1.3), (Paired, 4096, 1.5)):
        packs = cut_into_packs(built.tree, built.read_nodes, budget)
        plans = [levels(pack, len(pack) // ROW_TOKENS, layout.lengths) for pack in packs]
        assert sum(level.tokens.size for plan in plans for level in plan) <= most * len(built.tree)
