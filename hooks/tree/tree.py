"""The token tree: all prompts and all options of a batch, every shared token once; and its packs.

A *pack* is a set of nodes, closed under ancestors, that one forward pass computes. A token attends to its
ancestors alone and stands at its depth, so each path reads exactly as it would alone.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

ROOT = -1
"""The parent of a first token."""

FILLER = -1
"""The node of a token that is nobody's."""
BLOCK = 128
"""Tokens of a block: where attention goes by blocks, each way, and where packs that are joined begin."""

Ints = NDArray[np.int64]
Paths = tuple[tuple[tuple[int, ...], ...], ...]
"""[option][form] -> ids of tokens."""
Nodes = Paths
"""[option][form] -> nodes."""


class TokenTree:
    """A prefix tree over token ids. Nodes are numbered in the order in which they were added."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        self.marks: dict[int, Hashable] = {}
        """Of nodes that are no plain tokens, what sets them apart from others at the same place."""
        self._child: dict[tuple[int, int, Hashable], int] = {}
        self._graft: dict[Paths, _Graft] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def add(
        self, ids: Sequence[int], below: int = ROOT, *, apart: bool = False, marks: Sequence[Hashable] | None = None
    ) -> list[int]:
        """Walk `ids` down from the node `below`, making what is missing; returns the node of each id.

        Args:
            ids: of tokens.
            below: where they begin.
            apart: make a branch of its own, even beside equal tokens, into which no later walk leads.
            marks: of each id, what sets it apart from the same token at the same place, or None. Equal ids with equal
                marks are one node.
        """
        path, child = [], self._child
        for token, mark in zip(ids, repeat(None, len(ids)) if marks is None else marks, strict=True):
            node = None if apart else child.get((below, token, mark))
            if node is None:
                node = len(self.tokens)
                if not apart:
                    child[below, token, mark] = node
                if mark is not None:
                    self.marks[node] = mark
                self.tokens.append(token)
                self.parents.append(below)
                self.depths.append(self.depths[below] + 1 if below != ROOT else 0)
            path.append(node)
            below = node
        return path

    def add_forms(self, paths: Paths, below: int, mark: Hashable | None = None) -> Nodes:
        """The same for each of the paths [option][form] of ids, all of one mark: the nodes of each id.

        Below what was added last there is nothing yet, and what the same paths became elsewhere is copied.
        """
        if below != len(self.tokens) - 1:
            return tuple(tuple(tuple(self.add(ids, below, marks=[mark] * len(ids))) for ids in some) for some in paths)
        if paths not in self._graft:
            self._graft[paths] = _Graft.of(paths)
        graft, first = self._graft[paths], len(self.tokens)
        parents = [below if parent == ROOT else first + parent for parent in graft.parents]
        nodes = range(first, first + len(parents))
        self._child.update(zip(zip(parents, graft.tokens, repeat(mark)), nodes, strict=False))
        if mark is not None:
            self.marks.update(zip(nodes, repeat(mark)))
        self.tokens += graft.tokens
        self.parents += parents
        self.depths += [self.depths[below] + 1 + depth for depth in graft.depths]
        return tuple(tuple(tuple(nodes[at] for at in form) for form in some) for some in graft.nodes)

    def begin(self) -> None:
        """What is added from here on shares nothing with what is there."""
        self._child.clear()

    def ancestors(self, node: int) -> list[int]:
        """The path from the first token to `node`, which is included."""
        path = []
        while node != ROOT:
            path.append(node)
            node = self.parents[node]
        return path[::-1]


@dataclass(frozen=True)
class _Graft:
    """What paths become where there is nothing yet: numbers of nodes count from the first."""

    tokens: list[int]
    parents: list[int]
    depths: list[int]
    nodes: Nodes

    @classmethod
    def of(cls, paths: Paths) -> "_Graft":
        """Of these paths."""
        tree = TokenTree()
        nodes = tuple(tuple(tuple(tree.add(ids)) for ids in some) for some in paths)
        return cls(tree.tokens, tree.parents, tree.depths, nodes)


@dataclass(frozen=True)
class Pack:
    """What one forward pass computes: T tokens of a tree, depth first, and R of them to be read."""

    tokens: Ints
    """[T] ids. Of siblings the one with the deepest leaf comes first, so that the longest path is the beginning."""
    positions: Ints
    """[T] depth in the tree: the position id."""
    parents: Ints
    """[T] index of the parent within the pack, or ROOT."""
    ends: Ints
    """[T] where the descendants of each token end: token k is seen by the tokens q with k <= q < ends[k], no others."""
    members: Ints
    """[T] the tree's node that each token is; FILLER for one that fills a gap, and sees itself alone."""
    rows: Ints
    """[R] indices within the pack at which to read."""
    pieces: "tuple[tuple[int, Pack], ...]" = ()
    """The packs that it joins, if it does, and where each begins."""

    @property
    def nodes(self) -> Ints:
        """[R] the tree's node at each row."""
        return self.members[self.rows]

    @property
    def trunk(self) -> int:
        """How many of the first tokens are one path."""
        return int((np.cumsum(self.parents != np.arange(-1, len(self) - 1)) == 0).sum())

    def __len__(self) -> int:
        return len(self.tokens)

    def visible(self) -> NDArray[np.bool_]:
        """[T, T]: whether token i sees token j, that is, whether j is i or an ancestor of i."""
        place = np.arange(len(self))[:, None]
        return (place >= place.T) & (place < self.ends)


