"""Means over rows, with intervals over clusters (METRICS F1)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..score import NAN, Score
from ..validation import TIE, Floats, floats
from .intervals import MIN_BOOTSTRAP_CLUSTERS, NO_SHORTER, bootstrap_tails, largest_share
from .jackknife import few_effective, herfindahl
from .resampling import bootstrap_moments
from .rows import cluster_codes, cluster_sums, complete_rows
from .tails import t_interval

FEW_CLUSTERS = 30
"""Below this a sample may hold none of the few clusters that make a mean."""
UNIT, LOSS = (0.0, 1.0), (0.0, np.inf)
"""Where probabilities lie, and what costs."""


@dataclass(frozen=True, kw_only=True)
class ClusterMean(Score):
    """A mean over rows with an interval over clusters."""

    headline: ClassVar[str] = "mean"
    mean: float
    equal_weight_mean: float = NAN
    """Mean of the clusters' own means, strata weighing alike: where it differs, large clusters make the number."""
    largest_share: float = NAN
    """Share of the clusters' absolute totals that the largest of them makes: near 1, the mean is that cluster."""


def cluster_mean(
    values: ArrayLike,
    clusters: ArrayLike,
    *,
    strata: ArrayLike | None = None,
    within: tuple[float, float] = (-np.inf, np.inf),
    seed: int,
    draws: int = 2000,
    level: float = 0.95,
) -> ClusterMean:
    """Mean over rows; interval by cluster bootstrap, or by t over clusters when fewer than ten (METRICS F1).

    From thirty clusters on, none of them with more than a tenth of the rows, the bootstrap is BCa, which scores that
    crowd at one end of their range need. Within the range of the values neither end lies nearer than that of t(G - 1):
    where tails are heavy, as of changes of beliefs near 0, resamples spread too little (13 to 16% are missed, and 1 to
    5% by t). Where a few bad clusters make the mean, no interval holds: read `equal_weight_mean` and `largest_share`
    beside it.

    Statuses that say so: `few_clusters` below thirty (if one cluster in ten is bad, samples of 6, 12, 20 hold none in
    53, 28, 12%), `few_effective_clusters` where the rows lie in fewer than ten, and `zero_cluster_variance` where all
    are alike and the interval is a point. For shares of what is 0 or 1 there is `cluster_share`.

    NaN rows are dropped and counted. `se` is the linearised cluster standard error of the mean.

    Args:
        values: [n].
        clusters: [n], the unit that was sampled.
        strata: [n]; if given, the mean of the strata's means, so that a larger stratum weighs no more.
        within: the least and the largest value that there can be, which no interval exceeds.
        seed: of the resamples.
        draws: number of resamples.
        level: of the interval.
    """
    values = floats(values)
    strata, n_strata = cluster_codes(np.zeros(len(values)) if strata is None else strata, len(values))
    rows = complete_rows(clusters, values=np.where(np.isfinite(values), values, np.nan), strata=strata)
    values, strata = rows.columns
    g = rows.n_clusters
    member = np.eye(n_strata)[strata]
    size = member.sum(axis=0)
    if not rows.n or not (size > 0).all():
        return ClusterMean(mean=NAN, status="too_few", **rows.counts)
    means = values @ member / size
    mean = float(means.mean())
    if g < 2:
        return ClusterMean(mean=mean, status="one_cluster", ci_method="none: one cluster", **rows.counts)
    influence = cluster_sums((values - means[strata]) / (n_strata * size[strata]), rows.codes, g)
    totals = cluster_sums(values / (n_strata * size[strata]), rows.codes, g)
    held = cluster_sums(member, rows.codes, g)
    own = cluster_sums(member * values[:, None], rows.codes, g) / np.where(held > 0, held, np.nan)
    beside = {
        "equal_weight_mean": float(np.nanmean(own, axis=1).mean()),
        "largest_share": float(np.abs(totals).max() / np.abs(totals).sum()) if totals.any() else NAN,
    }
    se = float(np.sqrt(g / (g - 1) * (influence**2).sum()))
    if g < MIN_BOOTSTRAP_CLUSTERS:
        (lo, hi), method = t_interval(mean, se, g - 1, level), f"t over {g} clusters"
        params: dict[str, Any] = {"level": level}
    else:
        moments = np.hstack([member * values[:, None], member])
        drawn = bootstrap_moments(moments, rows.codes, _mean_of_means, seed=seed, draws=draws)
        sums = cluster_sums(moments, rows.codes, g)

        def left_out() -> Floats:
            return _mean_of_means(sums.sum(axis=0) - sums)

        tails, method = bootstrap_tails(drawn, mean, left_out, g, "bca", largest_share(rows.codes))
        (lo, hi), by_t = tails.ends(drawn, level), t_interval(mean, se, g - 1, level)
        lo, hi = min(lo, max(by_t[0], float(values.min()))), max(hi, min(by_t[1], float(values.max())))
        method = f"{method}{NO_SHORTER}"
        params = {"level": level, "draws": draws, "seed": seed}
    flat = se <= TIE * float(np.abs(values).max(initial=0))
    return ClusterMean(
        mean=mean,
        se=se,
        ci_lo=max(lo, min(within[0], mean)),
        ci_hi=min(hi, max(within[1], mean)),
        ci_method=method,
        status="zero_cluster_variance" if flat else few_status(rows.codes, FEW_CLUSTERS),
        params=params,
        **beside,
        **rows.counts,
    )


def few_status(codes: NDArray[np.intp], fewest: int = 0) -> str:
    """`few_clusters` if the rows [n] have fewer than that, `few_effective_clusters` if the rows lie in fewer than ten,
    or `ok`.
    """
    sizes = np.bincount(codes)
    if len(sizes) < fewest:
        return "few_clusters"
    return "few_effective_clusters" if few_effective(herfindahl(sizes / sizes.sum())) else "ok"


def _mean_of_means(sums: Floats) -> Floats:
    """From [draws, (k totals, k counts)] to [draws]; NaN where a resample has none of a stratum."""
    totals, counts = np.split(sums, 2, axis=1)
    return (totals / np.where(counts > 0, counts, np.nan)).mean(axis=1)
