"""Uncertainty by clusters (METRICS F1): what is resampled is the unit that was sampled, never a row."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from .score import NAN, Score
from .validation import Floats

MIN_BOOTSTRAP_CLUSTERS = 10
"""Below this a percentile interval is too narrow, and a t interval on clusters is given instead."""
BLOCK = 256
"""Resamples that are held in memory at once."""


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


def bootstrap_rows(
    statistic: Callable[[NDArray[np.intp]], float], clusters: ArrayLike, *, seed: int, draws: int = 2000
) -> Floats:
    """Cluster bootstrap of any statistic: whole clusters with replacement, everything recomputed.

    `statistic` is given the row numbers of one resample. Returns [draws]. This is the reference that
    `bootstrap_moments` must agree with.
    """
    codes, n_clusters = cluster_codes(clusters, len(np.asarray(clusters)))
    rows_of = [np.flatnonzero(codes == g) for g in range(n_clusters)]
    blocks = _picks(n_clusters, draws, seed)
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
    """
    moments = np.asarray(moments, dtype=np.float64)
    codes, n_clusters = cluster_codes(clusters, len(moments))
    sums = np.zeros((n_clusters, moments.shape[1]))
    np.add.at(sums, codes, moments)
    resampled = [cluster_counts(block, n_clusters) @ sums for block in _picks(n_clusters, draws, seed)]
    return statistic(np.concatenate(resampled))


def percentile_interval(draws: Floats, level: float) -> tuple[float, float]:
    """Two-sided percentile interval (linear quantiles) of the draws that are defined."""
    defined = draws[np.isfinite(draws)]
    if not defined.size:
        return NAN, NAN
    lo, hi = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(lo), float(hi)


def bca_interval(draws: Floats, estimate: float, left_out: Floats, level: float) -> tuple[float, float]:
    """Bias-corrected and accelerated interval, for smooth statistics of thirty clusters or more (METRICS F1).

    `draws` [B] are of the cluster bootstrap, `left_out` [G] the statistic without each cluster in turn.
    NaN where it is undefined: draws that all lie on one side of the estimate, or do not vary.
    """
    defined = draws[np.isfinite(draws)]
    if not defined.size or not np.isfinite(left_out).all():
        return NAN, NAN
    below = ((defined < estimate).mean() + (defined <= estimate).mean()) / 2
    pull = left_out.mean() - left_out
    if not 0 < below < 1 or not (pull**2).sum() > 0:
        return NAN, NAN
    bias = stats.norm.ppf(below)
    skew = (pull**3).sum() / (6 * (pull**2).sum() ** 1.5)
    z = bias + stats.norm.ppf([(1 - level) / 2, (1 + level) / 2])
    lo, hi = np.quantile(defined, stats.norm.cdf(bias + z / (1 - skew * z)))
    return float(lo), float(hi)


@dataclass(frozen=True, kw_only=True)
class ClusterMean(Score):
    """A mean over rows with an interval over clusters."""

    headline: ClassVar[str] = "mean"
    mean: float


def cluster_mean(
    values: ArrayLike,
    clusters: ArrayLike,
    *,
    strata: ArrayLike | None = None,
    seed: int,
    draws: int = 2000,
    level: float = 0.95,
) -> ClusterMean:
    """Mean over rows; interval by cluster bootstrap, or by t over clusters when fewer than ten (METRICS F1).

    NaN rows are dropped and counted. `se` is the linearised cluster standard error of the mean.

    Args:
        values: [n].
        clusters: [n], the unit that was sampled.
        strata: [n]; if given, the mean of the strata's means, so that a larger stratum weighs no more.
        seed: of the resamples.
        draws: number of resamples.
        level: of the interval.
    """
    values = np.asarray(values, dtype=np.float64)
    codes, _ = cluster_codes(clusters, len(values))
    groups, n_groups = cluster_codes(np.zeros(len(values)) if strata is None else strata, len(values))
    keep = np.isfinite(values)
    n_dropped = int((~keep).sum())
    values, groups = values[keep], groups[keep]
    codes, n_clusters = cluster_codes(codes[keep], len(values))
    counts: dict[str, Any] = {
        "n_rows": len(values),
        "n_clusters": n_clusters,
        "n_dropped": n_dropped,
        "reasons": {"undefined": n_dropped} if n_dropped else {},
    }
    in_group = np.eye(n_groups)[groups]
    size = in_group.sum(axis=0)
    if not len(values) or not (size > 0).all():
        return ClusterMean(mean=NAN, status="too_few", **counts)
    group_means = values @ in_group / size
    mean = float(group_means.mean())
    if n_clusters < 2:
        return ClusterMean(mean=mean, status="one_cluster", ci_method="none: one cluster", **counts)
    influence = np.zeros(n_clusters)
    np.add.at(influence, codes, (values - group_means[groups]) / (n_groups * size[groups]))
    se = float(np.sqrt(n_clusters / (n_clusters - 1) * (influence**2).sum()))
    if n_clusters < MIN_BOOTSTRAP_CLUSTERS:
        half = float(stats.t.ppf((1 + level) / 2, n_clusters - 1)) * se
        lo, hi = mean - half, mean + half
        how: dict[str, Any] = {"ci_method": f"t over {n_clusters} clusters", "params": {"level": level}}
    else:
        moments = np.hstack([in_group * values[:, None], in_group])
        resampled = bootstrap_moments(moments, codes, _mean_of_means, seed=seed, draws=draws)
        lo, hi = percentile_interval(resampled, level)
        params = {"level": level, "draws": draws, "seed": seed}
        how = {"ci_method": "percentile cluster bootstrap", "params": params}
    return ClusterMean(mean=mean, se=se, ci_lo=lo, ci_hi=hi, **how, **counts)


def _mean_of_means(sums: Floats) -> Floats:
    """From [draws, (k totals, k counts)] to [draws]; NaN where a resample has none of a stratum."""
    totals, counts = np.split(sums, 2, axis=1)
    return (totals / np.where(counts > 0, counts, np.nan)).mean(axis=1)


def _picks(n_clusters: int, draws: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of the clusters that each resample takes, in blocks [at most 256, G]."""
    rng = np.random.default_rng(seed)
    for start in range(0, draws, BLOCK):
        yield rng.integers(0, n_clusters, size=(min(BLOCK, draws - start), n_clusters))


def cluster_counts(picks: NDArray[np.int64], n_clusters: int) -> Floats:
    """How often each resample [draws, G] takes each cluster; [draws, G]."""
    cells = picks + n_clusters * np.arange(len(picks))[:, None]
    counts = np.bincount(cells.ravel(), minlength=len(picks) * n_clusters)
    return counts.reshape(len(picks), n_clusters).astype(np.float64)
