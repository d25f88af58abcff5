"""Nested grouped cross-validation of one set of features (PROBES 3, 4).

Each outer fold is predicted by a fit on all others, whose penalty was chosen on those others alone: each of them is
predicted in turn by a fit without it and without the outer fold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ...hooks.errors import UserError
from ...metrics.validation import Floats
from ..estimators.readout import LinearReadout
from .systems import make_system

PENALTIES = (10.0, 100.0, 1e3, 1e4, 1e5)
"""Of ridge, on the squared length of the weights of standardised features."""


@dataclass(frozen=True)
class Nested:
    """What K outer folds, L penalties and m targets gave; only the first target's predictions are kept."""

    inner: Floats
    """[K, m] summed squared error within the training part of each outer fold, at its chosen penalty."""
    outer: Floats
    """[K, m] summed squared error on each outer fold."""
    chosen: NDArray[np.intp]
    """[K, m] number of the penalty."""
    score: Floats
    """[n] prediction of each row by the fit without its fold."""
    inner_score: Floats
    """[K, n] prediction of each row outside of outer fold k by the fit without it and k; NaN within k."""
    readouts: tuple[LinearReadout, ...]
    """[K] the fits without each outer fold."""


def nested_ridge(
    x: Floats, y: Floats, folds: NDArray[np.intp], penalties: Sequence[float] = PENALTIES, *, keep: bool = True
) -> Nested:
    """Nested cross-validation of ridge, all targets as columns of the same solves.

    Args:
        x: [n, d] features.
        y: [n, m] targets, any numbers.
        folds: [n], 0 to K - 1, K at least 3.
        penalties: [L] to choose from.
        keep: whether predictions and read-outs of the first target are wanted.

    Raises UserError for a feature that is no number.
    """
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0]
        raise UserError(f"features: row {row}, feature {column} is {x[row, column]}; leave the row out")
    n_folds, m = int(folds.max()) + 1, y.shape[1]
    system = make_system(x, y, folds)
    inner = np.zeros((n_folds, len(penalties), m))
    guesses = np.full((n_folds, len(penalties), len(x)), np.nan)
    rows = [np.flatnonzero(folds == k) for k in range(n_folds)]
    for j, k in combinations(range(n_folds), 2):
        training = system.without((j, k))
        for which, penalty in enumerate(penalties):
            fit = training.solve(penalty)
            inner[k, which] += fit.errors(j)
            inner[j, which] += fit.errors(k)
            if keep:
                guesses[k, which, rows[j]], guesses[j, which, rows[k]] = fit.score(j), fit.score(k)
    chosen = inner.argmin(axis=1)
    outer, score, readouts = np.empty((n_folds, m)), np.full(len(x), np.nan), []
    for k in range(n_folds):
        training = system.without((k,))
        for which in np.unique(chosen[k]):
            columns = np.flatnonzero(chosen[k] == which)
            fit = training.solve(penalties[which], columns)
            outer[k, columns] = fit.errors(k)
            if keep and columns[0] == 0:
                score[rows[k]] = fit.score(k)
                readouts.append(fit.readout())
    best = np.take_along_axis(inner, chosen[:, None], axis=1)[:, 0]
    return Nested(best, outer, chosen, score, guesses[np.arange(n_folds), chosen[:, 0]], tuple(readouts))


def spread_of_targets(y: Floats, folds: NDArray[np.intp]) -> Floats:
    """[K, m] summed squared distance of each fold's targets from the mean of the others (PROBES 2, P3)."""
    spread = np.empty((int(folds.max()) + 1, y.shape[1]))
    for k in range(len(spread)):
        mine = folds == k
        spread[k] = ((y[mine] - y[~mine].mean(axis=0)) ** 2).sum(axis=0)
    return spread
