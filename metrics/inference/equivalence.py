"""Near enough to zero: the only ground on which coherence may be claimed (METRICS F3); and how many surprises a mean
loss rests on (METRICS F1).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..contract import NAN, RESAMPLING, Resampling, Score, floats
from .clusters import complete_rows
from .intervals import t_interval
from .means import ClusterMean, cluster_mean, few_status, studentised_bounds

MARGINS: Mapping[str, float] = {
    "martingale": 0.02,
    "intercept": 0.01,
    "jsd": 0.01,
    "b_score": 0.05,
    "framing": 0.05,
    "rmse": 0.03,
    "cmi": 0.005,
    "lie": 0.02,
    "logodds": 0.1,
    "dutch_book": 2.0,
}
"""Smallest effects of interest, in each metric's units (JSD bits, CMI nats, log-odds, cents of a Dutch book). Fix yours
before reading.

Where beliefs are extreme only the margin of log-odds means anything: .02 is all of a belief of .02."""
NONE_BAD = 3.0
"""None bad of G clusters leaves up to 3 / G of them bad, at 95% (the rule of three)."""


class Equivalence(Score, headline="p"):
    """Two one-sided tests."""

    p_lower: float = NAN
    """Of the null that the effect is at or below `lo`."""
    p_upper: float = NAN
    equivalent: bool = False
    """Both nulls fall at alpha; the same as: the 1 - 2 alpha interval lies within the bounds."""


def tost(est: float, se: float, df: float, lo: float, hi: float, *, alpha: float = 0.05) -> Equivalence:
    """Test that an effect lies strictly between `lo` and `hi` (METRICS F3).

    `p` is the larger of the two one-sided p-values, with t on `df` (inf: normal); the interval is the
    1 - 2 alpha one that decides. A standard error that is zero or undefined claims nothing.
    """
    if not lo < hi:
        raise ValueError(f"lo, hi: {lo!r}, {hi!r} hold nothing between them; give lo < hi")
    if se < 0:
        raise ValueError(f"se: {se!r} is negative")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha: {alpha!r}; give a level between 0 and 0.5")
    params = {"lo": lo, "hi": hi, "df": df, "alpha": alpha}
    if not (np.isfinite(est) and np.isfinite(se)):
        return Equivalence(status="undefined", params=params)
    if se == 0:
        return Equivalence(se=se, status="zero_se", params=params)
    if not df > 0:
        return Equivalence(se=se, status="no_df", params=params)
    p_lower = float(scipy.stats.t.sf((est - lo) / se, df))
    p_upper = float(scipy.stats.t.sf((hi - est) / se, df))
    lo_ci, hi_ci = t_interval(est, se, df, 1 - 2 * alpha)
    p = max(p_lower, p_upper)
    return Equivalence(
        p=p,
        p_lower=p_lower,
        p_upper=p_upper,
        equivalent=p < alpha,
        se=se,
        ci_lo=lo_ci,
        ci_hi=hi_ci,
        ci_method=f"t({df:g}), level {1 - 2 * alpha:g}",
        p_method="two one-sided t tests",
        params=params,
    )


def claim_clusters(margin: float, worst: float = 1.0) -> int:
    """How many clusters a claim needs that a mean lies within `margin`, if one cluster can be off by `worst`.

    >>> claim_clusters(0.05)
    60
    """
    if not (margin > 0 and worst > 0):
        raise ValueError(f"margin, worst: {margin!r}, {worst!r}; give positive numbers")
    return max(2, int(np.ceil(NONE_BAD * worst / margin - 1e-9)))


def unless_missed(test: Equivalence, clusters: float, worst: float = 1.0) -> Equivalence:
    """The test, its p no smaller than the chance that so many clusters hold so few of those that are off.

    A t test knows the spread that it has seen. If one cluster in thirty is far off, every second sample of twenty has
    none of them, hardly any spread, and a p as small as one likes. At the edge of the margin a share margin / worst of
    the clusters is off by `worst`. The sample speaks of k of them: as many as would make its estimate, or its standard
    error, whichever is fewer. p is at least the binomial chance of no more than k; if none was seen, that is
    (1 - margin / worst)^clusters, below .05 from `claim_clusters` on.
    """
    margin = min(-float(test.params["lo"]), float(test.params["hi"]))
    if not np.isfinite(test.p) or not 0 < margin < worst:
        return test
    seen = clusters * min(abs(test.ci_lo + test.ci_hi) / 2 / worst, clusters * (test.se / worst) ** 2)
    p = max(test.p, float(scipy.special.betainc(max(clusters - seen, 0.5), seen + 1, 1 - margin / worst)))
    params = {**test.params, "clusters": clusters, "worst": worst}
    method = f"{test.p_method}, and the chance to have missed what is off"
    return replace(test, p=p, equivalent=p < test.params["alpha"], p_method=method, params=params)


def alike(est: float, clusters: float, margin: float, worst: float = 1.0) -> Equivalence:
    """Test at 5% that a mean lies within `margin` of 0 where all clusters are alike and no t test has an error
    (METRICS F3).

    p is the chance that so many clusters hold none of those that are off by `worst`, if these are as many as bring the
    mean from `est` to the margin.
    """
    left = float(np.clip((margin - abs(est)) / (worst - abs(est)), 0, 1)) if worst > margin else 1.0
    p = (1 - left) ** clusters
    return Equivalence(
        p=p,
        p_lower=p,
        p_upper=p,
        equivalent=p < 0.05,
        se=0.0,
        p_method="the chance to have missed what is off",
        params={"lo": -margin, "hi": margin, "alpha": 0.05, "clusters": clusters, "worst": worst},
    )


class Unseen(NamedTuple):
    """What a mean of few different values could be, had the sample missed those that pull the other way."""

    p: float
    """The chance that so many clusters hold so little of what would bring the mean to zero."""
    lo: float
    hi: float


def unseen_opposites(values: ArrayLike, worst: float = 1.0, level: float = 0.95) -> Unseen:
    """How far a mean could be moved by clusters that are off by `worst`, and of which the sample holds few.

    Args:
        values: [G] of each cluster, of either sign.
        worst: the largest size that a value can have, in their units.
        level: of each end.

    Where most values are zero, the others are rare, and rarer and larger ones of the other sign may be missed: of 78%
    ties, 2% of +.5 and 20% of -.05 (mean 0) two samples of twenty in three hold no +.5 at all, and by their spread lie
    below zero. If a share q of the clusters is off by `worst`, G of them hold no more than k such with a chance that is
    binomial; k is what the values of the other sign make. q is as large as that chance, at this level, allows, and the
    mean of what points one way is moved the other way by q `worst`.
    """
    x = floats(values)
    n = len(x)
    up, down = float(x[x > 0].sum()) / n, float(-x[x < 0].sum()) / n

    def missed(seen: float) -> float:
        k = min(n * seen / worst, n - 0.5)
        return float(1 - scipy.special.betaincinv(n - k, k + 1, 1 - level))

    larger, k = max(up, down), min(n * min(up, down) / worst, n - 0.5)
    p = float(scipy.special.betainc(n - k, k + 1, 1 - min(larger / worst, 1.0)))
    return Unseen(p, up - missed(down) * worst, missed(up) * worst - down)


class CoherenceClaim(Score, headline="mean"):
    """May a mean loss, or a mean deviation, be called smaller than a margin? (METRICS F3)"""

    mean: float = NAN
    equal_weight_mean: float = NAN
    """Mean of the clusters' means."""
    largest_share: float = NAN
    """Share of the estimate that the largest cluster makes."""
    lower: float = NAN
    """One-sided bound; -inf for a loss that cannot be negative, where it decides nothing."""
    upper: float = NAN
    """One-sided bound; inf where resamples can miss all clusters that differ."""
    needed_clusters: int = 0
    """3 worst / margin; 2 for a deviation whose `worst` is not known."""
    failures: tuple[str, ...] = ()
    """Which of `upper`, `lower` and `clusters` did not hold."""
    claimed: bool = False


