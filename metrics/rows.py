"""Which rows enter a metric: complete ones only, counted, with their clusters (METRICS 0.2, 0.6)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .resampling import cluster_codes
from .validation import Floats


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The complete rows of some columns."""

    columns: tuple[Floats, ...]
    codes: NDArray[np.intp]
    """[n] number of each row's cluster. Without groups every row is a cluster of its own."""
    n_clusters: int
    kept: NDArray[np.bool_]
    """[rows given] which of the rows given these are."""
    counts: dict[str, Any]
    """What a Score says about its rows: n_rows, n_clusters, n_dropped, reasons."""

    @property
    def n(self) -> int:
        """How many rows are complete."""
        return len(self.codes)


def complete_rows(groups: ArrayLike | None = None, **columns: Floats) -> Rows:
    """Drop every row in which a column is NaN, and count it.

    Args:
        groups: [n] cluster of each row; all must be given, also those of rows that will be dropped.
        columns: arrays [n], named as the user knows them.

    Raises ValueError if a column is not one-dimensional, holds an infinity, or lengths differ.
    """
    n = None
    for name, column in columns.items():
        if column.ndim != 1:
            raise ValueError(f"{name}: shape {column.shape}; give one number per row")
        if np.isinf(column).any():
            raise ValueError(f"{name}: row {int(np.argmax(np.isinf(column)))} is infinite; give NaN if missing")
        if n is not None and len(column) != n:
            lengths = ", ".join(f"{key} {len(value)}" for key, value in columns.items())
            raise ValueError(f"lengths differ: {lengths}; give one value per row in each")
        n = len(column)
    assert n is not None
    kept = np.logical_and.reduce([np.isfinite(column) for column in columns.values()])
    labels = np.arange(n) if groups is None else cluster_codes(groups, n)[0]
    codes, n_clusters = cluster_codes(labels[kept], int(kept.sum()))
    n_dropped = int((~kept).sum())
    return Rows(
        columns=tuple(column[kept] for column in columns.values()),
        codes=codes,
        n_clusters=n_clusters,
        kept=kept,
        counts={
            "n_rows": len(codes),
            "n_clusters": n_clusters,
            "n_dropped": n_dropped,
            "reasons": {"undefined": n_dropped} if n_dropped else {},
        },
    )


def floats(values: ArrayLike) -> Floats:
    """Values as float64, for columns that are not probabilities."""
    return np.asarray(values, dtype=np.float64)


def one_of(value: object, allowed: tuple[str, ...], name: str) -> None:
    """Raise unless an option has one of its values."""
    if value not in allowed:
        raise ValueError(f"{name}: {value!r} is unknown; use one of {', '.join(allowed)}")
