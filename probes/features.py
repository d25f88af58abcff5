"""Where activations are read and where they come from, and the site rule: where the answer is read, a probe recovers
the logits and shows nothing (PROBES 12).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
import pandas as pd

from ..base.errors import UserError, nearest
from ..hooks.prompts.places import Position
from ..hooks.store import ActivationStore
from ..hooks.store.header import OF_OPTION
from ..metrics.contract import Floats


class ReadAt(NamedTuple):
    """Where one set of features is read."""

    site: str
    """As the store names it: `resid_post`, `attn_out`, `head_out`, ..."""
    layer: int
    position: str
    """Its name in the store."""
    head: int | None = None
    """Of a site that has heads; None: all of them together."""

    def __str__(self) -> str:
        return f"{self.site}.{self.layer}{'' if self.head is None else f'.h{self.head}'}@{self.position}"


class Features(Protocol):
    """Activations of [n] rows, in their order."""

    def read(self, at: ReadAt) -> Floats:
        """[n, d]. Raises UserError for a place that is not there."""
        ...


@dataclass(frozen=True)
class ArrayFeatures:
    """Features held in memory, from anywhere."""

    arrays: Mapping[ReadAt, Floats]
    """[n, d] each."""

    def read(self, at: ReadAt) -> Floats:
        """See `Features`."""
        if at not in self.arrays:
            raise UserError(f"features: nothing was given at {at}; {nearest(str(at), map(str, self.arrays))}")
        return np.asarray(self.arrays[at], dtype=np.float64)


@dataclass(frozen=True)
class StoreFeatures:
    """Features of rows that lie in stores of activations; one layer of them is in memory at a time."""

    stores: Sequence[ActivationStore]
    store: Sequence[int]
    """[n] which store a row lies in."""
    readout_ids: Sequence[str]
    """[n]."""
    n_heads: int | None = None
    """Of the site `head_out`."""
    options: Sequence[int] = ()
    """[n] number of the option that a row is about, where it is about one."""

    def read(self, at: ReadAt) -> Floats:
        """See `Features`. Raises UserError for a row that has no activations there, naming it."""
        features: Floats | None = None
        which, wanted = np.asarray(self.store), np.asarray(self.readout_ids)
        if at.position == OF_OPTION and len(self.options):
            number = np.asarray(self.options)
            for option in np.unique(number):
                rows_of = np.flatnonzero(number == option)
                part = StoreFeatures(self.stores, which[rows_of].tolist(), wanted[rows_of].tolist(), self.n_heads)
                values = part.read(at._replace(position=f"{OF_OPTION}-{option}"))
                features = np.full((len(number), values.shape[1]), np.nan) if features is None else features
                features[rows_of] = values
            assert features is not None
            return features
        for number, store in enumerate(self.stores):
            rows_of = np.flatnonzero(which == number)
            names = set(wanted[rows_of])

            def wants(rows: pd.DataFrame, names: set[str] = names) -> "pd.Series[bool]":
                return rows["readout_id"].isin(names)

            rows, values = store.read(layer=at.layer, site=at.site, position=at.position, where=wants)
            place = pd.Index(rows["readout_id"]).get_indexer(pd.Index(wanted[rows_of]))
            if (place < 0).any():
                lost = wanted[rows_of][int(np.argmax(place < 0))]
                raise UserError(f"{store.path}: has no activations of {lost!r} at {at}")
            if features is None:
                features = np.full((len(wanted), values.shape[1]), np.nan)
            features[rows_of] = values[place]
        assert features is not None
        return features if at.head is None else self._head(features, at)

    def _head(self, values: Floats, at: ReadAt) -> Floats:
        if not self.n_heads or not 0 <= (at.head or 0) < self.n_heads:
            raise UserError(f"features: {at.site} has {self.n_heads or 'no'} heads; there is no head {at.head}")
        width = values.shape[1] // self.n_heads
        return values[:, (at.head or 0) * width : ((at.head or 0) + 1) * width]


ReadingSite = Literal["before the question", "read-out", "unknown"]
"""`before the question`: at least one message before the one that asks for the answer. `read-out`: in the message that
asks, or after it. `unknown`: nothing tells."""
TARGETS = {"exact": "the exact belief", "verbal": "the stated belief", "outcome": "the truth"}
"""What the targets with names of their own are called in words."""
WHERE: dict[ReadingSite, str] = {
    "before the question": "lies before the question",
    "read-out": "lies in the question or after it (a read-out)",
    "unknown": "lies before or after the question: nothing tells which",
}
"""In words, after `which`."""
OF_ARRAYS = "own"
"""The position of activations that are given as arrays."""
AT_THE_ANSWER = ("last", "before_answer", "thought")
BELIEF, READ_OUT, DECODED, NOTHING = "latent belief", "read-out", "decoded information", "nothing decodable"
UNSURE, TOO_FEW, UNTESTED = "not shown to be decodable", "too few groups to say", "not tested for what it holds"
NO_BELIEF = (TOO_FEW, UNTESTED, UNSURE, NOTHING)
"""What is no belief, wherever it was read."""


def reading_site(place: Position, n_messages: int) -> ReadingSite:
    """Where a position lies in a conversation whose last message asks for the answer.

    Args:
        n_messages: of the conversation that is read, without the answer.
    """
    if place.at in AT_THE_ANSWER:
        return "read-out"
    if place.message is None or not -n_messages <= place.message < n_messages:
        return "unknown"
    number = place.message % n_messages
    inside = number if place.at != "before" else number - 1  # `before` ends where the message before it does
    return "before the question" if inside < n_messages - 1 else "read-out"


def name_of(site: ReadingSite, decodable: str, needed: Iterable[bool]) -> str:
    """What the values of a probe may be called: never a belief at a read-out site; by the verdict on the claim that the
    target is `decodable` nothing, unless it is supported; and a latent belief only if all that the word claims is
    supported.
    """
    if site != "before the question":
        return READ_OUT
    if decodable != "supported":
        return {"not tested": TOO_FEW, "not shown": UNSURE}.get(decodable, NOTHING)
    return BELIEF if all(needed) else DECODED
