"""Which rows enter a metric: complete ones only, counted, with their clusters (METRICS 0.2, 0.6)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..score import row_counts
from ..validation import Floats, floats


def cluster_codes(clusters: ArrayLike, n: int) -> tuple[NDArray[np.intp], int]:
    """Number the clusters 0..G-1 and return (code of each row, G): the one source of cluster identity.

    Raises ValueError if there are not `n` of them or one is missing.
    """
    labels = np.asarray(clusters)
    if labels.shape != (n,):
        raise ValueError(f"clusters: shape {labels.shape} for {n} rows; give one per row")
    codes, unique = pd.factorize(labels)
    if (codes < 0).any():
        raise ValueError(f"clusters: row {int(np.argmin(codes))} has none; every row needs its cluster")
    return codes, len(unique)


def cluster_sums(values: Floats, codes: NDArray[np.intp], n_clusters: int) -> Floats:
    """Sums [G, ...] of the rows [n, ...] of each cluster."""
    sums = np.zeros((n_clusters, *values.shape[1:]))
    np.add.at(sums, codes, values)
    return sums


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The complete rows of some columns."""

    columns: tuple[NDArray[Any], ...]
    codes: NDArray[np.intp]
    """[n] number of each row's cluster. Without groups every row is a cluster of its own."""
    n_clusters: int
    kept: NDArray[np.bool_]
    """[rows given] which of the rows given these are."""

    @property
    def n(self) -> int:
        """How many rows are complete."""
        return len(self.codes)

    @property
    def counts(self) -> dict[str, Any]:
        """What a Score says about its rows: n_rows, n_clusters, n_dropped, reasons."""
        return row_counts(self.n, len(self.kept) - self.n) | {"n_clusters": self.n_clusters}


def complete_rows(groups: ArrayLike | None = None, **columns: ArrayLike) -> Rows:
    """Drop every row in which a column has a hole (NaN, None), and count it.

    Args:
        groups: [n] cluster of each row; all must be given, also those of rows that will be dropped.
        columns: arrays [n] or [n, ...] of anything, named as the user knows them; a scalar is one row.

    Raises ValueError if lengths differ or a cluster is missing.
    """
    arrays = {name: np.atleast_1d(np.asarray(column)) for name, column in columns.items()}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise ValueError(f"lengths differ: {said}; give one value per row in each")
    n = next(iter(lengths.values()))
    kept = ~np.logical_or.reduce([missing(array) for array in arrays.values()])
    labels = np.arange(n) if groups is None else cluster_codes(groups, n)[0]
    codes, n_clusters = cluster_codes(labels[kept], int(kept.sum()))
    return Rows(columns=tuple(a[kept] for a in arrays.values()), codes=codes, n_clusters=n_clusters, kept=kept)


def complete_numbers(groups: ArrayLike | None = None, **columns: ArrayLike) -> Rows:
    """`complete_rows` of columns that must be [n] finite numbers or NaN; anything else raises ValueError."""
    arrays = {name: floats(column) for name, column in columns.items()}
    for name, array in arrays.items():
        if array.ndim != 1:
            raise ValueError(f"{name}: shape {array.shape}; give one number per row")
        if np.isinf(array).any():
            raise ValueError(f"{name}: row {int(np.argmax(np.isinf(array)))} is infinite; give NaN if missing")
    return complete_rows(groups, **arrays)


def missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    """[n] whether a row has a hole."""
    holes = np.asarray(pd.isna(column))
    return np.any(holes, axis=tuple(range(1, holes.ndim)))