def coherence_claim(
    loss: ArrayLike,
    clusters: ArrayLike | None,
    margin: float,
    *,
    bounded_below: bool = True,
    worst: float | None = None,
    how: Resampling = RESAMPLING,
) -> CoherenceClaim:
    """Claim coherence only by a studentised bootstrap bound below the margin, with clusters enough (METRICS F1, F3).

    Args:
        loss: [n] of each row, in the units of the margin; NaN is dropped and counted.
        clusters: [n], the unit that was sampled. None: every row its own.
        margin: what the mean must be shown to stay below; see `MARGINS`. Fix it before reading.
        bounded_below: whether the loss is at least 0. Otherwise it is a deviation, and its mean must lie between
            -margin and margin.
        worst: the largest loss or deviation that a cluster can have, in the same units: one that was not sampled may
            have it. None: 1 for a loss, and unknown for a deviation.

    None bad of G clusters leaves up to 3 / G of them bad. A claim therefore needs 3 worst / margin clusters
    (`claim_clusters`), whatever the bootstrap says: it cannot draw what was never seen. Of unequal clusters as many as
    carry the mean must leave a chance of 5% or less that none of them was off. The interval is that of both bounds, of
    level 2 level - 1.
    """
    how = how.drawing(4999)
    worst = 1.0 if worst is None and bounded_below else worst
    needed = 2 if worst is None else claim_clusters(margin, worst)
    values = floats(loss)
    rows = complete_rows(clusters, loss=np.where(np.isfinite(values), values, np.nan))
    (x,) = rows.columns
    if bounded_below and (x < 0).any():
        raise ValueError(f"loss: {float(x.min())!r} is negative; a deviation has bounded_below=False")
    params = {"margin": margin, "worst": worst, **how.params}
    if not rows.n:
        return CoherenceClaim(status="too_few", needed_clusters=needed, params=params, **rows.counts)
    lower, upper, method = studentised_bounds(x, rows.codes, how=how)
    beside: ClusterMean = cluster_mean(x, rows.codes, how=replace(how, draws=1))
    rarest = 1.0 if worst is None else min(margin / worst, 1.0)
    enough = rows.n_clusters >= needed and (1 - rarest) ** beside.effective_clusters < np.exp(-NONE_BAD)
    conditions = {"upper": upper < margin, "clusters": enough}
    if not bounded_below:
        conditions["lower"] = lower > -margin
    failures = tuple(name for name, good in conditions.items() if not good)
    return CoherenceClaim(
        mean=float(x.mean()),
        equal_weight_mean=beside.equal_weight_mean,
        largest_share=beside.largest_share,
        se=beside.se,
        lower=-np.inf if bounded_below else lower,
        upper=upper,
        ci_lo=lower,
        ci_hi=upper,
        ci_method=f"{method}, one-sided {how.level:g} each",
        needed_clusters=needed,
        failures=failures,
        claimed=not failures,
        status=few_status(rows.codes) if rows.n_clusters > 1 else "one_cluster",
        params=params,
        **rows.counts,
    )


