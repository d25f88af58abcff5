"""Do two judges, or two read-outs, say the same? (METRICS A8)"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..inference.intervals import BOOTSTRAP, MIN_BOOTSTRAP_CLUSTERS
from ..inference.regression import EXACT_SS
from ..inference.resampling import bootstrap_moments
from ..inference.rows import cluster_sums, complete_numbers
from ..inference.tails import percentile_interval
from ..score import NAN, Score
from ..validation import RANGE_SLACK, Floats, floats, refuse

MOMENT_NAMES = ("ccc", "icc21", "pearson", "pearson_within", "bias")


@dataclass(frozen=True, kw_only=True)
class Agreement(Score):
    """Agreement of two readings of the same things."""

    headline: ClassVar[str] = "ccc"
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
    x: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> Agreement:
    """Agreement of two judges on beliefs, or on updates: call it on each (METRICS A8).

    Args:
        x: [n] readings of one judge, in [-1, 1], or NaN.
        y: [n] of the other.
        groups: [n] question of each row; without them there is no within-question correlation.
        level: of the intervals.
        draws: of the cluster bootstrap.
        seed: of the cluster bootstrap.

    A judge who never varies has no correlation (NaN, `zero_variance`); concordance is then 0. No p-value:
    that two judges of one text agree more than not at all is not in question.
    """
    rows = complete_numbers(groups, x=_readings(x, "x"), y=_readings(y, "y"))
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
    found: dict[str, Any] = dict(zip(MOMENT_NAMES, values.tolist(), strict=True)) | {"bias": bias}
    found["spearman"] = NAN if constant else float(scipy.stats.spearmanr(x, y).statistic)
    status = "zero_variance" if constant else "ok"
    if rows.n_clusters < MIN_BOOTSTRAP_CLUSTERS or not np.isfinite(values[0]):
        return Agreement(**found, status=status, params={"level": level}, **rows.counts)
    drawn = bootstrap_moments(moments, rows.codes, _from_moments, seed=seed, draws=draws)
    intervals = {
        name: percentile_interval(drawn[:, i], level, rows.n_clusters)
        for i, name in enumerate(MOMENT_NAMES)
        if np.isfinite(found[name])
    }
    ccc = drawn[np.isfinite(drawn[:, 0]), 0]
    return Agreement(
        **found,
        intervals=intervals,
        se=float(ccc.std(ddof=1)),
        ci_lo=intervals["ccc"][0],
        ci_hi=intervals["ccc"][1],
        ci_method=BOOTSTRAP,
        status=status,
        params={"level": level, "draws": draws, "seed": seed},
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


def _readings(values: ArrayLike, name: str) -> Floats:
    array = floats(values)
    refuse(array, np.abs(array) > 1 + RANGE_SLACK, f"{name}:", " is neither a belief nor an update")
    return array
