"""The token tree of a set of queries: what must be run, and what is read where."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..edits.changes import Edit, replace_rows
from ..edits.interventions import marked_edits
from ..model.blocks import Point
from ..tree.token_tree import ROOT, Ints, TokenTree
from .queries import Query, Swap


@dataclass(frozen=True)
class Placed:
    """Where a query lies in the tree."""

    prompt: Sequence[int]
    """The prompt's nodes."""
    prefilled: tuple[int, ...] | None
    """The nodes of the prefilled turns."""

    @property
    def last(self) -> int:
        """The prompt's last node."""
        return self.prompt[-1]


class QueryTree:
    """The token tree of a set of queries, and the nodes at which it must be read.

    Args:
        apart: which of them share no node with those before, ascending; once more for a set of none before them.
    """

    def __init__(self, queries: Sequence[Query], apart: Sequence[int] = ()) -> None:
        self.queries, self.tree = queries, TokenTree()
        self.placed: list[Placed] = []
        self.begins = [0]
        """Where the nodes begin that share nothing with others, ascending."""
        forms = []
        for i, query in enumerate(queries):
            self._begin(apart.count(i))
            prompt, turns = self._add(query), query.prompt.prefilled
            prefilled = None if turns is None else tuple(prompt[i] for turn in turns for i in turn)
            self.placed.append(Placed(prompt, prefilled))
            mark = query.marks.answer if query.marks else None
            forms.append(self.tree.add_graft(query.paths.graft, prompt[-1], mark))
        self._begin(apart.count(len(queries)))
        self.form_nodes: Ints = _joined(forms)
        """The nodes of all forms, query by query, option by option, one after the other."""
        self.form_lengths: Ints = _joined([query.paths.graft.lengths for query in queries])
        """[forms] tokens of each."""
        self.n_forms: Ints = _joined([query.paths.counts for query in queries])
        """[options of all queries] forms of each."""

    def _begin(self, sets: int) -> None:
        """Begin as many sets, all but the last of no queries."""
        if sets:
            self.tree.begin()
            self.begins += [len(self.tree)] * sets

    def _add(self, query: Query) -> list[int]:
        """The nodes of a prompt. From its first swapped row on it is a branch of its own, and from its first edited
        token on one that it shares with queries of the same edits alone.
        """
        ids, marks = query.prompt.ids, query.marks.prompt if query.marks else None
        if query.swap is None:
            return self.tree.add(ids, marks=marks)
        first = min(query.swap.tokens)
        trunk = self.tree.add(ids[:first], marks=marks and marks[:first])
        below = trunk[-1] if trunk else ROOT
        return trunk + self.tree.add(ids[first:], below=below, apart=True, marks=marks and marks[first:])

    @property
    def edits(self) -> list[Edit]:
        """The swaps and the edits of all queries."""
        swaps = swap_edits(
            (place.prompt, query.swap) for query, place in zip(self.queries, self.placed, strict=True) if query.swap
        )
        return swaps + marked_edits(self.tree.marks.items())

    @cached_property
    def lasts(self) -> Ints:
        """[queries] the last node of each prompt."""
        return _ints([place.last for place in self.placed])

    @cached_property
    def form_ends(self) -> Ints:
        """[forms] the last node of each."""
        return self.form_nodes[np.cumsum(self.form_lengths) - 1]

    @cached_property
    def form_queries(self) -> Ints:
        """[forms] which query each is of."""
        return np.repeat(np.arange(len(self.queries)), [len(query.paths.graft.lengths) for query in self.queries])

    @cached_property
    def wanted(self) -> Ints:
        """Every node whose own probability enters a number, ascending: the tokens of forms, and of prefilled turns."""
        prefilled = _ints([node for place in self.placed for node in place.prefilled or ()])
        return self._distinct(self.form_nodes, prefilled)

    @cached_property
    def parents(self) -> Ints:
        """The parent of every node."""
        return _ints(self.tree.parents)

    @cached_property
    def read_nodes(self) -> list[int]:
        """Every node whose next-token distribution enters a number, ascending."""
        return self._distinct(self.lasts, self.form_ends, self.parents[self.wanted]).tolist()

    @property
    def inner_nodes(self) -> Ints:
        """Every node at which a lens reads: those before the tokens of forms."""
        inner = np.array([query.inner for query in self.queries], dtype=bool)
        return self._distinct(self.parents[self.form_nodes[np.repeat(inner[self.form_queries], self.form_lengths)]])

    def _distinct(self, *nodes: Ints) -> Ints:
        """These nodes, each once, ascending."""
        chosen = np.zeros(len(self.tree), dtype=bool)
        for some in nodes:
            chosen[some] = True
        return np.flatnonzero(chosen)


def _ints(numbers: Sequence[int]) -> Ints:
    return np.array(numbers, dtype=np.int64)


def _joined(numbers: Sequence[Ints]) -> Ints:
    return np.concatenate([_ints([]), *numbers])


def swap_edits(swaps: Iterable[tuple[Sequence[int], Swap]]) -> list[Edit]:
    """The edits that make swaps, one for each point.

    Args:
        swaps: (nodes of the prompt, what is put into it); no two prompts may share a swapped node.
    """
    import torch

    nodes: dict[Point, list[int]] = {}
    rows: dict[Point, list[torch.Tensor]] = {}
    for prompt, swap in swaps:
        for point, values in swap.rows.items():
            nodes.setdefault(point, []).extend(prompt[token] for token in swap.tokens)
            rows.setdefault(point, []).append(values)
    return [Edit(point, tuple(nodes[point]), replace_rows(torch.cat(rows[point]))) for point in nodes]
