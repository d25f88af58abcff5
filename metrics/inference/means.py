"""Means, shares and ratios of sums over rows, with intervals over clusters; the studentised bootstrap (METRICS F1)."""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score, floats, probabilities, row_counts
from .clusters import bootstrap_moments, cluster_codes, cluster_counts, cluster_sums, complete_rows, picks
from .intervals import (
    MIN_BOOTSTRAP_CLUSTERS,
    NO_SHORTER,
    Interval,
    bootstrap_tails,
    largest_share,
    moment_interval,
    t_interval,
)
from .regression import FEW_EFFECTIVE, few_effective, herfindahl

FEW_CLUSTERS = 30
"""Below this a sample may hold none of the few clusters that make a mean."""
UNIT, LOSS = (0.0, 1.0), (0.0, np.inf)
"""Where probabilities lie, and what costs."""


class ClusterMean(Score, headline="mean"):
    """A mean over rows with an interval over clusters."""

    mean: float = NAN
    equal_weight_mean: float = NAN
    """Mean of the clusters' own means, strata weighing alike: where it differs, large clusters make the number."""
    largest_share: float = NAN
    """Share of the clusters' absolute totals that the largest of them makes: near 1, the mean is that cluster."""
    effective_clusters: float = NAN
    """Clusters that carry the mean, by the rows that they hold."""


