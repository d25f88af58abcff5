"""The token tree: all prompts and all options of a batch, every shared token once; and its packs.

A *pack* is a set of nodes, closed under ancestors, that one forward pass computes, or several that go on from each
other's keys and values. A token attends to its ancestors alone and stands at its depth, so each path reads exactly as
it would alone.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

ROOT = -1
"""The parent of a first token."""

FILLER = -1
"""The node of a token that is nobody's."""
BLOCK = 128
"""Tokens of a block: where attention goes by blocks, each way, and where packs that are joined begin."""

DENSE = 4096
"""Tokens of a pass that goes on from others, at most: its mask over all that it sees is held whole."""
REPEATED = 0.05
"""Of the tokens that are needed: more are not run again in further packs, where passes can go on from each other."""

Ints = NDArray[np.int64]


class TokenTree:
    """A prefix tree over token ids. Nodes are numbered in the order in which they were added."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        self.marks: dict[int, Hashable] = {}
        """Of nodes that are no plain tokens, what sets them apart from others at the same place."""
        self._child: dict[tuple[int, int, Hashable], int] = {}
        self._latest: tuple[tuple[int, ...], list[int]] = (), []

    def __len__(self) -> int:
        return len(self.tokens)

    def add(
        self, ids: Sequence[int], below: int = ROOT, *, apart: bool = False, marks: Sequence[Hashable] | None = None
    ) -> list[int]:
        """Walk `ids` down from the node `below`, making what is missing; returns the node of each id.

        Args:
            apart: make a branch of its own, even beside equal tokens, into which no later walk leads.
            marks: of each id, what sets it apart from the same token at the same place, or None. Equal ids with equal
                marks are one node.
        """
        ids = tuple(ids)
        path, plain = list[int](), below == ROOT and not apart and marks is None
        marks = marks or (None,) * len(ids)
        if plain and (shared := _shared(ids, self._latest[0])):  # prompts that follow each other begin alike
            path = self._latest[1][:shared]
            below = path[-1]
        for key in () if apart else zip(ids[len(path) :], marks[len(path) :], strict=True):
            node = self._child.get((below, *key))
            if node is None:
                break
            path.append(node)
            below = node
        rest, first = len(path), len(self.tokens)
        if fresh := range(first, first + len(ids) - rest):
            path += self._make(ids[rest:], [below, *fresh[:-1]], marks[rest:], reached=not apart)
        if plain:
            self._latest = ids, path
        return path

    def add_graft(self, graft: "Graft", below: int, mark: Hashable | None = None) -> Ints:
        """Walk all paths of a graft down from the node `below`, all of one mark; returns the nodes of `graft.nodes`.

        Below what was added last there is nothing yet, and the graft is copied.
        """
        first = len(self.tokens)
        if below == first - 1:
            parents = [below if parent == ROOT else first + parent for parent in graft.parents]
            self._make(graft.tokens, parents, [mark] * len(parents))
            return graft.nodes + first
        nodes, fresh = list[int](), list[tuple[int, int, Hashable]]()
        for token, parent in zip(graft.tokens, graft.parents, strict=True):
            key = below if parent == ROOT else nodes[parent], token, mark
            node = self._child.get(key)
            if node is None:
                node = self._child[key] = first + len(fresh)
                fresh.append(key)
            nodes.append(node)
        self._make([token for _, token, _ in fresh], [above for above, _, _ in fresh], [mark] * len(fresh))
        return np.array(nodes, dtype=np.int64)[graft.nodes]

    def _make(
        self, tokens: Sequence[int], parents: Sequence[int], marks: Sequence[Hashable], *, reached: bool = True
    ) -> range:
        """New nodes, and whether later walks come to them."""
        nodes = range(len(self.tokens), len(self.tokens) + len(tokens))
        if reached:
            self._child.update(zip(zip(parents, tokens, marks, strict=True), nodes, strict=True))
        if marks.count(None) < len(marks):
            self.marks.update((node, mark) for node, mark in zip(nodes, marks, strict=True) if mark is not None)
        self.tokens += tokens
        self.parents += parents
        for parent in parents:
            self.depths.append(self.depths[parent] + 1 if parent != ROOT else 0)
        return nodes

    def begin(self) -> None:
        """What is added from here on shares nothing with what is there."""
        self._child.clear()
        self._latest = (), []

    def ancestors(self, node: int) -> list[int]:
        """The path from the first token to `node`, which is included."""
        return _path(self.parents, node)


def _path(parents: Sequence[int] | Ints, node: int) -> list[int]:
    """From a node without a parent down to `node`."""
    path = []
    while node != ROOT:
        path.append(node)
        node = int(parents[node])
    return path[::-1]


class Graft:
    """Paths of ids as a tree that is put below any node: its own nodes count from 0.

    Args:
        paths: each of at least one token.
    """

    def __init__(self, paths: Iterable[Sequence[int]]) -> None:
        tree = TokenTree()
        walked = [tree.add(ids) for ids in paths]
        self.tokens, self.parents = tree.tokens, tree.parents
        self.nodes: Ints = np.array([node for path in walked for node in path], dtype=np.int64)
        """Of every token of every path, one after the other."""
        self.lengths: Ints = np.array([len(path) for path in walked], dtype=np.int64)
        """Tokens of each path."""


def _shared(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """With how many ids both begin."""
    least, most = 0, min(len(first), len(second))
    while least < most:
        middle = (least + most + 1) // 2
        if first[least:middle] == second[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least


@dataclass(frozen=True)
class Pack:
    """What is computed together: T tokens of a tree, depth first, and R of them to be read."""

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
    most: int = 0
    """Tokens of a forward pass, where it takes several; 0: one computes all."""

    @property
    def nodes(self) -> Ints:
        """[R] the tree's node at each row."""
        return self.members[self.rows]

    @property
    def trunk(self) -> int:
        """How many of the first tokens are one path."""
        return int((np.cumsum(self.parents != np.arange(-1, len(self) - 1)) == 0).sum())

    @property
    def widest(self) -> tuple[int, int]:
        """Most tokens of a forward pass, and how many they see at most: rows and columns of its mask."""
        if not self.most:
            return len(self), len(self)
        return self.most, min(len(self), int(self.positions.max()) + self.most)

    def __len__(self) -> int:
        return len(self.tokens)

    def path(self, token: int) -> Ints:
        """Indices within the pack of the tokens from the first one down to `token`, which is included."""
        return np.array(_path(self.parents, token), dtype=np.int64)

    def visible(self) -> NDArray[np.bool_]:
        """[T, T]: whether token i sees token j, that is, whether j is i or an ancestor of i."""
        place = np.arange(len(self))[:, None]
        return (place >= place.T) & (place < self.ends)


