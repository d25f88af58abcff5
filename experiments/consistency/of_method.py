"""The instances of one method as arrays, and what the words alone, without any context, would make of them.

Each read-out is replaced by one that knows how likely each word is on the whole, and nothing of what was said
(METRICS W3). Between two such read-outs the ratio of two words never moves: on two classes they score a perfect 1, and
no score can rise above them. On three classes they give the rejected word its usual share, and can be beaten.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ...metrics import word_identity_null
from ...metrics.validation import Floats
from ..tables.belief_parts import Made
from ..tables.cells import Array
from ..tables.rows import joined
from .instances import AFTER, BEFORE, MENTIONED, WORDS
from .made import INSTANCES

ABOUT = ("kind", "temperature", "template", "place", "item", "cluster", "why", "rejected", "coverage")
COUNTED = ("n_prior", "n_posterior")
"""Columns of answers; exact beliefs have none."""


@dataclass(frozen=True)
class OfMethod:
    """Instances of one method."""

    kind: str
    method: str
    rows: pd.DataFrame
    """[n] what is known of each, but its masses."""
    before: Floats
    """[n, 3] masses of the words."""
    after: Floats
    alone: Floats
    """[n, 3] shares that the words alone would give, before and after; NaN at other temperatures than 1."""
    keys: Array
    """[n] name of each: its item and place."""

    def chosen(self, rows: Array | pd.Series) -> "OfMethod":
        """Those that a mask [n] chooses."""
        at = np.asarray(rows)
        if at.all():
            return self
        arrays = {name: getattr(self, name)[at] for name in ("before", "after", "alone", "keys")}
        return replace(self, rows=self.rows[at], **arrays)


class Names:
    """Names of rows. Methods whose rows stand at the same places share them."""

    def __init__(self) -> None:
        self._places: tuple[Array, ...] = ()
        self._names = np.zeros(0, dtype=object)

    def of(self, rows: pd.DataFrame) -> Array:
        """[n] of rows whose categories have the same numbers in every method."""
        places = tuple(rows[name].cat.codes.to_numpy() for name in ("item", "place"))
        if not self._places or not all(map(np.array_equal, places, self._places)):
            self._places = places
            self._names = joined(*(rows[name].to_numpy() for name in ("item", "place")))
        return self._names


def of_method(made: Made, method: str, names: Names, further: Sequence[str] = ()) -> OfMethod:
    """All instances of a method, with further columns of theirs."""
    rows = made.read(INSTANCES, method, [*ABOUT, *COUNTED, *further]).reset_index(drop=True)
    if (rows["n_prior"] + rows["n_posterior"]).isna().all():
        rows = rows.drop(columns=[*COUNTED])
    before, after = _masses(made, method, BEFORE), _masses(made, method, AFTER)
    alone = _alone(made, method, rows, before, after)
    return OfMethod(str(rows["kind"].iloc[0]), method, rows, before, after, alone, names.of(rows))


def mentioned(made: Made, own: OfMethod) -> Floats:
    """[n, 3] masses after each posterior's question with a reply that decides nothing."""
    every = _masses(made, own.method, MENTIONED)
    return every if len(every) == len(own.rows) else every[own.rows.index]


def _masses(made: Made, method: str, columns: Sequence[str]) -> Floats:
    """[n, 3] of the words."""
    read = made.read(INSTANCES, method, columns)
    return np.array([read[name].to_numpy() for name in columns]).T


def _alone(made: Made, method: str, rows: pd.DataFrame, before: Floats, after: Floats) -> Floats:
    """[n, 3] by the words of each instance, whose prior has the same words."""
    at = np.flatnonzero(rows["temperature"] == 1)
    first = (~rows["item"].iloc[at].duplicated()).to_numpy()  # with each item's first instance comes its prior
    ends = np.arange(len(at)) + np.cumsum(first)
    starts = ends[first] - 1
    read = np.empty((len(at) + len(starts), 3))
    read[ends], read[starts] = after[at], before[at[first]]
    words = np.empty(read.shape, dtype=object)
    for i, name in enumerate(WORDS):
        own = made.read(INSTANCES, method, [name])[name].to_numpy()[at]
        words[ends, i], words[starts, i] = own, own[first]
    clusters = np.empty(len(read), dtype=object)
    clusters[ends] = clusters_of = rows["cluster"].to_numpy()[at]
    clusters[starts] = clusters_of[first]
    with np.errstate(divide="ignore"):
        null = word_identity_null(np.log(read, out=read), words, clusters)
    alone = np.full((3, len(rows)), np.nan).T
    alone[at] = null.null_prob[ends]
    return alone
