"""A probe data set: rows, what they share, what is known of them, and where their activations are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...hooks.errors import UserError
from ...metrics.validation import Floats
from ..targets import Target
from .features import Features, ReadAt

COLUMNS = ("readout_id", "group")
"""What every row has. Others, where they are known: `text`; `role`, what a row is within its group; `exact` and
`verbal`, beliefs of the model itself; and conditions to transfer between, such as `domain`, `template`, `negated`."""


@dataclass(frozen=True)
class ProbeData:
    """[n] rows. Two rows that share anything share a group: question, entity, paraphrases, X and not X, prior and
    posterior, repetitions (PROBES 3).
    """

    rows: pd.DataFrame
    target: Target
    features: Features
    points: tuple[ReadAt, ...]
    """Where activations can be read."""

    def __post_init__(self) -> None:
        for name in COLUMNS:
            if name not in self.rows.columns:
                raise UserError(f"probe data: column {name!r} is missing")
        if len(self.rows) != len(self.target.prob):
            raise UserError(f"probe data: {len(self.rows)} rows and {len(self.target.prob)} targets")
        if self.rows["group"].isna().any():
            raise UserError(f"probe data: row {int(np.argmax(self.rows['group'].isna()))} has no group")
        if not self.points:
            raise UserError("probe data: there is no site, layer and position to read")

    @property
    def groups(self) -> NDArray[Any]:
        """[n]."""
        return self.rows["group"].to_numpy()

    @property
    def roles(self) -> NDArray[Any] | None:
        """[n] what a row is within its group, if that is known."""
        return self.rows["role"].to_numpy() if "role" in self.rows.columns else None

    @property
    def n_groups(self) -> int:
        """How many there are."""
        return int(self.rows["group"].nunique())

    def read(self, at: ReadAt) -> Floats:
        """[n, d] features. Raises UserError for another shape, and for one that is no number, naming the read-out."""
        x = self.features.read(at)
        if x.ndim != 2 or len(x) != len(self.rows):
            raise UserError(f"features: have shape {list(x.shape)} at {at}; give [rows, d], of {len(self.rows)} rows")
        if (bad := ~np.isfinite(x).all(axis=1)).any():
            name = self.rows["readout_id"].iloc[int(np.argmax(bad))]
            raise UserError(f"features: {name!r} at {at} holds a value that is no number; leave the row out")
        return x

    def at(self, points: Sequence[ReadAt]) -> "ProbeData":
        """The same at some of its points."""
        return replace(self, points=tuple(points))