# How many surprises a mean loss rests on: near 0 and 1 it is made by outcomes that seldom come (METRICS F1).
#
# Where none of them came, the losses hardly vary, and no interval and no test that looks at their spread holds.

FEW_SURPRISES = 5.0
"""As the counts that are expected of a table should be at least (Cochran 1954)."""
RARE = 0.2
"""Surprises that are likelier than this come often enough to be seen in any sample that has clusters enough."""


class Surprises(NamedTuple):
    """What the spread of a mean loss is made of, by the lights of the beliefs themselves."""

    effective: float
    """How many surprises of one size would make it; infinite where no outcome changes the loss."""
    chance: float
    """Their mean chance, each weighing by what it adds to the variance."""

    @property
    def few(self) -> bool:
        """Whether no interval of the mean loss is promised."""
        return self.effective < FEW_SURPRISES and self.chance < RARE


def surprises(beliefs: ArrayLike, losses: ArrayLike, clusters: ArrayLike | None = None) -> Surprises:
    """Count the surprises that a mean loss, or a mean difference of losses, rests on.

    Args:
        beliefs: [n, k] probabilities of the k outcomes of each row.
        losses: [n, k] what the row would lose (or one kind more than the other) if each came true.
        clusters: [n] whose rows have one outcome, or outcomes that go together. None: every row its own.

    An outcome that is not the likeliest one comes with chance q and moves the loss by J. Sums of such jumps have the
    variance of sum J^2 q, and the excess kurtosis of (sum J^2 q)^2 / sum J^4 q equal ones: as many as they are where
    they are alike, and one where a single question decides. Rows with a hole are left out.
    """
    p, loss = floats(beliefs), floats(losses)
    if p.ndim != 2 or p.shape != loss.shape:
        raise ValueError(f"beliefs {p.shape}, losses {loss.shape}; give [n, outcomes] twice")
    rows = complete_rows(clusters, p=p, loss=loss)
    p, loss = rows.columns
    if not rows.n:
        return Surprises(np.inf, 1.0)
    likeliest = p.argmax(axis=1)[:, None]
    jump = (loss - np.take_along_axis(loss, likeliest, axis=1)) ** 2
    if not jump.any():
        return Surprises(np.inf, 1.0)
    if not (jump * p).any():  # beliefs of 0 and 1 foresee no surprise
        return Surprises(0.0, 0.0)
    jump = jump / jump.max()
    together = np.bincount(rows.codes)[rows.codes].astype(np.float64)  # equal rows jump at once: m^2 J^2 q, m^4 J^4 q
    variance = float(together @ (jump * p).sum(axis=1))
    fourth = float(together**3 @ (jump**2 * p).sum(axis=1))
    return Surprises(variance**2 / fourth, float(together @ (jump * p * p).sum(axis=1)) / variance)
