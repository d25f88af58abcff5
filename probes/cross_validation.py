"""Nested grouped cross-validation of ridge, for many targets at once, by shared factorisations (PROBES 3, 4).

Each outer fold is predicted by a fit on all others, whose penalty was chosen on those others alone: each of them is
predicted in turn by a fit without it and without the outer fold. Moments of each fold are summed once. What a fit
without folds j and k needs is their total minus those of j and k, so that the inner fits cost no pass over the rows,
and the fit without {j, k} serves two outer folds. With more features than rows the same is done with kernels. The
coefficients are those of scikit-learn's `Ridge` behind a `StandardScaler`, fitted on the same rows.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from ..base.errors import UserError
from ..metrics.contract import Floats
from .estimators import LinearReadout, standardised

CONSTANT = 1e-12
"""Share of a feature's variance over all rows below which it is constant in a fold."""


def make_system(x: Floats, y: Floats, folds: NDArray[np.intp]) -> "Primal | Dual":
    """The cheaper of the two for features [n, d] and targets [n, m] in folds 0 to K - 1."""
    z, centre, unit = standardised(x)
    whole = Whole(z, y, folds, centre, unit)
    return Primal(whole) if x.shape[1] <= len(x) else Dual(whole)


class Whole(NamedTuple):
    """All rows. They are standardised over all folds first, which the standardisation within a fit undoes: it only
    keeps the moments well conditioned.
    """

    x: Floats
    y: Floats
    folds: NDArray[np.intp]
    centre: Floats
    unit: Floats

    def raw(self, mean: Floats, scale: Floats, weights: Floats, bias: float) -> LinearReadout:
        """A read-out of the features as they were given."""
        return LinearReadout(self.centre + self.unit * mean, self.unit * scale, weights, bias)


class Moments(NamedTuple):
    """Sums over the rows of a fold."""

    n: float
    x: Floats
    """[d]."""
    xx: Floats
    """[d, d]."""
    y: Floats
    """[m]."""
    xy: Floats
    """[d, m]."""
    yy: Floats
    """[m]."""

    def minus(self, other: "Moments") -> "Moments":
        """The moments of the rest."""
        n, x, xx, y, xy, yy = other
        return Moments(self.n - n, self.x - x, self.xx - xx, self.y - y, self.xy - xy, self.yy - yy)

    def plus(self, other: "Moments") -> "Moments":
        """The moments of both."""
        n, x, xx, y, xy, yy = other
        return Moments(self.n + n, self.x + x, self.xx + xx, self.y + y, self.xy + xy, self.yy + yy)


class Primal:
    """Normal equations from the moments of folds: d x d systems."""

    def __init__(self, whole: Whole) -> None:
        self.whole = whole
        n_folds = int(whole.folds.max()) + 1
        self.parts = [_moments(whole.x[whole.folds == k], whole.y[whole.folds == k]) for k in range(n_folds)]
        self.total = reduce(Moments.plus, self.parts)

    def without(self, folds: Collection[int]) -> "PrimalTraining":
        """The rows of all other folds."""
        rest = self.total
        for fold in folds:
            rest = rest.minus(self.parts[fold])
        return PrimalTraining(self, rest)


class PrimalTraining:
    """One set of rows."""

    def __init__(self, system: Primal, rest: Moments) -> None:
        self.system = system
        self.mean, self.level = rest.x / rest.n, rest.y / rest.n
        variance = rest.xx.diagonal() / rest.n - self.mean**2
        self.scale = np.sqrt(np.where(variance > CONSTANT, variance, 1.0))
        self.gram = (rest.xx - rest.n * np.outer(self.mean, self.mean)) / np.outer(self.scale, self.scale)
        self.cross = (rest.xy - np.outer(self.mean, rest.y)) / self.scale[:, None]

    def solve(self, penalty: float, columns: NDArray[np.intp] | None = None) -> "PrimalFit":
        """Fit the chosen columns of the targets, or all."""
        a = self.gram.copy()
        a.flat[:: len(a) + 1] += penalty
        chosen = slice(None) if columns is None else columns
        z = cho_solve(cho_factor(a, overwrite_a=True, check_finite=False), self.cross[:, chosen], check_finite=False)
        return PrimalFit(self, z, self.level[chosen], chosen)


