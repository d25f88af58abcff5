"""A token tree that keeps its keys and values and grows at its leaves: what short branches after many histories, and
conversations that share their beginnings, are read in; and the exact readings after them.

Every distinct history is one node, computed once however many share it; a token sees its ancestors through the mask,
so nothing is padded and no history is copied. What was computed for a turn is kept for the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from ..backends.backend import Backend
from ..edits.changes import edit_taps
from ..edits.interventions import Mark, marked_edits
from ..exact.log_probs import Steps, row_blocks
from ..exact.option_beliefs import ExactReading, finished
from ..exact.queries import Query
from ..exact.query_tree import QueryTree
from ..model.blocks import body, input_device, tapped
from ..model.head import Head
from ..tree.attention import FULL, SLIDING, additive_mask, attention_layers, mark_groups
from ..tree.memory import Cost
from ..tree.token_tree import Ints, TokenTree

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

FEWEST_TOGETHER = 16
"""New tokens of a history, in the mean, from which it attends by itself: fewer are faster under one mask."""
LIVE_SHARE = 0.75
"""The cache is compacted when fewer of its columns than this belong to a history that somebody still holds."""


@dataclass(eq=False, slots=True, weakref_slot=True)
class Node:
    """A history: a token after its parent's history. It lives as long as a sample, or a child, holds it."""

    token: int
    parent: "Node | None"
    depth: int
    mark: Mark | None = None
    """What edits do to the token."""
    hidden: "torch.Tensor | None" = None
    """[d_model] after the final norm, once it is computed."""
    column: int = -1
    """Its place in the cache."""
    begun: "Node | None" = None
    """Where the path begins that leads to it through adjacent columns; nothing is dropped from inside such a path."""


class Histories:
    """The nodes that are held, each history once."""

    def __init__(self) -> None:
        # A child holds its parent, so the parent's id is not given away while the entry is there.
        self._nodes: WeakValueDictionary[tuple[int, int, Mark | None], Node] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._nodes)

    def extend(self, node: Node | None, ids: Sequence[int], marks: Sequence[Mark | None] | None = None) -> Node:
        """The node that goes on from `node` (None: nothing) with `ids`, at least one, edited by their marks."""
        for token, mark in zip(ids, [None] * len(ids) if marks is None else marks, strict=True):
            child = self._nodes.get((id(node), token, mark))
            if child is None:
                child = Node(token, node, node.depth + 1 if node else 0, mark)
                self._nodes[id(node), token, mark] = child
            node = child
        assert node is not None
        return node

    def missing(self, node: Node) -> list[Node]:
        """The nodes of this history that are not computed yet, from the first to the last."""
        path = []
        step: Node | None = node
        while step is not None and step.hidden is None:
            path.append(step)
            step = step.parent
        return path[::-1]

    def compute(self, leaves: Sequence[Node]) -> None:
        """Give every leaf its `hidden`."""
        raise NotImplementedError


class CachedHistories(Histories):
    """Computes new tokens alone, in one forward pass over the cache of all histories.

    Raises UserError at once for a model whose attention cannot take the mask of a tree.
    """

    def __init__(self, model: "PreTrainedModel") -> None:
        from transformers import DynamicCache

        super().__init__()
        self.model, self._kinds = model, attention_layers(model.config)
        # Without a configuration every layer keeps every column, and the mask alone decides what is in a window.
        self._cache = DynamicCache()
        self._depths = np.zeros(0, dtype=np.int64)

    def compute(self, leaves: Sequence[Node]) -> None:
        """See `Histories.compute`."""
        import torch

        if len(self) < LIVE_SHARE * len(self._depths):
            self._compact()
        before = len(self._depths)
        fresh: list[Node] = []
        for leaf in leaves:
            for node in self.missing(leaf):
                if node.column < 0:
                    node.column = before + len(fresh)
                    parent = node.parent
                    node.begun = parent.begun if parent and parent.column == node.column - 1 else node
                    fresh.append(node)
        if not fresh:
            return
        depths = np.array([node.depth for node in fresh], dtype=np.int64)
        self._depths = np.concatenate([self._depths, depths])
        device = input_device(self.model)
        edits = marked_edits((place, node.mark) for place, node in enumerate(fresh))
        with torch.inference_mode(), tapped(self.model, edit_taps(edits)):
            output = body(self.model)(
                input_ids=torch.tensor([[node.token for node in fresh]], device=device),
                position_ids=torch.from_numpy(depths)[None].to(device),
                attention_mask=self._masks(_visible(fresh, before), depths, _apart(fresh, before)),
                past_key_values=self._cache,
                use_cache=True,
            )
        for node, hidden in zip(fresh, output.last_hidden_state[0], strict=True):
            node.hidden = hidden

    def _masks(self, visible: NDArray[np.bool_], depths: Ints, apart: Sequence[Ints]) -> Any:
        """Additive masks [1, 1, fresh, columns], by layer type where a model mixes types (see `pack_masks`), with the
        rows [fresh] that are `apart` marked.
        """
        import torch

        seen = {}
        if FULL in self._kinds:
            seen[FULL] = visible
        if SLIDING in self._kinds:
            window = self.model.config.get_text_config().sliding_window
            seen[SLIDING] = visible & (depths[:, None] - self._depths < window)
        groups = [(rows, np.flatnonzero(visible[rows].any(axis=0))) for rows in apart]
        masks = {}
        for kind, seen_columns in seen.items():
            hidden = torch.from_numpy(~seen_columns).to(input_device(self.model))
            masks[kind] = mark_groups(additive_mask(hidden, self.model.dtype), groups)
        return masks if len(masks) > 1 else next(iter(masks.values()))

    def _compact(self) -> None:
        """Drop the columns of histories that nobody holds any more."""
        import torch

        nodes = sorted((node for node in self._nodes.values() if node.column >= 0), key=lambda node: node.column)
        kept = [node.column for node in nodes]
        for column, node in enumerate(nodes):
            node.column = column
        self._depths = self._depths[kept]
        layers: list[Any] = self._cache.layers
        for layer in layers:
            columns = torch.tensor(kept, dtype=torch.long, device=layer.keys.device)
            layer.keys = layer.keys.index_select(2, columns)
            layer.values = layer.values.index_select(2, columns)


