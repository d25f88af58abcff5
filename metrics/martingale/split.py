"""Do cells with a larger Martingale Score forecast worse? With M and Brier score from different questions.

The published regression takes both from the same posteriors, and noisier updates raise both (METRICS A7).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..inference.intervals import MIN_BOOTSTRAP_CLUSTERS
from ..inference.regression import EXACT_SS
from ..inference.resampling import cluster_counts
from ..inference.rows import Rows, cluster_codes, complete_numbers
from ..inference.tails import Tails
from ..score import NAN, Score
from ..validation import TIE, Floats, check_draws, outcomes, probabilities

MIN_CELLS = 5
"""Three coefficients, and something left over."""


@dataclass(frozen=True, kw_only=True)
class SplitRegression(Score):
    """Slope of a cell's Brier score in one half of the questions on its M in the other half."""

    headline: ClassVar[str] = "coef"
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
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> SplitRegression:
    """Regress Brier(post) on M and Brier(prior) over cells, split by question (METRICS A7).

    Args:
        prior: [n] beliefs in [0, 1] or NaN.
        post: [n].
        y: [n] outcomes: 0, 1, or NaN if unknown.
        groups: [n] question of each row; cells may share questions, and then share their half.
        cells: [n] cell (model, prompt, domain, ...) of each row.
        splits: random halvings of the questions to average over, each used in both directions.
        level: of the interval.
        draws: of the two-level bootstrap, which resamples cells and questions.
        seed: of halvings and bootstrap.

    M is signed. Splitting does not rescue |M|: it grows with the noise of a cell's updates in either half,
    and so does the Brier score. Cells weigh by the inverse variance of their M; one whose updates are exactly
    linear has none and is left out. With Brier(prior) among the regressors the slope is also that of the
    Brier change. M of half the questions is noisy, which pulls the slope towards zero, and a bootstrap of
    both levels is timid: a null here is weak evidence of none. Fewer than five cells or ten questions give
    no result.
    """
    rows = complete_numbers(
        groups, prior=probabilities(prior, "prior"), post=probabilities(post, "post"), y=outcomes(y, "y")
    )
    labels, _ = cluster_codes(cells, len(rows.kept))
    cell, n_cells = cluster_codes(labels[rows.kept], rows.n)
    found: dict[str, Any] = {**rows.counts, "n_cells": n_cells}
    if n_cells < MIN_CELLS or rows.n_clusters < MIN_BOOTSTRAP_CLUSTERS:
        return SplitRegression(status="too_few", **found)
    moments = _moments(rows, cell, n_cells)
    rng = np.random.default_rng(seed)
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
        return SplitRegression(status="undefined", **found)
    check_draws(draws)
    drawn = np.empty(draws)
    for i in range(draws):
        picks = (rng.integers(0, size, size=(1, size)) for size in (rows.n_clusters, n_cells))
        questions, weights = map(cluster_counts, picks, (rows.n_clusters, n_cells))
        drawn[i] = average(questions[0], weights[0])
    defined = drawn[np.isfinite(drawn)]
    tails = Tails(n_clusters=min(rows.n_clusters, n_cells))
    lo, hi = tails.ends(drawn, level)
    return SplitRegression(
        coef=coef,
        se=float(defined.std(ddof=1)) if len(defined) > 1 else NAN,
        ci_lo=lo,
        ci_hi=hi,
        ci_method="percentile bootstrap of cells and questions",
        p=tails.p_of_zero(drawn),
        p_method="percentile bootstrap of cells and questions, inverted",
        params={
            "level": level,
            "draws": draws,
            "seed": seed,
            "splits": splits,
            "undefined_draws": draws - len(defined),
        },
        **found,
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
        usable = (n > 2) & (sxx > EXACT_SS) & (syy - sxy * m > np.maximum(EXACT_SS, TIE * syy)) & (scores[..., 0] > 0)
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
