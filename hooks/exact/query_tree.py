"""The token tree of a set of queries: what must be run, and what is read where."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..edits.changes import Edit, swap_edits
from ..edits.marks import marked_edits
from ..prompts.query import Query
from ..tree.tree import ROOT, Ints, TokenTree


@dataclass(frozen=True)
class Placed:
    """Where a query lies in the tree."""

    prompt: Sequence[int]
    """The prompt's nodes."""
    prefilled: tuple[int, ...] | None
    """The nodes of the prefilled turns."""
    forms: tuple[tuple[tuple[int, ...], ...], ...]
    """[option][form] -> nodes."""

    @property
    def last(self) -> int:
        """The prompt's last node."""
        return self.prompt[-1]


class QueryTree:
    """The token tree of a set of queries, and the nodes at which it must be read.

    Args:
        queries: in their order.
        apart: which of them share no node with those before, ascending.
    """

    def __init__(self, queries: Sequence[Query], apart: Collection[int] = ()) -> None:
        self.queries, self.tree = queries, TokenTree()
        self.placed: list[Placed] = []
        self.begins = [0]
        """Where the nodes begin that share nothing with others, ascending."""
        for i, query in enumerate(queries):
            if i in apart:
                self.tree.begin()
                self.begins.append(len(self.tree))
            prompt = self._add(query)
            last, turns = prompt[-1], query.prompt.prefilled
            mark = query.marks.answer if query.marks else None
            forms = self.tree.add_forms(query.paths.paths, last, mark)
            prefilled = None if turns is None else tuple(prompt[i] for turn in turns for i in turn)
            self.placed.append(Placed(prompt, prefilled, forms))

    def _add(self, query: Query) -> list[int]:
        """The nodes of a prompt. From its first swapped row on it is a branch of its own, and from its first edited
        token on one that it shares with queries of the same edits alone.
        """
        ids = query.prompt.ids
        marks = query.marks.prompt if query.marks else (None,) * len(ids)
        if query.swap is None:
            return self.tree.add(ids, marks=marks)
        first = min(query.swap.tokens)
        trunk = self.tree.add(ids[:first], marks=marks[:first])
        return trunk + self.tree.add(ids[first:], below=trunk[-1] if trunk else ROOT, apart=True, marks=marks[first:])

    @property
    def edits(self) -> list[Edit]:
        """The swaps and the edits of all queries."""
        swaps = swap_edits(
            (place.prompt, query.swap) for query, place in zip(self.queries, self.placed, strict=True) if query.swap
        )
        return swaps + marked_edits(self.tree.marks.items())

    @cached_property
    def form_nodes(self) -> Ints:
        """The nodes of all forms, query by query, option by option, one after the other."""
        return _ints([node for place in self.placed for forms in place.forms for form in forms for node in form])

    @cached_property
    def form_ends(self) -> Ints:
        """The last node of each of these forms."""
        return _ints([form[-1] for place in self.placed for forms in place.forms for form in forms])

    @cached_property
    def wanted(self) -> Ints:
        """Every node whose own probability enters a number, ascending: the tokens of forms, and of prefilled turns."""
        prefilled = _ints([node for place in self.placed for node in place.prefilled or ()])
        return np.unique(np.concatenate([self.form_nodes, prefilled]))

    @cached_property
    def parents(self) -> Ints:
        """The parent of every node."""
        return _ints(self.tree.parents)

    @cached_property
    def read_nodes(self) -> list[int]:
        """Every node whose next-token distribution enters a number, ascending."""
        last = _ints([place.last for place in self.placed])
        return np.unique(np.concatenate([last, self.form_ends, self.parents[self.wanted]])).tolist()

    @property
    def inner_nodes(self) -> Ints:
        """Every node at which a lens reads: those before the tokens of forms."""
        read = (place for query, place in zip(self.queries, self.placed, strict=True) if query.inner)
        return np.unique(self.parents[_ints([n for place in read for forms in place.forms for f in forms for n in f])])


def _ints(numbers: Sequence[int]) -> Ints:
    return np.array(numbers, dtype=np.int64)