class RecomputedHistories(Histories):
    """Computes whole histories anew through a back end: slow, and right wherever the back end is."""

    def __init__(self, backend: Backend, budget: int) -> None:
        super().__init__()
        self.backend, self.budget = backend, budget

    def compute(self, leaves: Sequence[Node]) -> None:
        """See `Histories.compute`."""
        tree, wanted = TokenTree(), {}
        for leaf in leaves:
            if leaf.hidden is None:
                path = _path(leaf)
                wanted[tree.add([node.token for node in path], marks=[node.mark for node in path])[-1]] = leaf
        edits = marked_edits(tree.marks.items())
        for pack in self.backend.cut(tree, wanted, self.budget):
            for place, hidden in zip(pack.nodes.tolist(), self.backend.run(pack, edits=edits).hidden, strict=True):
                wanted[place].hidden = hidden


def _visible(fresh: Sequence[Node], before: int) -> NDArray[np.bool_]:
    """[fresh, columns]: whether a new token sees a column, that is, whether it is an ancestor or itself."""
    seen = np.zeros((len(fresh), before + len(fresh)), dtype=bool)
    for row, node in zip(seen, fresh, strict=True):
        step: Node | None = node
        while step is not None:  # from one run of adjacent columns, through its first node's parent, to the one before
            assert step.begun is not None
            row[step.begun.column : step.column + 1] = True
            step = step.begun.parent
    return seen


def _apart(fresh: Sequence[Node], before: int) -> list[Ints]:
    """The new rows by the computed history that they go on from; empty if there is one alone, or their rows are few."""
    origin: list[int] = []
    for node in fresh:
        parent = -1 if node.parent is None else node.parent.column
        origin.append(parent if parent < before else origin[parent - before])
    every = np.array(origin)
    groups = [np.flatnonzero(every == parent) for parent in dict.fromkeys(origin)]
    return groups if 1 < len(groups) <= len(fresh) / FEWEST_TOGETHER else []


def _path(node: Node | None) -> list[Node]:
    path = []
    while node is not None:
        path.append(node)
        node = node.parent
    return path[::-1]


# Exact readings after histories that are sampled as one goes: what was computed for a turn is kept for the next.
#
# The definition is that of `exact`; only what runs the tokens differs, a tree that keeps its keys and values and grows
# at
# its leaves. The two must agree.


class GrownReading(NamedTuple):
    """What `read_grown` returns."""

    readings: list[ExactReading]
    cost: Cost
    held: list[Node]
    """The last node of each form of each query: what the cache keeps as long as somebody holds it."""


def read_grown(
    queries: Sequence[Query], histories: Histories, head: Head, *, budget: int, temperatures: Sequence[float] = ()
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
    steps.send()
    steps.fetch()
    ends = [nodes[end] for end in built.form_ends.tolist()]
    cost = Cost(tokens_tree=fresh, tokens_run=fresh, packs=passes, budget=budget, halvings=0)
    return GrownReading(finished(steps, temperatures), cost, ends)


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
