"""The cluster bootstrap (METRICS F1): what is resampled is the unit that was sampled, never a row."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..validation import Floats, check_draws
from .rows import cluster_codes, cluster_sums

BLOCK = 256
"""Resamples that are held in memory at once, by the bootstrap and by the permutation tests, of few clusters."""
AT_ONCE = 2_000_000
"""Clusters of all sign vectors held at once: of many clusters fewer of these, so that memory is bounded."""
RESAMPLED_AT_ONCE = BLOCK * 1000
"""The same of the bootstrap."""
ROWS_ALIKE = 16
"""Rows that matrix products sum in one way; of fewer, which are left over, their last bits may differ."""


def bootstrap_rows(
    statistic: Callable[[NDArray[np.intp]], float], clusters: ArrayLike, *, seed: int, draws: int = 2000
) -> Floats:
    """Cluster bootstrap of any statistic: whole clusters with replacement, everything recomputed.

    `statistic` is given the row numbers of one resample. Returns [draws]. This is the reference that
    `bootstrap_moments` must agree with.
    """
    codes, n_clusters = cluster_codes(clusters, len(np.asarray(clusters)))
    rows_of = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes, minlength=n_clusters))[:-1])
    blocks = picks(n_clusters, draws, seed)
    return np.array([statistic(np.concatenate([rows_of[g] for g in pick])) for block in blocks for pick in block])


def bootstrap_moments(
    moments: ArrayLike,
    clusters: ArrayLike,
    statistic: Callable[[Floats], Floats],
    *,
    seed: int,
    draws: int = 2000,
) -> Floats:
    """Cluster bootstrap of a statistic that is a function of sums over rows, without a loop.

    Args:
        moments: [n, k], what is summed over the rows.
        clusters: [n].
        statistic: maps sums [draws, k] to values [draws].
        seed: the same seed draws the same clusters as `bootstrap_rows`.
        draws: number of resamples.

    The rows are read once; a draw costs as many operations as there are clusters. Beside the sums by cluster
    and the sums of each draw, memory is some ten megabytes, or half a kilobyte a cluster where that is more.
    """
    moments = np.asarray(moments, dtype=np.float64)
    codes, n_clusters = cluster_codes(clusters, len(moments))
    sums = cluster_sums(moments, codes, n_clusters)
    resampled = [cluster_counts(block, n_clusters) @ sums for block in picks(n_clusters, draws, seed)]
    return statistic(np.concatenate(resampled))


def block_size(n_clusters: int) -> int:
    """Sign vectors of G clusters that fit into memory at once, and at most `BLOCK`."""
    return min(BLOCK, max(1, AT_ONCE // n_clusters))


def resamples_at_once(n_clusters: int) -> int:
    """Resamples of G clusters that the bootstrap holds at once, at most `BLOCK`; what it sums does not depend on it."""
    return min(BLOCK, max(1, RESAMPLED_AT_ONCE // n_clusters // ROWS_ALIKE) * ROWS_ALIKE)


def blocks_of(draws: int, block: int = BLOCK) -> Iterator[int]:
    """Sizes of the blocks, at most `block`, that `draws` resamples are made in."""
    check_draws(draws)
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
