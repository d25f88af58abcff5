"""The Martingale Score: can the direction of an update be predicted from the prior? (METRICS A1 to A3)"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..contract import NAN, RESAMPLING, Floats, Resampling, Score, floats, one_of, outcomes, probabilities, same_shape
from ..inference.clusters import Rows, cluster_sums, complete_beliefs
from ..inference.intervals import contrast_fields
from ..inference.paired import minimum_detectable
from ..inference.randomisation import joint_sign_flip, wild_cluster_test
from ..inference.regression import EXACT_SS, FEW_EFFECTIVE, LinearFit, errors, few_effective, linear_fit

FEW_CLUSTERS = 40
"""Below this the CR1 test gets the wild cluster bootstrap beside it."""
FEWEST_CLUSTERS = 15
"""Below this a CR1 test does not hold its level, and its result says `few_clusters`."""
OF_SLOPE = np.array([0.0, 1.0])
SLOPE, BOTH = 1, (0, 1)
"""Columns of the design."""


class MartingaleScore(Score, headline="M"):
    """Slope of the update on the prior (METRICS A1, A2). A fully unpredictable update has M = 0."""

    M: float = NAN
    """Slope. Positive: beliefs move away from the middle. -1: the posterior ignores the prior."""
    intercept: float = NAN
    t: float = NAN
    r2: float = NAN
    mean_delta: float = NAN
    """Mean update. A constant drift shows here and not in M."""
    mde: float = NAN
    """Smallest |M| that a test at this level would find with 80% power."""
    df: float = NAN
    """Degrees of freedom of t: effective_clusters - 1 under CR3, G - 1 under CR1, else n - 2."""
    effective_clusters: float = NAN
    """Questions that carry the slope (METRICS A2); defined under CR3."""
    joint_F: float = NAN
    """Wald test that intercept and slope are both zero (METRICS A3), with the same covariance. Not under CR3, which
    has none: use `martingale_joint_test`."""
    joint_p: float = NAN
    p_wild: float = NAN
    """Restricted wild cluster bootstrap; given with CR1 below forty clusters, or when asked for."""
    joint_p_wild: float = NAN
    """The same of the joint test."""
    se_iid: float = NAN
    p_iid: float = NAN
    """Homoskedastic and independent rows: for the replication of published numbers only."""
    t_abs: float = NAN
    n: int = 0
    G: int = 0


def martingale_score(
    prior: ArrayLike,
    post: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    se: str | None = None,
    p: str = "t",
    weights: ArrayLike | None = None,
    how: Resampling = RESAMPLING,
) -> MartingaleScore:
    """Regress post - prior on prior, with an intercept (METRICS A1, A2; martingale-score eq. 1).

    Args:
        prior: [n] beliefs in [0, 1]; NaN is missing, and the row is dropped and counted.
        post: [n] beliefs after the update.
        groups: [n] question of each row. Give them whenever a question has more than one row.
        se: `CR3` (the default with groups; cluster jackknife, t with effective_clusters - 1; without groups every
            row is a cluster), `CR1` (t with G - 1; rejects far too often where priors sit near 0 or 1), `HC3` (for
            one row per question; t with n - 2), or `iid` (the default without groups; what papers print, and wrong
            when spread depends on the prior).
        p: `t`, or `wild` for the restricted wild cluster bootstrap as the headline p, with CR1 errors.
        weights: [n] positive; 1 / rows of the question gives the question-balanced slope.

    Statuses: `too_few`, `zero_variance_prior`, `no_df`, `perfect_fit`, `zero_variance_update`, and those of
    the standard error (`one_cluster`, `leverage_one`, `zero_cluster_variance`); what they leave undefined is
    NaN. `few_effective_clusters` says that fewer than ten questions carry the slope, and under CR1 `few_clusters`
    that there are fewer than fifteen: everything is given. The slope is consistent in the number of questions but
    biased in few: within a question a prior is the sum of earlier updates.
    """
    how = how.drawing(4999)
    one_of(p, ("t", "wild"), "p")
    se = errors("CR1" if p == "wild" and se is None else se, groups)
    if p == "wild" and se != "CR1":
        raise ValueError("p: 'wild' resamples clusters with CR1 errors; give groups and leave se out")
    rows, b, d, w = complete_updates(prior, post, groups, weights)
    params: dict[str, Any] = {"level": how.level, "se": se, "weighted": weights is not None}
    common: dict[str, Any] = {**rows.counts, "n": rows.n, "G": rows.n_clusters, "params": params}
    status, fit = _fit(b, d, w, rows, se)
    if fit is None:
        mean = float(np.average(d, weights=w)) if rows.n > 1 else NAN
        return MartingaleScore(mean_delta=mean, status=status, **common)
    test = fit.contrast(OF_SLOPE)
    slope, error = test.estimate, test.se
    score = MartingaleScore(
        M=slope,
        intercept=float(fit.params[0]),
        mean_delta=float(np.average(d, weights=w)),
        r2=fit.r2,
        t_abs=abs(test.t),
        status=test.concern if status == "ok" else status,
        **contrast_fields(test, how.level),
        **common,
    )
    if error == 0:  # an exact fit: nothing is left to test
        return replace(score, ci_lo=slope, ci_hi=slope, ci_method="exact fit", mde=0.0)
    if not np.isfinite(error):  # cancelled, and rounding has made the variance negative
        return replace(score, status="zero_cluster_variance") if score.status == "ok" else score
    joint_f, joint_p = fit.wald(_both(b))
    plain = linear_fit(d, _design(b), se="iid", weights=w).contrast(OF_SLOPE)
    score = replace(
        score,
        mde=minimum_detectable(score.ci_lo, score.ci_hi, error, test.df),
        joint_F=joint_f,
        joint_p=joint_p,
        se_iid=plain.se,
        p_iid=plain.p,
    )
    if se == "CR1" and rows.n_clusters < FEWEST_CLUSTERS:
        score = replace(score, status="few_clusters")
    if p == "t" and (se != "CR1" or rows.n_clusters >= FEW_CLUSTERS):
        return score
    # Centred, because the joint test does not mind, and priors that lie close together then do no harm.
    design = _design(b - b.mean())
    wild, joint = (wild_cluster_test(d, design, rows.codes, columns, weights=w, how=how) for columns in (SLOPE, BOTH))
    score = replace(score, p_wild=wild.p, joint_p_wild=joint.p, params=params | dict(wild.params))
    return replace(score, p=wild.p, p_method=wild.p_method) if p == "wild" else score


def martingale_moments(prior: ArrayLike, post: ArrayLike) -> Floats:
    """What the slope needs of each row, [n, 5]: to be summed, bootstrapped or compared between kinds (METRICS A1).

    A row with a NaN is all NaN. With `martingale_slope` these are arguments of `bootstrap_moments`,
    `moment_interval` and `paired_difference_moments`.
    """
    b, q = probabilities(prior, "prior"), probabilities(post, "post")
    same_shape(prior=b, post=q)
    x, d = b - 0.5, q - b  # near the mean of beliefs, sums of squares keep their digits
    moments = np.column_stack([np.ones_like(x), x, d, x * x, x * d])
    moments[np.isnan(d)] = np.nan
    return moments


def martingale_slope(sums: Floats) -> Floats:
    """Martingale Scores [draws] from sums [draws, 5] of `martingale_moments`; NaN where the prior is constant."""
    n, x, d, xx, xd = sums.T
    spread = xx - x * x / n
    return (xd - x * d / n) / np.where(spread > EXACT_SS, spread, np.nan)


FEW_FOR_FLIPS = 50
"""Below this effective number of clusters the joint test says `few_effective_clusters`."""


class JointTest(Score, headline="F"):
    """Intercept and slope are both zero (METRICS A3)."""

    F: float = NAN
    df1: int = 2
    df2: float = NAN
    p_F: float = NAN
    """By F(df1, df2)."""
    effective_clusters: float = NAN
    """Questions that carry the slope; defined under CR3."""


def martingale_joint_test(
    prior: ArrayLike,
    post: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    se: str | None = None,
    how: Resampling = RESAMPLING,
) -> JointTest:
    """Test both halves of the martingale property, so that a constant drift is seen too (METRICS A3).

    Arguments as in `martingale_score`. Rows independent: F(2, n - 2). Clustered: sign flips of the clusters' scores,
    studentised, which need nothing estimated under this null; `p_F` is Hotelling's F beside it. With `se="CR1"`
    `p` is the restricted wild cluster bootstrap of Wald / 2, which rejects too often in long chains, and `p_F` its
    F(2, G - 1), which does so even at forty clusters. Undefined below three clusters. Where the slope has no test,
    neither has this. Flips need updates as likely up as down: exact Bayesians with U-shaped priors are rejected in 6.7%
    where 20 to 45 questions carry the slope and in 5.2% where 90 do, so `few_effective_clusters` is said below fifty.
    """
    how = how.drawing(4999)
    se = errors(se, groups)
    rows, b, d, w = complete_updates(prior, post, groups, None)
    status, fit = _fit(b, d, w, rows, se)
    if fit is None or status in ("no_df", "perfect_fit", "zero_variance_update", "one_cluster", "leverage_one"):
        return JointTest(status=status, **rows.counts)
    if se == "CR3":
        scores = cluster_sums(_design(b - b.mean()) * d[:, None], rows.codes, rows.n_clusters)
        flips = joint_sign_flip(scores, how=how)
        fields = {name: getattr(flips, name) for name in ("F", "p", "p_F", "p_method")}
        effective = fit.contrast(OF_SLOPE).effective_clusters
        few = flips.status == "ok" and few_effective(effective, FEW_FOR_FLIPS)
        fields |= {"effective_clusters": effective, "status": "few_effective_clusters" if few else flips.status}
        return JointTest(**fields, df2=flips.df2, params={"se": se, **flips.params}, **rows.counts)
    if not (fit.se > 0).all():
        return JointTest(status=status, **rows.counts)
    f, p = fit.wald(_both(b))
    if not np.isfinite(f):
        status = "too_few_clusters" if fit.df < 2 else "singular_covariance"
        return JointTest(status=status, **rows.counts)
    test = JointTest(
        F=f, p=p, p_F=p, df2=fit.df, p_method=f"F(2, {fit.df:g}), {fit.method}", params={"se": se}, **rows.counts
    )
    if se != "CR1":
        return test
    wild = wild_cluster_test(d, _design(b - b.mean()), rows.codes, BOTH, how=how)
    return replace(test, p=wild.p, p_method=wild.p_method, params={"se": se, **wild.params})


ONE_OUTCOME = "one_outcome"
"""Status where all outcomes are the same."""


class CalibrationSlope(Score, headline="slope"):
    """Slope of the outcome on the belief; 1 if calibrated (METRICS A10)."""

    slope: float = NAN
    intercept: float = NAN
    df: float = NAN
    effective_clusters: float = NAN
    """Clusters that carry the slope."""
    effective_surprises: float = NAN
    """How many outcomes against the belief a calibrated forecaster would have among the rows that carry the slope."""


def calibration_slope(
    p: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, *, se: str | None = None, how: Resampling = RESAMPLING
) -> CalibrationSlope:
    """Regress outcomes [n] (0 or 1) on beliefs [n]; to be read beside M (METRICS A10).

    Below 1 the beliefs are too extreme, and a perfect updater then shows M < 0; above 1 they are too timid,
    and it shows M > 0. The outcome is what a posterior becomes once everything is known, so this is one plus
    the slope of a martingale regression to the truth. `p` tests a slope of 1.

    Errors are CR3, without groups by row: the variance of an outcome depends on the belief, so `iid` is never right.
    Beliefs of .01 and .99 are mostly followed by no surprise at all, and rows without any show no variance:
    `few_surprises` says that less than ten are to be expected, and then the test rejects too often. Outcomes that are
    all the same have no slope on anything: `one_outcome`.
    """
    score = martingale_score(p, outcomes(y, "y"), groups, se=se or "CR3", how=how)
    _, b, d, _ = complete_updates(p, outcomes(y, "y"), groups, None)
    if len(b) > 1 and len({*np.round(b + d)}) == 1:
        return CalibrationSlope(status=ONE_OUTCOME, params=score.params, **score.row_fields)
    surprises = _effective_surprises(b)
    if score.status == "ok" and surprises < FEW_EFFECTIVE:
        score = replace(score, status="few_surprises")
    return CalibrationSlope(
        slope=1 + score.M,
        intercept=score.intercept,
        df=score.df,
        effective_clusters=score.effective_clusters,
        effective_surprises=surprises,
        **score.common_fields(ci_lo=1 + score.ci_lo, ci_hi=1 + score.ci_hi),
    )


def _effective_surprises(b: Floats) -> float:
    """Outcomes [n] of calibrated beliefs, counted by how unlike a normal sum their share of the slope is.

    With leverages x^2 and the second and fourth central moments m2, m4 of a coin of probability b, it is
    (sum x^2 m2)^2 / sum x^4 m4: n for fair coins of equal leverage, and n p for coins of a small p.
    """
    x2, m2 = (b - b.mean()) ** 2 if len(b) else b, b * (1 - b)
    fourth = float((x2**2 * m2 * (1 - 3 * m2)).sum())
    return float((x2 * m2).sum() ** 2 / fourth) if fourth > 0 else NAN


def complete_updates(
    prior: ArrayLike, post: ArrayLike, groups: ArrayLike | None, weights: ArrayLike | None
) -> tuple[Rows, Floats, Floats, Floats]:
    """Complete rows, with prior, update and weight."""
    rows = complete_beliefs(groups, prior=prior, post=post)
    b, q = rows.columns
    w = np.ones(len(rows.kept)) if weights is None else floats(weights)
    if w.shape != rows.kept.shape or not (np.isfinite(w) & (w > 0)).all():
        raise ValueError(f"weights: give {len(rows.kept)} positive numbers, one per row")
    return rows, b, q - b, w[rows.kept]


def _design(b: Floats) -> Floats:
    return np.column_stack([np.ones_like(b), b])


def _both(b: Floats) -> Floats:
    """Contrasts for the mean update and the slope: zero if and only if intercept and slope are.

    The intercept itself is the update at a prior of zero, and where priors are close it is nearly the slope.
    """
    return np.array([[1.0, b.mean()], [0.0, 1.0]])


def _fit(b: Floats, d: Floats, w: Floats, rows: Rows, se: str) -> tuple[str, LinearFit | None]:
    """The regression and its status; no fit where there is no slope."""
    if rows.n < 2:
        return "too_few", None
    if _sum_of_squares(b, w) <= EXACT_SS:
        return "zero_variance_prior", None
    fit = linear_fit(d, _design(b), se=se, codes=rows.codes, weights=w)
    if fit.status == "rank_deficient":
        return "zero_variance_prior", None
    if fit.status == "perfect_fit" and _sum_of_squares(d, w) <= EXACT_SS:
        return "zero_variance_update", fit
    return fit.status, fit


def _sum_of_squares(x: Floats, w: Floats) -> float:
    w = w / w.mean()
    return float(w @ (x - np.average(x, weights=w)) ** 2)
