"""Exact readings after histories that are sampled as one goes: what was computed for a turn is kept for the next.

The definition is that of `exact`; only what runs the tokens differs, a tree that keeps its keys and values and grows at
its leaves. The two must agree.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..exact.exact import ExactReading, finished
from ..exact.query_tree import QueryTree
from ..exact.steps import Steps, row_blocks
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
    read = np.array(built.read_nodes)
    passes = _compute(histories, [nodes[i] for i in read], budget)
    steps = Steps(built, (1.0, *temperatures), 0)
    for rows in row_blocks(read):
        hidden = torch.stack([vector for i in rows.tolist() if (vector := nodes[i].hidden) is not None])
        steps.keep(rows, head.log_probs(hidden, passing=True))
    steps.fetch()
    held = [nodes[end] for end in built.form_ends.tolist()]
    cost = Cost(tokens_tree=fresh, tokens_run=fresh, packs=passes, budget=budget, halvings=0)
    return GrownReading(finished(steps, temperatures), cost, held)


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