def cut_into_packs(tree: TokenTree, read: Iterable[int], budget: int, *, continues: bool = False) -> list[Pack]:
    """Cut the part of the tree that `read` needs into packs of at most `budget` tokens.

    Each node of `read` is a row of exactly one pack; ancestors are repeated where a pack needs them. A path
    longer than the budget is a pack of its own.

    `continues`: instead of that, and of repeating more than a few, give one pack that takes several forward passes of
    so many tokens.
    """
    numbers = [np.array(values, dtype=np.int64) for values in (tree.tokens, tree.parents, tree.depths)]
    rows = sorted(set(read))
    needed = _with_ancestors(tree, rows) if continues and rows else []
    most_repeated = REPEATED * len(needed) if continues else np.inf
    packs, repeated = list[tuple[list[int], list[int]]](), 0
    for inside, nodes in _cut(tree, rows, budget):
        packs.append((inside, nodes))
        repeated += len(inside)
        if continues and (len(inside) > budget or repeated > len(needed) + most_repeated):
            return [replace(_make_pack(numbers, needed, rows), most=min(budget, DENSE))]
    return [_make_pack(numbers, *pack) for pack in packs]


def _cut(tree: TokenTree, rows: Iterable[int], budget: int) -> Iterator[tuple[list[int], list[int]]]:
    """The nodes of each pack, and those of them that are read."""
    parents = tree.parents
    latest = [-1] * len(tree) + [0]  # the last pack that each node is in; the parent of first tokens is in all
    inside, read = list[int](), list[int]()
    number = 0
    for node in rows:  # up from each node to the first ancestor that this pack holds already
        known, above = len(inside), node
        while latest[above] != number:
            latest[above] = number
            inside.append(above)
            above = parents[above]
        if read and len(inside) > budget:  # without this node the pack was full; it begins the next, with its path
            yield inside[:known], read
            number = latest[ROOT] = number + 1
            inside, read = tree.ancestors(node)[::-1], []
            for above in inside:
                latest[above] = number
        read.append(node)
    if read:
        yield inside, read


def _with_ancestors(tree: TokenTree, nodes: Sequence[int]) -> list[int]:
    """Nodes and all above them, each once."""
    (every,) = _cut(tree, nodes, len(tree))
    return every[0]


def join_packs(packs: Sequence[Pack], length: int) -> list[Pack]:
    """Packs together in longer ones, in their order, each of `length` tokens whatever is in it, and each piece from a
    block on: then what a piece reads does not depend on its neighbours. One that is too long stays alone, and one that
    takes several passes as it is.
    """
    joined: list[list[Pack]] = []
    room = 0
    for pack in packs:
        if pack.most:
            continue
        blocks = -(-len(pack) // BLOCK) * BLOCK
        if blocks > room:
            joined.append([])
            room = max(length, blocks)
        joined[-1].append(pack)
        room -= blocks
    return [*(pack for pack in packs if pack.most), *(join(some, length) for some in joined)]


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


def _make_pack(numbers: Sequence[Ints], inside: Sequence[int], rows: Sequence[int]) -> Pack:
    """A pack of nodes, of a tree's tokens, parents and depths."""
    tokens, tree_parents, tree_depths = numbers
    nodes = np.sort(np.array(inside, dtype=np.int64))  # parents before children
    local = np.full(len(tokens) + 1, ROOT)  # of each node; the last entry is for the parent of first tokens
    local[nodes] = np.arange(len(nodes))
    depths, above = tree_depths[nodes], local[tree_parents[nodes]]
    parents = above.tolist()
    sizes, heir = _below(parents, depths.tolist())
    free = [0] * (len(nodes) + 1)  # where the next child of each node goes; the last entry is for first tokens
    free[ROOT] = sizes[heir[ROOT]]
    places = [0] * len(nodes)
    # Places in depth-first order: the child above the deepest leaf right behind its parent, the others behind its
    # whole subtree, each taking as many places as its own subtree has nodes.
    for i, parent in enumerate(parents):
        if heir[parent] == i:
            at = 0 if parent == ROOT else places[parent] + 1
        else:
            at = free[parent]
            free[parent] = at + sizes[i]
        places[i] = at
        first_child = heir[i]
        free[i] = at + 1 if first_child == ROOT else at + 1 + sizes[first_child]
    place = np.array(places, dtype=np.int64)
    order = np.argsort(place)
    members, above = nodes[order], above[order]
    return Pack(
        tokens=tokens[members],
        positions=depths[order],
        parents=np.where(above == ROOT, ROOT, place[above]),
        ends=np.arange(len(nodes)) + np.array(sizes[:-1], dtype=np.int64)[order],
        members=members,
        rows=place[local[rows]],
    )


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
