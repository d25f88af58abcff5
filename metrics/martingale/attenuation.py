"""What a noisy or leaky reading of the prior does to the Martingale Score, and the way back (METRICS A5)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..inference.intervals import BOOTSTRAP, MIN_BOOTSTRAP_CLUSTERS, percentile_interval, t_interval
from ..inference.regression import EXACT_SS
from ..inference.resampling import bootstrap_moments
from ..inference.rows import cluster_sums, complete_numbers
from ..score import NAN, Score
from ..validation import RANGE_SLACK, Floats, probabilities


@dataclass(frozen=True, kw_only=True)
class MartingaleIV(Score):
    """Slope of the update on the prior, free of independent reading noise (METRICS A5)."""

    headline: ClassVar[str] = "M_iv"
    M_iv: float = NAN
    """The mean of the two."""
    M_12: float = NAN
    """`prior1` as the prior, `prior2` as its instrument."""
    M_21: float = NAN
    covariance: float = NAN
    """Of the two readings (ddof 1): what identifies the slope."""
    covariance_lo: float = NAN
    covariance_hi: float = NAN


def martingale_iv(
    prior1: ArrayLike,
    prior2: ArrayLike,
    post: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> MartingaleIV:
    """Split-reading instrumental-variable slope (METRICS A5).

    Args:
        prior1: [n] one reading of each prior.
        prior2: [n] another, with independent noise.
        post: [n] one reading of the posterior, its noise independent of both.
        groups: [n] question of each row.
        level: of the intervals.
        draws: of the cluster bootstrap.
        seed: of the cluster bootstrap.

    Below ten clusters the standard error is the linearised one, with t(G - 1). Statuses: `too_few`,
    `zero_covariance` (nothing identifies the slope), `one_cluster`, and `weak_instrument` where the interval
    of the covariance of the readings reaches zero: the slope is given but not to be trusted.
    """
    rows = complete_numbers(
        groups,
        prior1=probabilities(prior1, "prior1"),
        prior2=probabilities(prior2, "prior2"),
        post=probabilities(post, "post"),
    )
    if rows.n < 2:
        return MartingaleIV(status="too_few", **rows.counts)
    b1, b2, q = (column - column.mean() for column in rows.columns)
    moments = np.column_stack([np.ones(rows.n), b1, b2, q, b1 * b2, b1 * q, b2 * q])
    cov, m12, m21 = (float(v[0]) for v in _slopes(moments.sum(axis=0)[None]))
    cov *= rows.n / (rows.n - 1)
    if abs(cov) * (rows.n - 1) <= EXACT_SS:
        return MartingaleIV(covariance=cov, status="zero_covariance", **rows.counts)
    slope = (m12 + m21) / 2
    found: dict[str, Any] = {"M_iv": slope, "M_12": m12, "M_21": m21, "covariance": cov, **rows.counts}
    g = rows.n_clusters
    if g < 2:
        return MartingaleIV(status="one_cluster", **found)
    if g < MIN_BOOTSTRAP_CLUSTERS:
        influence = ((b2 * (q - b1) + b1 * (q - b2)) / 2 - slope * b1 * b2) / (b1 @ b2)
        se = _cluster_se(influence, rows.codes, g)
        cov_se = _cluster_se((b1 * b2 - (b1 @ b2) / rows.n) / (rows.n - 1), rows.codes, g)
        (cov_lo, cov_hi), (lo, hi) = t_interval(cov, cov_se, g - 1, level), t_interval(slope, se, g - 1, level)
        how = f"linearised, t({g - 1})"
        params: dict[str, Any] = {"level": level}
    else:
        drawn = bootstrap_moments(moments, rows.codes, lambda s: np.column_stack(_slopes(s)), seed=seed, draws=draws)
        slopes = drawn[:, 1:].mean(axis=1)
        se = float(slopes[np.isfinite(slopes)].std(ddof=1))
        lo, hi = percentile_interval(slopes, level, g)
        cov_lo, cov_hi = percentile_interval(drawn[:, 0] * rows.n / (rows.n - 1), level, g)
        how = BOOTSTRAP
        params = {"level": level, "draws": draws, "seed": seed}
    return MartingaleIV(
        se=se,
        ci_lo=lo,
        ci_hi=hi,
        ci_method=how,
        p=float(2 * scipy.stats.t.sf(abs(slope) / se, g - 1)) if se > 0 else NAN,
        p_method=f"t({g - 1})" if se > 0 else "",
        covariance_lo=cov_lo,
        covariance_hi=cov_hi,
        status="weak_instrument" if cov_lo <= 0 <= cov_hi else "ok",
        params=params,
        **found,
    )


@dataclass(frozen=True, kw_only=True)
class Disattenuated(Score):
    """Slope of the update on the belief itself, rather than on its reading."""

    headline: ClassVar[str] = "beta1"
    beta1: float = NAN


def disattenuated_slope(M: float, reliability: float, error_cov: float = 0.0, se: float = NAN) -> Disattenuated:
    """Undo independent reading noise: (1 + M - c) / reliability - 1 (METRICS A5).

    Args:
        M: Martingale Score of the readings.
        reliability: Var(belief) / Var(reading) in (0, 1], from `reliability_icc`.
        error_cov: c, the covariance of the noise of prior and posterior over Var(reading); 0 if independent.
        se: of M; the result's is this over the reliability, which is taken as known.

    A reliability that is not positive, as an estimate may be, has no correction: NaN, `no_reliability`.
    """
    if reliability > 1 + RANGE_SLACK:
        raise ValueError(f"reliability: {reliability!r} exceeds 1; it is a share of variance")
    if not reliability > 0:
        return Disattenuated(status="no_reliability")
    return Disattenuated(
        beta1=(1 + M - error_cov) / reliability - 1,
        se=se / reliability,
        params={"reliability": reliability, "error_cov": error_cov},
    )


def hindsight_slope(leak: float, variance_ratio: float) -> float:
    """M that a perfect martingale shows if its prior is read with hindsight (METRICS A5).

    The reading is prior + `leak` x update; `variance_ratio` is Var(update) / Var(prior). This is the value
    that a judge who saw the whole text must be compared with, not zero.
    """
    if variance_ratio < 0:
        raise ValueError(f"variance_ratio: {variance_ratio!r} is negative")
    return leak * (1 - leak) * variance_ratio / (1 + leak**2 * variance_ratio)


def _slopes(sums: Floats) -> tuple[Floats, Floats, Floats]:
    """Covariance of the readings (ddof 0), M_12 and M_21 [draws] from sums [draws, 7]."""
    n, s1, s2, sq, s12, s1q, s2q = sums.T
    cov = (s12 - s1 * s2 / n) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        m12 = (s2q - s2 * sq / n) / n / cov - 1
        m21 = (s1q - s1 * sq / n) / n / cov - 1
    return cov, m12, m21


def _cluster_se(influence: Floats, codes: np.ndarray, n_clusters: int) -> float:
    sums = cluster_sums(influence, codes, n_clusters)
    return float(np.sqrt(n_clusters / (n_clusters - 1) * (sums**2).sum()))
