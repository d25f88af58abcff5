"""The samples that are not finished, as arrays: what a step does to them is a few calls, however many they are."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..tree.tree import Ints
from .sampling import random_generator

if TYPE_CHECKING:
    from .generation import Request
    from .rows import Ids

AHEAD = 32
"""Tokens of a sample whose random numbers are made at once: the same numbers, in fewer calls."""
_BITS = 32  # of a token's id


class EndedSample(NamedTuple):
    """A sample that ended."""

    place: int
    """Among all draws."""
    request: "Request"
    draw: int
    ids: list[int]
    logp: list[float]


class LiveSamples:
    """Samples that grow by one token at a step, all together. Each has a slot of the arrays, which it leaves to another
    when it ends.

    Args:
        requests: whose draws begin in this order.
        slots: samples at once, at most.
        limit: tokens of a sample, at most.
        per_token: random numbers that a token takes.
        seed: of the run.
    """

    def __init__(self, requests: "Sequence[Request]", *, slots: int, limit: int, per_token: int, seed: int) -> None:
        self.waiting = deque(enumerate((request, draw) for request in requests for draw in request.draws))
        self.seed = seed
        self.rows, self.lengths, self._slots = np.zeros((3, 0), dtype=np.int64)
        """[samples] the row of histories that each goes on from; how many tokens it has; its slot."""
        self._free = deque(range(slots))
        self._parted = False  # whether no two go on from one row
        self._ids = np.empty((slots, limit), dtype=np.int64)
        self._logp = np.empty((slots, limit))
        self._numbers = np.empty((slots, min(AHEAD, limit), per_token))
        self._owners: dict[int, tuple[int, Request, int, np.random.Generator]] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def admit(self, first: int) -> "list[Ids]":
        """Fill the free slots.

        Returns: the prompts of the new samples, each once, in the order of the rows that they have from `first` on.
        """
        row: dict[Ids, int] = {}
        new = []
        while self._free and self.waiting:
            (place, (request, draw)), slot = self.waiting.popleft(), self._free.popleft()
            own = row.setdefault(request.prompt.ids, first + len(row))
            self._owners[slot] = (place, request, draw, random_generator(self.seed, request.readout_id, draw))
            new.append((own, 0, slot))
        begun = np.array(new, dtype=np.int64).reshape(-1, 3).T
        self._parted = False
        self.rows, self.lengths, self._slots = np.hstack([[self.rows, self.lengths, self._slots], begun])
        return list(row)

    def name(self, sample: int) -> str:
        """The read-out that a sample is of."""
        return self._owners[int(self._slots[sample])][1].readout_id

    def numbers(self) -> NDArray[np.float64]:
        """[samples, per_token] the random numbers of the next tokens, to be asked for once for each."""
        ahead = self.lengths % self._numbers.shape[1]
        for slot in self._slots[ahead == 0].tolist():
            self._owners[slot][-1].random(out=self._numbers[slot])
        return self._numbers[self._slots, ahead]

    def append(self, tokens: Ints, logp: NDArray[np.float64]) -> None:
        """Give each sample its next token [samples], and that token's log-probability."""
        self._ids[self._slots, self.lengths] = tokens
        self._logp[self._slots, self.lengths] = logp
        self.lengths = self.lengths + 1

    def last(self, n: int) -> list[list[int]]:
        """The last n tokens of each sample, or all that it has."""
        ends = zip(self._slots.tolist(), self.lengths.tolist(), strict=True)
        return [self._ids[slot, max(0, end - n) : end].tolist() for slot, end in ends]

    def leave(self, ended: NDArray[np.bool_]) -> list[EndedSample]:
        """Take out those [samples] that ended."""
        found = []
        for slot, length in zip(self._slots[ended].tolist(), self.lengths[ended].tolist(), strict=True):
            place, request, draw, _ = self._owners.pop(slot)
            tokens, logp = self._ids[slot, :length].tolist(), self._logp[slot, :length].tolist()
            found.append(EndedSample(place, request, draw, tokens, logp))
            self._free.append(slot)
        self.rows, self.lengths, self._slots = (one[~ended] for one in (self.rows, self.lengths, self._slots))
        return found

    def part(self) -> tuple[Ints, Ints]:
        """Give samples that are alike, up to their last tokens, a row of their own.

        Returns: [rows] the row that each goes on from, and the token by which it does.
        """
        tokens = self._ids[self._slots, self.lengths - 1]
        if self._parted:  # for good: what parted is not alike again
            order = np.argsort(self.rows)
            parents = self.rows[order]
            self.rows = np.empty_like(parents)
            self.rows[order] = np.arange(len(order))
            return parents, tokens[order]
        distinct, self.rows = np.unique(self.rows << _BITS | tokens, return_inverse=True)
        self._parted = len(distinct) == len(self.rows)
        return distinct >> _BITS, distinct & (1 << _BITS) - 1
