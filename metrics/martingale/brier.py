"""Beliefs against outcomes, and do cells with a larger Martingale Score forecast worse? (METRICS A7)"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score, floats, one_of, outcomes, probabilities
from ..inference.clusters import Rows, cluster_codes, cluster_counts, complete_numbers
from ..inference.intervals import MIN_BOOTSTRAP_CLUSTERS, Tails
from ..inference.means import UNIT, cluster_mean
from ..inference.regression import EXACT_SS, FEW_EFFECTIVE, linear_fit

EXTREME = 0.05
"""Beliefs nearer to 0 or 1, on average, are mostly followed by no surprise."""


class Brier(Score, headline="brier"):
    """Mean squared distance of beliefs from outcomes, in [0, 1]; always saying one half scores 0.25."""

    brier: float = NAN


def brier(p: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, *, how: Resampling = RESAMPLING) -> Brier:
    """Brier score of beliefs [n] and outcomes [n] (0, 1, or NaN if unknown), one class only (METRICS A7).

    Interval over `groups` [n], or over rows: bootstrap, or t below ten clusters. Beliefs near 0 and 1 are mostly
    followed by no surprise at all, and then no interval holds: `few_surprises` says that of such, nearer than .05 on
    average, fewer than ten are to be expected by their own lights.
    """
    rows = complete_numbers(groups, p=probabilities(p, "p"), y=outcomes(y, "y"))
    p, y = rows.columns
    mean, common = _mean_over_clusters((p - y) ** 2, rows, how, UNIT)
    surprises = float(np.minimum(p, 1 - p).sum())
    if common["status"] in ("ok", "few_clusters", "zero_cluster_variance") and surprises < min(
        FEW_EFFECTIVE, EXTREME * rows.n
    ):
        common["status"] = "few_surprises"
    return Brier(brier=mean, **common)


class BrierUpdate(Score, headline="change"):
    """What an update did to the Brier score: `change` = `mean_sq_update` + `cross`."""

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
    prior: ArrayLike, post: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, *, how: Resampling = RESAMPLING
) -> BrierUpdate:
    """Split the change of the Brier score into size and direction of the updates (METRICS A7).

    Args:
        prior: [n] beliefs in [0, 1] or NaN.
        post: [n].
        y: [n] outcomes: 0, 1, or NaN if unknown.
        groups: [n] question of each row; the interval is over them.
    """
    rows = complete_numbers(
        groups, prior=probabilities(prior, "prior"), post=probabilities(post, "post"), y=outcomes(y, "y")
    )
    b, q, y = rows.columns
    change, common = _mean_over_clusters((q - y) ** 2 - (b - y) ** 2, rows, how)
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


class BrierRegression(Score, headline="coef"):
    """Slope of the Brier score on a cell's slope."""

    coef: float = NAN
    t: float = NAN
    df: float = NAN
    r2: float = NAN


