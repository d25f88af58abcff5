"""What a noisy or leaky reading of the prior does to the Martingale Score, and the way back (METRICS A5)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..contract import NAN, RANGE_SLACK, RESAMPLING, Floats, Resampling, Score, probabilities
from ..inference.clusters import Rows, bootstrap_moments, cluster_sums, complete_beliefs, complete_rows
from ..inference.intervals import BOOTSTRAP, MIN_BOOTSTRAP_CLUSTERS, Interval, Tails, moment_interval, t_interval
from ..inference.regression import EXACT_SS, few_effective, herfindahl


class MartingaleIV(Score, headline="M_iv"):
    """Slope of the update on the prior, free of independent reading noise (METRICS A5)."""

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
    independent: bool = True,
    how: Resampling = RESAMPLING,
) -> MartingaleIV:
    """Split-reading instrumental-variable slope (METRICS A5).

    Args:
        prior1: [n] one reading of each prior.
        prior2: [n] another, with independent noise.
        post: [n] one reading of the posterior, its noise independent of both.
        groups: [n] question of each row.
        independent: whether the posterior was read independently of both priors: by another wording, another sample.
            If not, a wording that errs alike before and after biases the slope, and the status says so.

    Below ten clusters the standard error is the linearised one, with t(G - 1). Statuses: `too_few`,
    `zero_covariance` (nothing identifies the slope), `one_cluster`, `weak_instrument` where the interval of the
    covariance of the readings reaches zero, and else `dependent_posterior`: the slope is given but not to be trusted.
    Nor is its level where fewer than ten clusters carry it (`few_effective_clusters`), as near 0: it rejects in 10%.
    """
    rows = complete_beliefs(groups, prior1=prior1, prior2=prior2, post=post)
    if rows.n < 2:
        return MartingaleIV(status="too_few", **rows.counts)
    b1, b2, q = (column - column.mean() for column in rows.columns)
    moments = np.column_stack([np.ones(rows.n), b1, b2, q, b1 * b2, b1 * q, b2 * q])
    cov, m12, m21 = (float(v[0]) for v in _slopes(moments.sum(axis=0)[None]))
    cov *= rows.n / (rows.n - 1)
    if abs(cov) * (rows.n - 1) <= EXACT_SS:
        return MartingaleIV(covariance=cov, status="zero_covariance", **rows.counts)
    slope = (m12 + m21) / 2
    fields: dict[str, Any] = {"M_iv": slope, "M_12": m12, "M_21": m21, "covariance": cov, **rows.counts}
    g = rows.n_clusters
    if g < 2:
        return MartingaleIV(status="one_cluster", **fields)
    if g < MIN_BOOTSTRAP_CLUSTERS:
        influence = ((b2 * (q - b1) + b1 * (q - b2)) / 2 - slope * b1 * b2) / (b1 @ b2)
        se = _cluster_se(influence, rows.codes, g)
        cov_se = _cluster_se((b1 * b2 - (b1 @ b2) / rows.n) / (rows.n - 1), rows.codes, g)
        (cov_lo, cov_hi), (lo, hi) = t_interval(cov, cov_se, g - 1, how.level), t_interval(slope, se, g - 1, how.level)
        interval = Interval(
            se=se, lo=lo, hi=hi, method=f"linearised, t({g - 1})", params={"level": how.level}, df=g - 1
        )
    else:
        drawn = bootstrap_moments(moments, rows.codes, lambda s: np.column_stack(_slopes(s)), how=how)
        slopes, tails = drawn[:, 1:].mean(axis=1), Tails(n_clusters=g)
        se = float(slopes[np.isfinite(slopes)].std(ddof=1))
        lo, hi = tails.ends(slopes, how.level)
        cov_lo, cov_hi = tails.ends(drawn[:, 0] * rows.n / (rows.n - 1), how.level)
        params: dict[str, Any] = how.params
        interval = Interval(se=se, lo=lo, hi=hi, method=BOOTSTRAP, params=params, drawn=slopes, tails=tails)
    weak = cov_lo <= 0 <= cov_hi
    return MartingaleIV(
        covariance_lo=cov_lo,
        covariance_hi=cov_hi,
        status="weak_instrument" if weak else _carried((b1 + b2) / 2, rows) if independent else "dependent_posterior",
        **interval.fields(independent=independent),
        **interval.test_of_zero(slope),
        **fields,
    )


class Disattenuated(Score, headline="beta1"):
    """Slope of the update on the belief itself, rather than on its reading."""

    beta1: float = NAN


def disattenuated_slope(M: float, reliability: float, error_cov: float = 0.0, se: float = NAN) -> Disattenuated:
    """Undo independent reading noise: (1 + M - c) / reliability - 1 (METRICS A5).

    Args:
        M: Martingale Score of the readings.
        reliability: Var(belief) / Var(reading) in (0, 1], from `reliability_icc`.
        error_cov: c, the covariance of the noise of prior and posterior over Var(reading); 0 if independent.
        se: of M; the result's is this over the reliability, which is taken as known. An interval from it is too
            short: use `corrected_slope`.

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