def cluster_mean(
    values: ArrayLike,
    clusters: ArrayLike,
    *,
    strata: ArrayLike | None = None,
    within: tuple[float, float] = (-np.inf, np.inf),
    how: Resampling = RESAMPLING,
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
    """
    values = floats(values)
    strata, n_strata = cluster_codes(np.zeros(len(values)) if strata is None else strata, len(values))
    rows = complete_rows(clusters, values=np.where(np.isfinite(values), values, np.nan), strata=strata)
    values, strata = rows.columns
    g = rows.n_clusters
    member = np.eye(n_strata)[strata]
    size = member.sum(axis=0)
    if not rows.n or not (size > 0).all():
        return ClusterMean(status="too_few", **rows.counts)
    means = values @ member / size
    mean = float(means.mean())
    if g < 2:
        return ClusterMean(mean=mean, status="one_cluster", ci_method="none: one cluster", **rows.counts)
    influence = cluster_sums((values - means[strata]) / (n_strata * size[strata]), rows.codes, g)
    totals = cluster_sums(values / (n_strata * size[strata]), rows.codes, g)
    sizes = cluster_sums(member, rows.codes, g)
    of_cluster = cluster_sums(member * values[:, None], rows.codes, g) / np.where(sizes > 0, sizes, np.nan)
    beside: dict[str, Any] = {
        "equal_weight_mean": float(np.nanmean(of_cluster, axis=1).mean()),
        "largest_share": float(np.abs(totals).max() / np.abs(totals).sum()) if totals.any() else NAN,
        "effective_clusters": herfindahl(np.bincount(rows.codes) / rows.n),
    }
    se = float(np.sqrt(g / (g - 1) * (influence**2).sum()))
    if g < MIN_BOOTSTRAP_CLUSTERS:
        (lo, hi), method = t_interval(mean, se, g - 1, how.level), f"t over {g} clusters"
        params: dict[str, Any] = {"level": how.level}
    else:
        moments = np.hstack([member * values[:, None], member])
        drawn = bootstrap_moments(moments, rows.codes, _mean_of_means, how=how)
        sums = cluster_sums(moments, rows.codes, g)

        def left_out() -> Floats:
            return _mean_of_means(sums.sum(axis=0) - sums)

        tails, method = bootstrap_tails(drawn, mean, left_out, g, "bca", largest_share(rows.codes))
        (lo, hi), by_t = tails.ends(drawn, how.level), t_interval(mean, se, g - 1, how.level)
        lo, hi = min(lo, max(by_t[0], float(values.min()))), max(hi, min(by_t[1], float(values.max())))
        method = f"{method}{NO_SHORTER}"
        params = how.params
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
    """Of the clusters of rows [n]: `few_effective_clusters` where fewer than ten of ten or more hold the rows, else
    `few_clusters` of fewer than `fewest`, else `ok`; with no such number, `few_effective_clusters` of fewer than ten.
    """
    sizes = np.bincount(codes)
    if len(sizes) >= min(fewest, FEW_EFFECTIVE) and few_effective(herfindahl(sizes / sizes.sum())):
        return "few_effective_clusters"
    return "few_clusters" if len(sizes) < fewest else "ok"


def _mean_of_means(sums: Floats) -> Floats:
    """From [draws, (k totals, k counts)] to [draws]; NaN where a resample has none of a stratum."""
    totals, counts = np.split(sums, 2, axis=1)
    return (totals / np.where(counts > 0, counts, np.nan)).mean(axis=1)


# Shares of what is or is not so, with intervals that do not collapse where all are alike (METRICS F1).

EXACT = "Clopper-Pearson on the effective number of rows"
TINY = 1e-100
FEW_ITEMS = 13
"""Below this the normal approximation of a difference of two shares ends too early."""


def cluster_share(values: ArrayLike, clusters: ArrayLike, *, how: Resampling = RESAMPLING) -> ClusterMean:
    """Share of rows, with the Clopper-Pearson interval on their effective number (Korn and Graubard 1998).

    Args:
        values: [n] 0 or 1, or a share of the credit between them; NaN is dropped and counted.
        clusters: [n], the unit that was sampled.

    So many independent rows would have this standard error, at most as many as there are, and fewer as clusters are few
    (t of the rows over t of the effective clusters, squared), where clusters without the rarer of the two outcomes say
    nothing of how it gathers in clusters, and do not count. This makes them no fewer than the effective number of
    clusters, which counts where all rows are alike: 60 right of 60 questions is [.940, 1].

    Of independent rows, each its own cluster, it is no shorter than the exact one. `few_clusters`: below thirty with
    several rows each, of which samples may hold none of a few bad ones, so that the interval misses in up to half of
    them; of thirty, one in twenty of which is bad, still in 18%. `few_effective_clusters`: fewer than ten, of ten or
    more, hold the rows.
    """
    values, clusters = probabilities(values, "values"), np.asarray(clusters)
    mean = cluster_mean(values, clusters, within=UNIT, how=replace(how, draws=1))
    if mean.n_clusters < 2:
        return mean
    share, n = mean.mean, mean.n_rows
    effective = mean.effective_clusters
    if mean.status != "zero_cluster_variance" and 0 < share < 1:
        telling = min(effective, *(len({*clusters[held].tolist()}) for held in (values > 0, values < 1)))
        rows = min(n, share * (1 - share) / mean.se**2)
        effective = min(rows, effective)
        if telling > 1:
            t_rows, t_clusters = (float(scipy.stats.t.ppf((1 + how.level) / 2, df)) for df in (n - 1, telling - 1))
            effective = max(effective, rows * (t_rows / t_clusters) ** 2)
    status = "ok"
    if mean.n_clusters < n:
        status = few_status(cluster_codes(clusters[np.isfinite(values)], n)[0], FEW_CLUSTERS)
    # Of a smaller part of a row the end is 0 or 1, and the distribution cannot be computed.
    yes, no = (part if part > TINY else 0.0 for part in (share * effective, (1 - share) * effective))
    lo = float(scipy.stats.beta.ppf((1 - how.level) / 2, yes, no + 1))
    hi = float(scipy.stats.beta.ppf((1 + how.level) / 2, yes + 1, no))
    return replace(
        mean,
        ci_lo=0.0 if yes <= 0 else lo,
        ci_hi=1.0 if no <= 0 else hi,
        ci_method=f"{EXACT}, {effective:.3g}",
        status=status,
        params={"level": how.level},
    )


def share_difference(up: int, down: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Interval of the difference of two shares of the same n, which exclude each other (Newcombe 1998, method 10).

    Args:
        up: how many are of the one kind.
        down: how many of the other; the rest are of neither.
        n: of all, one or more.

    The distances of both shares from the ends of their Wilson intervals are added in squares, with the correlation that
    two kinds of one count have: where there is no third kind, both ends are those of one share, doubled. Below thirteen
    these are wider: t(n - 1) takes the place of the normal, and the correlation counts half a case more of each kind,
    since five of five that are up say little of how many are down. By Newcombe's alone five items whose true
    difference is .5 lie above it in up to 24%, eleven in 8%; so in at most 4%.
    """
    if min(up, down) < 0 or not 1 <= n >= up + down:
        raise ValueError(f"share_difference: {up} and {down} of {n} are no counts of two kinds")
    few = 0.5 if n < FEW_ITEMS else 0.0
    p, q = up / n, down / n
    (p_lo, p_hi), (q_lo, q_hi) = _wilson(up, n, level), _wilson(down, n, level)
    x, y = (up + few) / (n + 2 * few), (down + few) / (n + 2 * few)
    spread = x * (1 - x) * y * (1 - y)
    together = -x * y / float(np.sqrt(spread)) if spread > 0 else 0.0

    def reach(x: float, y: float) -> float:
        return float(np.sqrt(max(x * x + y * y - 2 * together * x * y, 0.0)))

    return max(p - q - reach(p - p_lo, q_hi - q), -1.0), min(p - q + reach(p_hi - p, q - q_lo), 1.0)


def _wilson(k: int, n: int, level: float) -> tuple[float, float]:
    """Wilson's score interval of a share, in [0, 1]; of few, with t."""
    few = 1 < n < FEW_ITEMS
    z = float(scipy.special.stdtrit(n - 1, (1 + level) / 2) if few else scipy.special.ndtri((1 + level) / 2))
    middle, reach = k + z * z / 2, z * float(np.sqrt(k * (n - k) / n + z * z / 4))
    return max(middle - reach, 0.0) / (n + z * z), min(middle + reach, n + z * z) / (n + z * z)


# A ratio of sums over rows, with an interval over clusters (METRICS F1).


class Ratio(Score, headline="ratio"):
    """A ratio of sums, or another function of sums, over rows."""

    ratio: float = NAN


def ratio_of_sums(
    columns: ArrayLike,
    clusters: ArrayLike,
    *,
    within: tuple[float, float] = (-np.inf, np.inf),
    how: Resampling = RESAMPLING,
) -> Ratio:
    """The sum of the first column over that of the second (METRICS F1).

    Args:
        columns: [n, 2], the second not negative.
        clusters: [n], the unit that was sampled.
        within: the least and the largest ratio that there can be, which no interval exceeds.

    The interval is no shorter than CR3 with t of the clusters that carry the sum below the line. A sum of 0 there is
    `undefined`; one cluster gives no interval. The level is not promised of `few_clusters`, below thirty, and
    `few_effective_clusters`, of which fewer than ten carry that sum.
    """
    columns = floats(columns)
    _, n_clusters = cluster_codes(clusters, len(columns))
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = float(_ratio(columns.sum(axis=0)[None])[0])
    if n_clusters < 2 or not np.isfinite(estimate):
        status = "one_cluster" if np.isfinite(estimate) else "undefined"
        return Ratio(ratio=estimate, status=status, n_rows=len(columns), n_clusters=n_clusters)
    interval = moment_interval(columns, clusters, _ratio, weights=columns[:, 1], how=how)
    interval = interval.within(*within, estimate)
    status = "few_clusters" if n_clusters < FEW_CLUSTERS else interval.concern
    return Ratio(ratio=estimate, n_rows=len(columns), n_clusters=n_clusters, status=status, **interval.fields())


def _ratio(sums: Floats) -> Floats:
    return sums[:, 0] / sums[:, 1]


# The studentised bootstrap, for means whose skewness makes other intervals end too early (METRICS F1).

STUDENTISED = "studentised cluster bootstrap"
SPREAD = 1e-6
"""A standard error below this share of the sample's is rounding."""


def studentised_mean(
    values: Floats, clusters: ArrayLike | None = None, *, longer: bool = False, how: Resampling = RESAMPLING
) -> Interval:
    """Interval of the mean of values [n] over rows, by clusters [n] (Davison and Hinkley 1997, section 5.2.1).

    Each resample gives a t statistic with its own linearised standard error, and their quantiles stand in for those
    of t. One that has no spread has none and is left out. Below ten clusters t(G - 1) stays; one gives nothing.
    Without `clusters` every value is its own.

    Of skewed values t ends too early on one side, of heavy tails the bootstrap on both: it misses the mean update of
    exact Bayesians whose priors lie near 0 in 13 to 20%, and t in 1 to 5%. `longer` takes whichever end lies further
    out, and the larger of both p-values: what changes of either sign need, such as updates and shifts of log-odds.
    """
    values, sums, sizes = _by_cluster(values, clusters)
    g = len(sums)
    if g < 2:
        return Interval(method="none: one cluster" if g else "")
    mean, se = _mean_and_error(sums, sizes)
    if g < MIN_BOOTSTRAP_CLUSTERS:
        lo, hi = t_interval(mean, se, g - 1, how.level)
        return Interval(se=se, lo=lo, hi=hi, method=f"t over {g} clusters", params={"level": how.level}, df=g - 1)
    t = _studentised(sums, sizes, mean, se, how)
    t = t[np.isfinite(t)]
    params = how.params
    if not t.size:
        return Interval(se=se, lo=mean, hi=mean, method=STUDENTISED, params=params)
    low, high = np.quantile(t, [(1 - how.level) / 2, (1 + how.level) / 2]).tolist()
    if not longer:
        return Interval(se=se, lo=mean - se * high, hi=mean - se * low, method=STUDENTISED, params=params, t=t)
    reach = float(scipy.stats.t.ppf((1 + how.level) / 2, g - 1))
    lo, hi = mean - se * max(high, reach), mean - se * min(low, -reach)
    return Interval(se=se, lo=lo, hi=hi, method=f"{STUDENTISED}{NO_SHORTER}", params=params, t=t, df=g - 1)


def studentised_bounds(
    values: Floats, clusters: ArrayLike | None = None, *, how: Resampling = RESAMPLING
) -> tuple[float, float, str]:
    """One-sided lower and upper bound of the mean, each of this level, and how they were made.

    A claim rests on them, so a resample without spread counts as infinitely far out: where the few clusters that
    differ can all be missed, the bound on that side is infinite. Values that are all equal bound themselves.
    """
    values, sums, sizes = _by_cluster(values, clusters)
    g = len(sums)
    if g < 2:
        return -np.inf, np.inf, "none: one cluster" if g else ""
    mean, se = _mean_and_error(sums, sizes)
    if g < MIN_BOOTSTRAP_CLUSTERS:
        return *t_interval(mean, se, g - 1, 2 * how.level - 1), f"t over {g} clusters"
    if not se > SPREAD * float(np.abs(values).max()):
        return mean, mean, STUDENTISED
    t = np.sort(_studentised(sums, sizes, mean, se, how))
    k = int((1 - how.level) * (how.n_draws + 1))  # rounded outwards, and no interpolation with an infinity
    high, low = (t[-k], t[k - 1]) if k else (np.inf, -np.inf)
    return mean - se * float(high), mean - se * float(low), STUDENTISED


def _by_cluster(values: Floats, clusters: ArrayLike | None) -> tuple[Floats, Floats, Floats]:
    """Values [n], and their sums and sizes [G] by cluster."""
    values = floats(values)
    if clusters is None:
        return values, values, np.ones(len(values))
    codes, g = cluster_codes(clusters, len(values))
    return values, cluster_sums(values, codes, g), np.bincount(codes, minlength=g).astype(np.float64)


def _mean_and_error(sums: Floats, sizes: Floats) -> tuple[float, float]:
    """Mean over rows, and its linearised standard error over clusters."""
    g = len(sums)
    mean = float(sums.sum() / sizes.sum())
    return mean, float(np.sqrt(g / (g - 1) * ((sums - mean * sizes) ** 2).sum()) / sizes.sum())


def _studentised(sums: Floats, sizes: Floats, mean: float, se: float, how: Resampling) -> Floats:
    """[draws] t statistics of the resamples about the sample's mean; infinite or NaN without spread."""
    g = len(sums)
    off = sums - mean * sizes
    moments = np.column_stack([off, sizes, off**2, off * sizes, sizes**2])
    first, rows, squares, products, size2 = np.concatenate(
        [cluster_counts(block, g) @ moments for block in picks(g, how.n_draws, how.seed)]
    ).T
    shift = first / rows
    error = np.sqrt(np.maximum(g / (g - 1) * (squares - 2 * shift * products + shift**2 * size2), 0)) / rows
    flat = np.where(np.abs(shift) > SPREAD * se, np.copysign(np.inf, shift), np.nan)
    return np.where(error > SPREAD * se, shift / np.where(error > 0, error, 1.0), flat)


class ExclusionBounds(Score, headline="complete_case"):
    """METRICS B9."""

    complete_case: float = NAN
    """Mean of the scores that are defined: what the paper prints."""
    lower: float = NAN
    """The mean had every excluded instance scored 0."""
    upper: float = NAN
    """The mean had every excluded instance scored 1."""


def exclusion_bounds(scores: ArrayLike, n_excluded: int = 0) -> ExclusionBounds:
    """How far the excluded instances can move a mean of scores in [0, 1] (METRICS B9).

    NaN scores count as excluded, on top of `n_excluded` that are not in the array.
    """
    if n_excluded < 0:
        raise ValueError(f"n_excluded: {n_excluded} is negative")
    scores = probabilities(scores, "scores").ravel()
    defined = scores[np.isfinite(scores)]
    n_excluded += scores.size - defined.size
    n_all = defined.size + n_excluded
    if n_all == 0:
        return ExclusionBounds(status="too_few")
    total = float(defined.sum())
    return ExclusionBounds(
        complete_case=total / defined.size if defined.size else NAN,
        lower=total / n_all,
        upper=(total + n_excluded) / n_all,
        **row_counts(defined.size, n_excluded),
        status="ok" if defined.size else "too_few",
    )
