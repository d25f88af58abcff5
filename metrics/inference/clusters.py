"""Complete rows with their clusters, and the bootstrap of clusters (METRICS 0.2, 0.6, F1): what is resampled is the
unit that was sampled, never a row.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..contract import RESAMPLING, Floats, Resampling, floats, probabilities, row_counts


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
        each = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise ValueError(f"lengths differ: {each}; give one value per row in each")
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


def complete_beliefs(groups: ArrayLike | None = None, **columns: ArrayLike) -> Rows:
    """`complete_numbers` of columns [n] of probabilities; a scalar is one row."""
    beliefs = {name: np.atleast_1d(probabilities(column, name)) for name, column in columns.items()}
    return complete_numbers(groups, **beliefs)


def missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    """[n] whether a row has a hole."""
    holes = np.asarray(pd.isna(column))
    return np.any(holes, axis=tuple(range(1, holes.ndim)))


BLOCK = 256
"""Resamples that are held in memory at once, by the bootstrap and by the permutation tests, of few clusters."""
AT_ONCE = 2_000_000
"""Clusters of all sign vectors held at once: of many clusters fewer of these, so that memory is bounded."""
RESAMPLED_AT_ONCE = BLOCK * 1000
"""The same of the bootstrap."""
ROWS_ALIKE = 16
"""Rows that matrix products sum in one way; of fewer, which are left over, their last bits may differ."""


def bootstrap_rows(
    statistic: Callable[[NDArray[np.intp]], float], clusters: ArrayLike, *, how: Resampling = RESAMPLING
) -> Floats:
    """Cluster bootstrap of any statistic: whole clusters with replacement, everything recomputed.

    `statistic` is given the row numbers of one resample. Returns [draws]. This is the reference that
    `bootstrap_moments` must agree with.
    """
    codes, n_clusters = cluster_codes(clusters, len(np.asarray(clusters)))
    rows_of = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes, minlength=n_clusters))[:-1])
    blocks = picks(n_clusters, how.n_draws, how.seed)
    return np.array([statistic(np.concatenate([rows_of[g] for g in pick])) for block in blocks for pick in block])


def bootstrap_moments(
    moments: ArrayLike, clusters: ArrayLike, statistic: Callable[[Floats], Floats], *, how: Resampling = RESAMPLING
) -> Floats:
    """Cluster bootstrap of a statistic that is a function of sums over rows, without a loop.

    Args:
        moments: [n, k], what is summed over the rows.
        clusters: [n].
        statistic: maps sums [draws, k] to values [draws].

    The rows are read once; a draw costs as many operations as there are clusters. Beside the sums by cluster
    and the sums of each draw, memory is some ten megabytes, or half a kilobyte a cluster where that is more.
    """
    moments = np.asarray(moments, dtype=np.float64)
    codes, n_clusters = cluster_codes(clusters, len(moments))
    sums = cluster_sums(moments, codes, n_clusters)
    resampled = [cluster_counts(block, n_clusters) @ sums for block in picks(n_clusters, how.n_draws, how.seed)]
    return statistic(np.concatenate(resampled))


def block_size(n_clusters: int) -> int:
    """Sign vectors of G clusters that fit into memory at once, and at most `BLOCK`."""
    return min(BLOCK, max(1, AT_ONCE // n_clusters))


def resamples_at_once(n_clusters: int) -> int:
    """Resamples of G clusters that the bootstrap holds at once, at most `BLOCK`; what it sums does not depend on it."""
    return min(BLOCK, max(1, RESAMPLED_AT_ONCE // n_clusters // ROWS_ALIKE) * ROWS_ALIKE)


def blocks_of(draws: int, block: int = BLOCK) -> Iterator[int]:
    """Sizes of the blocks, at most `block`, that `draws` resamples are made in."""
    for start in range(0, draws, block):
        yield min(block, draws - start)


def cluster_counts(picks: NDArray[np.int64], n_clusters: int) -> Floats:
    """How often each resample [draws, G] takes each cluster; [draws, G]."""
    cells = picks + n_clusters * np.arange(len(picks))[:, None]
    counts = np.bincount(cells.ravel(), minlength=len(picks) * n_clusters)
    return counts.reshape(len(picks), n_clusters).astype(np.float64)


def picks(n_clusters: int, draws: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of the clusters that each resample takes, in blocks [draws of it, G].

    The generator fills row by row, so the numbers do not depend on the blocks.
    """
    rng = np.random.default_rng(seed)
    for size in blocks_of(draws, resamples_at_once(n_clusters)):
        yield rng.integers(0, n_clusters, size=(size, n_clusters))