class PrimalFit:
    """Weights of some targets, from one set of rows and one penalty."""

    def __init__(self, training: PrimalTraining, z: Floats, level: Floats, columns: NDArray[np.intp] | slice) -> None:
        self.training, self.z, self.columns = training, z, columns
        self.w = z / training.scale[:, None]
        self.intercept = level - training.mean @ self.w

    def errors(self, fold: int) -> Floats:
        """[m] summed squared errors on a fold, off the moments where that is cheaper than off the rows."""
        whole, part, a, w = self.training.system.whole, self.training.system.parts[fold], self.intercept, self.w
        y, xy, yy = part.y[self.columns], part.xy[:, self.columns], part.yy[self.columns]
        if part.n <= len(w):
            test = whole.folds == fold
            return ((whole.y[test][:, self.columns] - whole.x[test] @ w - a) ** 2).sum(axis=0)
        squares = np.einsum("dm,dm->m", part.xx @ w - 2 * xy, w)
        return yy - 2 * a * y + part.n * a**2 + 2 * a * (part.x @ w) + squares

    def score(self, fold: int) -> Floats:
        """[rows of the fold] prediction of the first target."""
        whole = self.training.system.whole
        return whole.x[whole.folds == fold] @ self.w[:, 0] + self.intercept[0]

    def readout(self) -> LinearReadout:
        """The read-out of the first target."""
        training = self.training
        bias = float(self.intercept[0] + training.mean @ self.w[:, 0])
        return training.system.whole.raw(training.mean, training.scale, self.z[:, 0], bias)


def _moments(x: Floats, y: Floats) -> Moments:
    return Moments(float(len(x)), x.sum(axis=0), x.T @ x, y.sum(axis=0), x.T @ y, (y**2).sum(axis=0))


class Dual:
    """Kernels of the rows: n x n systems, for more features than rows."""

    def __init__(self, whole: Whole) -> None:
        self.whole = whole

    def without(self, folds: Collection[int]) -> "DualTraining":
        """See `Primal`."""
        return DualTraining(self.whole, ~np.isin(self.whole.folds, list(folds)))


class DualTraining:
    """See `PrimalTraining`."""

    def __init__(self, whole: Whole, mine: NDArray[np.bool_]) -> None:
        self.whole, self.mine = whole, mine
        _, self.mean, self.scale = standardised(whole.x[mine])
        self.z = (whole.x - self.mean) / self.scale
        self.kernel = self.z @ self.z[mine].T
        self.level = whole.y[mine].mean(axis=0)

    def solve(self, penalty: float, columns: NDArray[np.intp] | None = None) -> "DualFit":
        """See `PrimalTraining`."""
        a = self.kernel[self.mine]
        a.flat[:: len(a) + 1] += penalty
        chosen = slice(None) if columns is None else columns
        rest = self.whole.y[self.mine][:, chosen] - self.level[chosen]
        alpha = cho_solve(cho_factor(a, overwrite_a=True, check_finite=False), rest, check_finite=False)
        return DualFit(self, alpha, self.level[chosen], chosen)


class DualFit:
    """See `PrimalFit`."""

    def __init__(self, training: DualTraining, alpha: Floats, level: Floats, columns: NDArray[np.intp] | slice) -> None:
        self.training, self.alpha, self.level, self.columns = training, alpha, level, columns

    def errors(self, fold: int) -> Floats:
        """See `PrimalFit`."""
        whole = self.training.whole
        test = whole.folds == fold
        return ((whole.y[test][:, self.columns] - self.training.kernel[test] @ self.alpha - self.level) ** 2).sum(
            axis=0
        )

    def score(self, fold: int) -> Floats:
        """See `PrimalFit`."""
        return self.training.kernel[self.training.whole.folds == fold] @ self.alpha[:, 0] + self.level[0]

    def readout(self) -> LinearReadout:
        """See `PrimalFit`."""
        training = self.training
        weights = training.z[training.mine].T @ self.alpha[:, 0]
        return training.whole.raw(training.mean, training.scale, weights, float(self.level[0]))


PENALTIES = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
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
        test = folds == k
        spread[k] = ((y[test] - y[~test].mean(axis=0)) ** 2).sum(axis=0)
    return spread
