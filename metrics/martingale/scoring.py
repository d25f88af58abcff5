"""Beliefs against outcomes, and how that relates to the Martingale Score (METRICS A7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..inference.jackknife import FEW_EFFECTIVE
from ..inference.means import UNIT, cluster_mean
from ..inference.regression import linear_fit
from ..inference.rows import Rows, complete_numbers
from ..score import NAN, Score
from ..validation import Floats, floats, one_of, outcomes, probabilities

EXTREME = 0.05
"""Beliefs nearer to 0 or 1, on average, are mostly followed by no surprise."""


@dataclass(frozen=True, kw_only=True)
class Brier(Score):
    """Mean squared distance of beliefs from outcomes, in [0, 1]; always saying one half scores 0.25."""

    headline: ClassVar[str] = "brier"
    brier: float = NAN


def brier(
    p: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> Brier:
    """Brier score of beliefs [n] and outcomes [n] (0, 1, or NaN if unknown), one class only (METRICS A7).

    Interval over `groups` [n], or over rows: bootstrap, or t below ten clusters. Beliefs near 0 and 1 are mostly
    followed by no surprise at all, and then no interval holds: `few_surprises` says that of such, nearer than .05 on
    average, fewer than ten are to be expected by their own lights.
    """
    rows = complete_numbers(groups, p=probabilities(p, "p"), y=outcomes(y, "y"))
    p, y = rows.columns
    mean, common = _mean_over_clusters((p - y) ** 2, rows, level, draws, seed, UNIT)
    surprises = float(np.minimum(p, 1 - p).sum())
    if common["status"] in ("ok", "few_clusters", "zero_cluster_variance") and surprises < min(
        FEW_EFFECTIVE, EXTREME * rows.n
    ):
        common["status"] = "few_surprises"
    return Brier(brier=mean, **common)


@dataclass(frozen=True, kw_only=True)
class BrierUpdate(Score):
    """What an update did to the Brier score: `change` = `mean_sq_update` + `cross`."""

    headline: ClassVar[str] = "change"
    change: float = NAN
    """brier_post - brier_prior; negative is better."""
    brier_prior: float = NAN
    brier_post: float = NAN
    mean_sq_update: float = NAN
    """The part that grows with any update, however random: larger updates alone raise the Brier score."""
    cross: float = NAN
    """Twice the mean of update x prior error: what the direction of the updates earned."""
    delta_abs_err: float = NAN
    """Mean change of |belief - outcome|."""


def brier_update(
    prior: ArrayLike,
    post: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> BrierUpdate:
    """Split the change of the Brier score into size and direction of the updates (METRICS A7).

    Args:
        prior: [n] beliefs in [0, 1] or NaN.
        post: [n].
        y: [n] outcomes: 0, 1, or NaN if unknown.
        groups: [n] question of each row; the interval is over them.
        level: of the interval.
        draws: of the bootstrap; fewer than ten clusters get a t interval.
        seed: of the bootstrap.
    """
    rows = complete_numbers(
        groups, prior=probabilities(prior, "prior"), post=probabilities(post, "post"), y=outcomes(y, "y")
    )
    b, q, y = rows.columns
    change, common = _mean_over_clusters((q - y) ** 2 - (b - y) ** 2, rows, level, draws, seed)
    if not rows.n:
        return BrierUpdate(**common)
    return BrierUpdate(
        change=change,
        brier_prior=float(np.mean((b - y) ** 2)),
        brier_post=float(np.mean((q - y) ** 2)),
        mean_sq_update=float(np.mean((q - b) ** 2)),
        cross=float(2 * np.mean((q - b) * (b - y))),
        delta_abs_err=float(np.mean(np.abs(q - y) - np.abs(b - y))),
        **common,
    )


@dataclass(frozen=True, kw_only=True)
class BrierRegression(Score):
    """Slope of the Brier score on a cell's slope."""

    headline: ClassVar[str] = "coef"
    coef: float = NAN
    t: float = NAN
    df: float = NAN
    r2: float = NAN


def brier_on_abs_martingale(
    M: ArrayLike,
    brier: ArrayLike,
    controls: Sequence[ArrayLike] = (),
    *,
    se: str = "iid",
) -> BrierRegression:
    """Regress cells' Brier scores on |M| and controls (METRICS A7; the published regression).

    Args:
        M: [cells] signed Martingale Scores; the absolute value is taken here.
        brier: [cells].
        controls: columns, each [cells], such as dummies of domains.
        se: `iid` as published, or `HC3`.

    For replication. |M| is biased upward, and both sides contain the same posteriors, so cells with noisier
    updates have more of both: the slope is positive where no belief is entrenched.
    """
    one_of(se, ("iid", "HC3"), "se")
    columns = {f"controls[{i}]": floats(column) for i, column in enumerate(controls)}
    rows = complete_numbers(M=np.abs(floats(M)), brier=probabilities(brier, "brier"), **columns)
    absolute, score, *rest = rows.columns
    fit = linear_fit(score, np.column_stack([np.ones(rows.n), absolute, *rest]), se=se)
    weights = np.zeros(len(fit.params))
    weights[1] = 1.0
    found = fit.contrast(weights)
    return BrierRegression(
        coef=found.estimate,
        se=found.se,
        t=found.t,
        df=fit.df,
        p=found.p,
        p_method=found.method if np.isfinite(found.p) else "",
        r2=fit.r2,
        status=fit.status,
        params={"se": se},
        **rows.counts,
    )


def _mean_over_clusters(
    values: Floats,
    rows: Rows,
    level: float,
    draws: int,
    seed: int,
    within: tuple[float, float] = (-1.0, 1.0),
) -> tuple[float, dict[str, Any]]:
    """Mean, and the common fields of its result with the row counts of the metric."""
    mean = cluster_mean(values, rows.codes, within=within, seed=seed, draws=draws, level=level)
    return mean.mean, mean.interval() | {"status": mean.status} | rows.counts