def brier_on_abs_martingale(
    M: ArrayLike, brier: ArrayLike, controls: Sequence[ArrayLike] = (), *, se: str = "iid"
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
    term = fit.contrast(np.eye(len(fit.params))[1])
    return BrierRegression(
        coef=term.estimate,
        se=term.se,
        t=term.t,
        df=fit.df,
        p=term.p,
        p_method=term.method if np.isfinite(term.p) else "",
        r2=fit.r2,
        status=fit.status,
        params={"se": se},
        **rows.counts,
    )


def _mean_over_clusters(
    values: Floats, rows: Rows, how: Resampling, within: tuple[float, float] = (-1.0, 1.0)
) -> tuple[float, dict[str, Any]]:
    """Mean, and the common fields of its result with the row counts of the metric."""
    mean = cluster_mean(values, rows.codes, within=within, how=how)
    return mean.mean, mean.interval() | {"status": mean.status} | rows.counts


# Do cells with a larger Martingale Score forecast worse? With M and Brier score from different questions.
#
# The published regression takes both from the same posteriors, and noisier updates raise both (METRICS A7).

MIN_CELLS = 5
"""Three coefficients, and something left over."""


class SplitRegression(Score, headline="coef"):
    """Slope of a cell's Brier score in one half of the questions on its M in the other half."""

    coef: float = NAN
    n_cells: int = 0


def brier_on_split_martingale(
    prior: ArrayLike,
    post: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike,
    cells: ArrayLike,
    *,
    splits: int = 10,
    how: Resampling = RESAMPLING,
) -> SplitRegression:
    """Regress Brier(post) on M and Brier(prior) over cells, split by question (METRICS A7).

    Args:
        prior: [n] beliefs in [0, 1] or NaN.
        post: [n].
        y: [n] outcomes: 0, 1, or NaN if unknown.
        groups: [n] question of each row; cells may share questions, and then share their half.
        cells: [n] cell (model, prompt, domain, ...) of each row.
        splits: random halvings of the questions to average over, each used in both directions.

    M is signed. Splitting does not rescue |M|: it grows with the noise of a cell's updates in either half,
    and so does the Brier score. Cells weigh by the inverse variance of their M; one whose updates are exactly
    linear has none and is left out. With Brier(prior) among the regressors the slope is also that of the
    Brier change. M of half the questions is noisy, which pulls the slope towards zero, and a bootstrap of
    both levels is timid: a null here is weak evidence of none. Fewer than five cells or ten questions give
    no result.
    """
    how = how.drawing(1000)
    rows = complete_numbers(
        groups, prior=probabilities(prior, "prior"), post=probabilities(post, "post"), y=outcomes(y, "y")
    )
    labels, _ = cluster_codes(cells, len(rows.kept))
    cell, n_cells = cluster_codes(labels[rows.kept], rows.n)
    fields: dict[str, Any] = {**rows.counts, "n_cells": n_cells}
    if n_cells < MIN_CELLS or rows.n_clusters < MIN_BOOTSTRAP_CLUSTERS:
        return SplitRegression(status="too_few", **fields)
    moments = _moments(rows, cell, n_cells)
    rng = np.random.default_rng(how.seed)
    # A question stays in its half in every resample, or its copies would sit in both.
    halves = rng.permuted(np.tile(np.arange(rows.n_clusters) % 2, (splits, 1)), axis=1)

    def average(questions: Floats, weights: Floats) -> float:
        """Mean coefficient of all splits, given how often each question and each cell is drawn."""
        sums = [((halves == half) * questions) @ moments.reshape(rows.n_clusters, -1) for half in (0, 1)]
        first, second = (s.reshape(splits, n_cells, -1) for s in sums)
        slopes, scores = np.concatenate([first, second]), np.concatenate([second, first])
        return float(np.mean(_coefficients(slopes, scores, weights)))

    coef = average(np.ones(rows.n_clusters), np.ones(n_cells))
    if not np.isfinite(coef):
        return SplitRegression(status="undefined", **fields)
    drawn = np.empty(how.n_draws)
    for i in range(how.n_draws):
        picks = (rng.integers(0, size, size=(1, size)) for size in (rows.n_clusters, n_cells))
        questions, weights = map(cluster_counts, picks, (rows.n_clusters, n_cells))
        drawn[i] = average(questions[0], weights[0])
    defined = drawn[np.isfinite(drawn)]
    tails = Tails(n_clusters=min(rows.n_clusters, n_cells))
    lo, hi = tails.ends(drawn, how.level)
    return SplitRegression(
        coef=coef,
        se=float(defined.std(ddof=1)) if len(defined) > 1 else NAN,
        ci_lo=lo,
        ci_hi=hi,
        ci_method="percentile bootstrap of cells and questions",
        p=tails.p_of_zero(drawn),
        p_method="percentile bootstrap of cells and questions, inverted",
        params={
            "level": how.level,
            "draws": how.n_draws,
            "seed": how.seed,
            "splits": splits,
            "undefined_draws": how.n_draws - len(defined),
        },
        **fields,
    )


def _moments(rows: Rows, cell: NDArray[np.intp], n_cells: int) -> Floats:
    """[questions, cells, 8] sums over rows: all that slopes and Brier scores need."""
    prior, post, y = rows.columns
    b, d = prior - prior.mean(), post - prior
    per_row = np.column_stack([np.ones_like(b), b, d, b * b, b * d, d * d, (post - y) ** 2, (prior - y) ** 2])
    moments = np.zeros((rows.n_clusters, n_cells, per_row.shape[1]))
    np.add.at(moments, (rows.codes, cell), per_row)
    return moments


def _coefficients(slopes: Floats, scores: Floats, counts: Floats) -> Floats:
    """[s] weighted coefficients on M, from sums [s, cells, 8]: of the questions for M, and of those for the scores."""
    n, b, d, bb, bd, dd = np.moveaxis(slopes[..., :6], -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        sxx, sxy, syy = bb - b * b / n, bd - b * d / n, dd - d * d / n
        m = sxy / sxx
        precision = sxx * (n - 2) / (syy - sxy * m)
        post, prior = np.moveaxis(scores[..., 6:], -1, 0) / scores[..., 0]
        usable = (sxx > EXACT_SS) & (syy - sxy * m > np.maximum(EXACT_SS, TIE * syy)) & (scores[..., 0] > 0)
        weight = np.where(usable, precision * counts, 0.0)
        m, post, prior = (np.where(usable, x, 0.0) for x in (m, post, prior))

        def total(x: Floats) -> Floats:
            return (weight * x).sum(axis=1, keepdims=True)

        ones = np.ones_like(m)
        left, score, control = (x - total(x) / total(ones) for x in (m, post, prior))
        # Cells that share questions and model share Brier(prior), which then is the constant again.
        varies = total(control**2) > TIE**2 * total(ones)
        left = left - np.where(varies, control * total(control * left) / total(control**2), 0.0)
        enough = ((weight > 0).sum(axis=1, keepdims=True) >= MIN_CELLS - 1) & (total(left**2) > TIE * total(m**2))
        return np.where(enough, total(left * score) / total(left**2), np.nan)[:, 0]
