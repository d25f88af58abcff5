"""Exact readings after histories that are sampled as one goes: what was computed for a turn is kept for the next.

The definition is that of `exact`; only what runs the tokens differs, a tree that keeps its keys and values and grows at
its leaves. The two must agree.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..exact.exact import Competitor, ExactReading, QueryTree, Steps, best_competitor, finished_reading, row_blocks
from ..model.head import Head
from ..prompts.query import Query
from ..tree.memory import Cost
from .growing import Histories, Node


class GrownReading(NamedTuple):
    """What `read_grown` returns."""

    readings: list[ExactReading]
    cost: Cost
    held: list[Node]
    """The last node of each form of each query: what the cache keeps as long as somebody holds it."""


def read_grown(
    queries: Sequence[Query],
    histories: Histories,
    head: Head,
    *,
    budget: int,
    temperatures: Sequence[float] = (),
) -> GrownReading:
    """Read queries, computing only tokens that no history holds.

    Args:
        queries: as for `read_packed`, without swaps.
        histories: a tree that computes histories of this model, and keeps those that are held.
        head: of the model.
        budget: about how many new tokens a forward pass computes at most; one path is never cut.
        temperatures: at which to read, too.

    Raises UserError if the model's log-probabilities are not finite, naming the read-out.
    """
    import torch

    built = QueryTree(queries)
    nodes: list[Node] = []
    for token, parent in zip(built.tree.tokens, built.tree.parents, strict=True):
        nodes.append(histories.extend(nodes[parent] if parent >= 0 else None, [token]))
    fresh = sum(node.hidden is None for node in nodes)
    read = np.array(sorted(built.read_nodes))
    passes = _compute(histories, [nodes[i] for i in read], budget)
    every = (1.0, *temperatures)
    steps = Steps(built, len(every), 0)
    barred = {place.last: query.paths.first_ids for place, query in zip(built.placed, queries, strict=True)}
    competitors: dict[int, Competitor] = {}
    for rows in row_blocks(read):
        places = rows.tolist()
        hidden = torch.stack([vector for i in places if (vector := nodes[i].hidden) is not None])
        logp = head.log_probs(hidden)
        steps.keep(places, (logp if t == 1 else (logp / t).log_softmax(dim=1) for t in every))
        for row, place in enumerate(places):
            if place in barred:
                competitors[place] = best_competitor(logp[row], barred[place])
    readings = [
        finished_reading(query, place, temperatures, (), steps, competitors)
        for query, place in zip(queries, built.placed, strict=True)
    ]
    held = [nodes[form[-1]] for place in built.placed for forms in place.forms for form in forms]
    return GrownReading(
        readings, Cost(tokens_tree=fresh, tokens_run=fresh, packs=passes, budget=budget, halvings=0), held
    )


def _compute(histories: Histories, leaves: Sequence[Node], budget: int) -> int:
    """Compute the leaves, several together; returns in how many passes."""
    passes = start = tokens = 0
    for stop, leaf in enumerate(leaves):
        more = len(histories.missing(leaf))
        if stop > start and tokens + more > budget:
            histories.compute(leaves[start:stop])
            passes, start, tokens = passes + 1, stop, 0
            more = len(histories.missing(leaf))
        tokens += more
    if leaves:
        histories.compute(leaves[start:])
    return passes + 1
