"""Do two judges (METRICS A8), or two ways of reading whose noise is allowed for (METRICS F9), say the same?"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..contract import NAN, RANGE_SLACK, RESAMPLING, Floats, Resampling, Score, floats, updates
from .clusters import Rows, bootstrap_moments, cluster_sums, complete_numbers, complete_rows
from .intervals import (
    BOOTSTRAP,
    MIN_BOOTSTRAP_CLUSTERS,
    correlation_of_sums,
    fisher_of_sums,
    moment_interval,
    percentile_interval,
)
from .means import FEW_CLUSTERS
from .regression import EXACT_SS
from .reliability import NOT_ESTIMABLE, estimable

MOMENT_NAMES = ("ccc", "icc21", "pearson", "pearson_within", "bias")


class Agreement(Score, headline="ccc"):
    """Agreement of two readings of the same things."""

    ccc: float = NAN
    """Lin's concordance: correlation, less what different means and spreads take away."""
    icc21: float = NAN
    """ICC(2,1): agreement of single readings, the two judges being a sample of judges."""
    pearson: float = NAN
    pearson_within: float = NAN
    """Pearson after each question's mean is taken off: agreement within questions, not on which is which."""
    spearman: float = NAN
    bias: float = NAN
    """Mean of x - y."""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Cluster bootstrap of all but `spearman`; empty below ten clusters."""


def judge_agreement(
    x: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, *, how: Resampling = RESAMPLING
) -> Agreement:
    """Agreement of two judges on beliefs, or on updates: call it on each (METRICS A8).

    Args:
        x: [n] readings of one judge, in [-1, 1], or NaN.
        y: [n] of the other.
        groups: [n] question of each row; without them there is no within-question correlation.

    A judge who never varies has no correlation (NaN, `zero_variance`); concordance is then 0. No p-value:
    that two judges of one text agree more than not at all is not in question.
    """
    rows = complete_numbers(groups, x=updates(x, "x"), y=updates(y, "y"))
    x, y = rows.columns
    if rows.n < 2:
        return Agreement(status="too_few", **rows.counts)
    bias = float(np.mean(x - y))
    u, v = x - x.mean(), y - x.mean()  # one shift for both, so that the bias stays
    size = np.bincount(rows.codes)
    within = [z - (cluster_sums(z, rows.codes, rows.n_clusters) / size)[rows.codes] for z in (u, v)]
    du, dv = (np.where(np.abs(d) < RANGE_SLACK**1.5, 0.0, d) for d in within)
    moments = np.column_stack([np.ones(rows.n), u, v, u * u, v * v, u * v, du * du, dv * dv, du * dv])
    values = _from_moments(moments.sum(axis=0)[None])[0]
    constant = min(float(np.sum(u**2)), float(np.sum((v - v.mean()) ** 2))) <= EXACT_SS
    if constant:
        values[[2, 3]] = np.nan
    if groups is None:
        values[3] = np.nan
    fields: dict[str, Any] = dict(zip(MOMENT_NAMES, values.tolist(), strict=True)) | {"bias": bias}
    fields["spearman"] = NAN if constant else float(scipy.stats.spearmanr(x, y).statistic)
    status = "zero_variance" if constant else "ok"
    if rows.n_clusters < MIN_BOOTSTRAP_CLUSTERS or not np.isfinite(values[0]):
        return Agreement(**fields, status=status, params={"level": how.level}, **rows.counts)
    drawn = bootstrap_moments(moments, rows.codes, _from_moments, how=how)
    intervals = {
        name: percentile_interval(drawn[:, i], how.level, rows.n_clusters)
        for i, name in enumerate(MOMENT_NAMES)
        if np.isfinite(fields[name])
    }
    ccc = drawn[np.isfinite(drawn[:, 0]), 0]
    return Agreement(
        **fields,
        intervals=intervals,
        se=float(ccc.std(ddof=1)),
        ci_lo=intervals["ccc"][0],
        ci_hi=intervals["ccc"][1],
        ci_method=BOOTSTRAP,
        status=status,
        params=how.params,
        **rows.counts,
    )


def _from_moments(sums: Floats) -> Floats:
    """[draws, 5] in the order of MOMENT_NAMES, from sums [draws, 9]. Variances have ddof 0, as in Lin."""
    n, x, y, xx, yy, xy, wxx, wyy, wxy = sums.T
    mx, my = x / n, y / n
    vx, vy, cov = xx / n - mx**2, yy / n - my**2, xy / n - mx * my
    with np.errstate(divide="ignore", invalid="ignore"):
        ccc = 2 * cov / (vx + vy + (mx - my) ** 2)
        # Two-way mean squares of two judges, in the same moments.
        between = n / (n - 1) * (vx + vy + 2 * cov) / 2
        error = n / (n - 1) * (vx + vy - 2 * cov) / 2
        judges = n * (mx - my) ** 2 / 2
        icc21 = (between - error) / (between + error + 2 * (judges - error) / n)
        pearson = cov / np.sqrt(vx * vy)
        pearson_within = wxy / np.sqrt(wxx * wyy)
    return np.column_stack([ccc, icc21, pearson, pearson_within, mx - my])


# Do two ways of reading order the same things alike, once the noise of each is allowed for? (METRICS F9)


class MethodReliability(Score, headline="reliability"):
    """Share of the spread of a mean of readings that another set of such readings would show as well; NaN where it is
    not estimable (`reliability.estimable`).
    """

    reliability: float = NAN
    n_readings: int = 0


class MethodCorrelation(Score, headline="disattenuated"):
    """Correlation of two kinds of belief, and what it would be without the noise of reading in either."""

    disattenuated: float = NAN
    """correlation / sqrt(reliability_first reliability_second); it may exceed 1, and is not cut."""
    correlation: float = NAN
    """Of the means of the readings."""
    correlation_lo: float = NAN
    correlation_hi: float = NAN
    reliability_first: float = NAN
    reliability_second: float = NAN


def method_reliability(
    readings: ArrayLike, clusters: ArrayLike | None = None, *, how: Resampling = RESAMPLING
) -> MethodReliability:
    """Reliability of the mean of the readings [n, r] of n things (METRICS F9).

    What one reading adds to all things alike, as a wording may, is no noise: it moves no correlation. Statuses:
    `one_reading`, `too_few`, `zero_variance`, `not_estimable` where the estimate is negative, and `weak_reliability`
    where the interval reaches zero: then the readings do not read one thing.
    """
    x = _columns(readings, "readings")
    rows = complete_rows(clusters, x=np.where(np.isfinite(x), x, np.nan))
    (x,) = rows.columns
    common: dict[str, Any] = {**rows.counts, "n_readings": x.shape[1], "params": {"level": how.level}}
    if x.shape[1] < 2:
        return MethodReliability(status="one_reading", **common)
    if rows.n < 3:
        return MethodReliability(status="too_few", **common)
    moments = _moments(x)
    alpha = float(_alpha(moments.sum(axis=0)[None], x.shape[1])[0])
    if not np.isfinite(alpha):
        return MethodReliability(status="zero_variance", **common)
    if np.isnan(estimable(alpha)):
        return MethodReliability(status=NOT_ESTIMABLE, **common)
    interval = moment_interval(
        moments, rows.codes, lambda sums: _alpha(sums, x.shape[1]), kind="percentile", weights=np.ones(rows.n), how=how
    ).within(-np.inf, 1.0, alpha)
    status = interval.concern if interval.lo > 0 else "weak_reliability" if rows.n_clusters > 1 else "one_cluster"
    return MethodReliability(reliability=alpha, status=status, **(common | interval.fields()))


def method_correlation(
    first: ArrayLike, second: ArrayLike, clusters: ArrayLike | None = None, *, how: Resampling = RESAMPLING
) -> MethodCorrelation:
    """Correlation of two kinds of belief about the same things, as read and disattenuated (METRICS F9).

    Args:
        first: [n], or [n, r] readings whose mean is the belief.
        second: [n] or [n, s] of the other kind; noise of reading must be independent of the first's.
        clusters: [n] what was sampled. None: every row its own.

    Correlation and reliabilities are resampled together, so that the interval knows how uncertain the latter are. A
    kind that was read once has no reliability: the correlation alone is given then, and the status is
    `no_reliability`; `weak_reliability` where the interval of the weaker one reaches zero: then all may be noise.
    `few_clusters`: below thirty the interval of the disattenuated one misses in 7%.
    The interval of the correlation is made on Fisher's scale, and all are no shorter than CR3 with t.
    """
    x, y = _columns(first, "first"), _columns(second, "second")
    if len(x) != len(y):
        raise ValueError(f"first {len(x)} rows, second {len(y)}; give the same things in both")
    both = np.hstack([x, y])
    rows: Rows = complete_rows(clusters, both=np.where(np.isfinite(both), both, np.nan))
    (both,) = rows.columns
    r, s = x.shape[1], y.shape[1]
    common: dict[str, Any] = {**rows.counts, "params": {"level": how.level}}
    if rows.n < 3:
        return MethodCorrelation(status="too_few", **common)
    x, y = both[:, :r], both[:, r:]
    of_x, of_y, means = _moments(x), _moments(y), (x.mean(axis=1), y.mean(axis=1))
    u, v = (mean - mean.mean() for mean in means)
    moments = np.column_stack([np.ones(rows.n), u, v, u * u, v * v, u * v, of_x, of_y])
    width = 6 + of_x.shape[1]
    settings: dict[str, Any] = {"kind": "percentile", "weights": np.ones(rows.n), "how": how}
    if min(float(u @ u), float(v @ v)) <= EXACT_SS:
        return MethodCorrelation(status="zero_variance", **common)

    def weaker(sums: Floats) -> Floats:
        return np.minimum(_alpha(sums[:, 6:width], r), _alpha(sums[:, width:], s))

    def disattenuated(sums: Floats) -> Floats:
        shares = _alpha(sums[:, 6:width], r) * _alpha(sums[:, width:], s)
        return correlation_of_sums(sums[:, :6]) / np.sqrt(np.where(shares > 0, shares, np.nan))

    total = moments.sum(axis=0)[None]
    plain = moment_interval(moments[:, :6], rows.codes, fisher_of_sums, **settings)
    fields: dict[str, Any] = {
        "correlation": float(correlation_of_sums(total[:, :6])[0]),
        "correlation_lo": float(np.tanh(plain.lo)),
        "correlation_hi": float(np.tanh(plain.hi)),
        "reliability_first": estimable(float(_alpha(total[:, 6:width], r)[0])) if r > 1 else NAN,
        "reliability_second": estimable(float(_alpha(total[:, width:], s)[0])) if s > 1 else NAN,
    }
    if r < 2 or s < 2:
        return MethodCorrelation(status="no_reliability", **fields, **common)
    if not moment_interval(moments, rows.codes, weaker, **settings).lo > 0 and rows.n_clusters > 1:
        return MethodCorrelation(status="weak_reliability", **fields, **common)
    interval = moment_interval(moments, rows.codes, disattenuated, **settings)
    few = "few_clusters" if rows.n_clusters < FEW_CLUSTERS else interval.concern
    status = few if np.isfinite(interval.se) else "one_cluster"
    return MethodCorrelation(
        disattenuated=float(disattenuated(total)[0]), status=status, **fields, **(common | interval.fields())
    )


def _columns(readings: ArrayLike, name: str) -> Floats:
    x = floats(readings)
    if x.ndim == 1:
        x = x[:, None]
    if x.ndim != 2 or not x.shape[1]:
        raise ValueError(f"{name}: shape {x.shape}; give [n], or [n, readings]")
    return x


def _moments(x: Floats) -> Floats:
    """[n, 2 + 2 r] what alpha is a function of."""
    centred = x - x.mean(axis=0)  # sums of squares of large numbers would lose digits
    return np.column_stack([np.ones(len(x)), centred, centred**2, centred.sum(axis=1) ** 2])


def _alpha(sums: Floats, r: int) -> Floats:
    """[draws] r / (r - 1) (1 - sum of the variances / variance of the sum)."""
    if r < 2:
        return np.full(len(sums), np.nan)
    n, of_each, squares, of_sum = sums[:, :1], sums[:, 1 : 1 + r], sums[:, 1 + r : 1 + 2 * r], sums[:, -1]
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample may hold one value
        of_readings = (squares - of_each**2 / n).sum(axis=1)
        whole = of_sum - of_each.sum(axis=1) ** 2 / n[:, 0]
        return np.where(whole > EXACT_SS, r / (r - 1) * (1 - of_readings / whole), np.nan)