class CorrectedSlope(Score, headline="M_corrected"):
    """Slope of the update on the belief, with the reliability of its readings estimated from the same rows."""

    M_corrected: float = NAN
    M: float = NAN
    """Slope on the mean of the readings, as read."""
    reliability: float = NAN
    """ICC of that mean (METRICS F5)."""
    reliability_lo: float = NAN
    reliability_hi: float = NAN


def corrected_slope(
    readings: ArrayLike,
    post: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    error_cov: float = 0.0,
    how: Resampling = RESAMPLING,
) -> CorrectedSlope:
    """Undo reading noise with slope and reliability drawn together by question (METRICS A5, F5).

    Args:
        readings: [n, r] replicate readings of each prior, their noise independent.
        post: [n] one reading of the posterior, its noise independent of all of them.
        groups: [n] question of each row. None: every row its own.
        error_cov: c, the covariance of the noise of prior and posterior over Var(mean reading); 0 if independent.

    (1 + M - c) / reliability - 1, both recomputed in every resample: with the reliability as known the interval
    misses 8 to 18% of the time. Statuses: `too_few`, `one_reading`, `zero_variance_prior`, `no_reliability` (it is
    not positive), `one_cluster`, `weak_reliability` (its interval reaches zero: the slope is given, not to be trusted),
    `few_effective_clusters` (fewer than ten carry the slope).
    """
    x = probabilities(readings, "readings")
    if x.ndim != 2:
        raise ValueError(f"readings: shape {x.shape}; give [n, readings of each]")
    r = x.shape[1]
    rows = complete_rows(groups, readings=x, post=probabilities(post, "post"))
    x, q = rows.columns
    common: dict[str, Any] = {**rows.counts, "params": {"level": how.level, "error_cov": error_cov}}
    if rows.n < 2 or r < 2:
        return CorrectedSlope(status="too_few" if rows.n < 2 else "one_reading", **common)
    b = x.mean(axis=1)
    within = ((x - b[:, None]) ** 2).sum(axis=1)
    d, b = q - b, b - b.mean()
    moments = np.column_stack([np.ones(rows.n), b, d, b * b, b * d, within])

    def corrected(sums: Floats) -> Floats:
        """[draws, 3]: the slope corrected, the slope, the reliability."""
        n, sb, sd, sbb, sbd, sw = sums.T
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = sbb - sb * sb / n
            m = (sbd - sb * sd / n) / np.where(spread > EXACT_SS, spread, np.nan)
            lam = 1 - sw / (n * (r - 1)) / (r * spread / (n - 1))
            return np.column_stack([np.where(lam > 0, (1 + m - error_cov) / lam - 1, np.nan), m, lam])

    whole, m, lam = corrected(moments.sum(axis=0)[None])[0].tolist()
    fields = {"M_corrected": whole, "M": m, "reliability": lam}
    if np.isnan(m):
        return CorrectedSlope(status="zero_variance_prior", **common)
    if not lam > 0:
        return CorrectedSlope(status="no_reliability", **fields, **common)
    if rows.n_clusters < 2:
        return CorrectedSlope(status="one_cluster", **fields, **common)
    interval = moment_interval(moments, rows.codes, lambda s: corrected(s)[:, 0], kind="percentile", how=how)
    of_lam = moment_interval(moments, rows.codes, lambda s: corrected(s)[:, 2], kind="percentile", how=how)
    return CorrectedSlope(
        reliability_lo=of_lam.lo,
        reliability_hi=of_lam.hi,
        status=_carried(b, rows) if of_lam.lo > 0 else "weak_reliability",
        **fields,
        **rows.counts,
        **interval.fields(error_cov=error_cov),
        **interval.test_of_zero(whole),
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


def _carried(prior: Floats, rows: Rows) -> str:
    """Whether clusters enough carry a slope on the centred priors [n]."""
    leverage = cluster_sums(prior**2, rows.codes, rows.n_clusters)
    total = float(leverage.sum())
    effective = herfindahl(leverage / total) if total > EXACT_SS else 0.0
    return "few_effective_clusters" if few_effective(effective) else "ok"


def _cluster_se(influence: Floats, codes: np.ndarray, n_clusters: int) -> float:
    sums = cluster_sums(influence, codes, n_clusters)
    return float(np.sqrt(n_clusters / (n_clusters - 1) * (sums**2).sum()))