def cut_into_packs(tree: TokenTree, read: Iterable[int], budget: int) -> list[Pack]:
    """Cut the part of the tree that `read` needs into packs of at most `budget` tokens.

    Each node of `read` is a row of exactly one pack; ancestors are repeated where a pack needs them. A path
    longer than the budget is a pack of its own.
    """
    rows = sorted(set(read))
    if len(inside := _needed(tree.parents, rows)) <= budget:
        return [_make_pack(tree, inside, rows)] if rows else []
    packs: list[Pack] = []
    number = [-1] * len(tree)  # the last pack that each node is in
    nodes, inside, rows = rows, [], []
    for node in nodes:
        needed = _missing(tree.parents, number, len(packs), node)
        if rows and len(inside) + len(needed) > budget:
            packs.append(_make_pack(tree, inside, rows))
            inside, rows = [], []
            needed = _missing(tree.parents, number, len(packs), node)
        for one in needed:
            number[one] = len(packs)
        inside += needed
        rows.append(node)
    if rows:
        packs.append(_make_pack(tree, inside, rows))
    return packs


def join_packs(packs: Sequence[Pack], length: int) -> list[Pack]:
    """Packs together in longer ones, in their order, each of `length` tokens whatever is in it, and each piece from a
    block on: then what a piece reads does not depend on its neighbours. One that is too long stays alone.
    """
    joined: list[list[Pack]] = []
    room = 0
    for pack in packs:
        blocks = -(-len(pack) // BLOCK) * BLOCK
        if blocks > room:
            joined.append([])
            room = max(length, blocks)
        joined[-1].append(pack)
        room -= blocks
    return [join(some, length) for some in joined]


def join(packs: Sequence[Pack], length: int) -> Pack:
    """Packs in one of at least `length` tokens, each from a block on."""
    begins = np.cumsum([0, *(-(-len(pack) // BLOCK) * BLOCK for pack in packs)])
    n = max(length, int(begins[-1]))
    tokens, positions, parents = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.full(n, ROOT)
    ends, members = np.arange(1, n + 1), np.full(n, FILLER)
    for begin, pack in zip(begins.tolist(), packs, strict=False):
        here = slice(begin, begin + len(pack))
        tokens[here], positions[here], members[here] = pack.tokens, pack.positions, pack.members
        parents[here] = np.where(pack.parents == ROOT, ROOT, pack.parents + begin)
        ends[here] = pack.ends + begin
    rows = np.concatenate([pack.rows + begin for begin, pack in zip(begins, packs, strict=False)])
    return Pack(tokens, positions, parents, ends, members, rows, tuple(zip(begins.tolist(), packs, strict=False)))


def _needed(parents: Sequence[int], nodes: Sequence[int]) -> list[int]:
    """Nodes and all their ancestors."""
    seen, needed = bytearray(len(parents) + 1), []
    seen[ROOT] = 1  # the last entry: the parent of first tokens
    for node in nodes:
        above = node
        while not seen[above]:
            seen[above] = 1
            needed.append(above)
            above = parents[above]
    return needed


def _missing(parents: Sequence[int], number: Sequence[int], pack: int, node: int) -> list[int]:
    """A node and those of its ancestors that are not in a pack."""
    needed = []
    while node != ROOT and number[node] != pack:
        needed.append(node)
        node = parents[node]
    return needed


def _make_pack(tree: TokenTree, inside: list[int], rows: list[int]) -> Pack:
    nodes = np.array(sorted(inside), dtype=np.int64)  # parents before children
    local = np.full(len(tree) + 1, ROOT)  # of each node; the last entry is for the parent of first tokens
    local[nodes] = np.arange(len(nodes))
    depths, above = _of(tree.depths, nodes), local[_of(tree.parents, nodes)]
    parents = above.tolist()
    sizes, heir = _below(parents, depths.tolist())
    free = [0] * (len(nodes) + 1)  # where the next child of each node goes; the last entry is for first tokens
    free[ROOT] = 0 if heir[ROOT] == ROOT else sizes[heir[ROOT]]
    places = [0] * len(nodes)
    for i, parent in enumerate(parents):
        if heir[parent] == i:
            places[i] = 0 if parent == ROOT else places[parent] + 1
        else:
            places[i] = free[parent]
            free[parent] += sizes[i]
        free[i] = places[i] + 1 + (sizes[heir[i]] if heir[i] != ROOT else 0)
    place = np.array(places, dtype=np.int64)
    order = np.argsort(place)
    members, above = nodes[order], above[order]
    return Pack(
        tokens=_of(tree.tokens, members),
        positions=depths[order],
        parents=np.where(above == ROOT, ROOT, place[above]),
        ends=np.arange(len(nodes)) + np.array(sizes, dtype=np.int64)[order],
        members=members,
        rows=place[local[rows]],
    )


def _of(numbers: Sequence[int], nodes: Ints) -> Ints:
    return np.fromiter(map(numbers.__getitem__, nodes.tolist()), np.int64, len(nodes))


def _below(parents: Sequence[int], depths: Sequence[int]) -> tuple[list[int], list[int]]:
    """Of each node, parents before children: how many nodes its subtree has, and the first of its children above its
    deepest leaf, or ROOT. The last entries are for the parent of first tokens.
    """
    sizes, deepest, heir = [1] * len(parents) + [1], [*depths, -1], [ROOT] * (len(parents) + 1)
    for i in range(len(parents) - 1, -1, -1):
        parent = parents[i]
        sizes[parent] += sizes[i]
        if deepest[i] >= deepest[parent]:
            deepest[parent], heir[parent] = deepest[i], i
    return sizes, heir
