"""Estimators of linear read-outs: ridge, logistic regression on soft labels, mean differences, attention pooling and
contrast-consistent search (PROBES 2). They are called as in scikit-learn, but what is fitted is a frozen object
of its own.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.special import expit, softmax

from ..base.errors import UserError
from ..metrics.contract import Floats, floats
from ..metrics.divergence import clipped_logit
from .dataset import EPS

# A linear read-out of activations, as any estimator here leaves it: frozen, and plain arrays.


@dataclass(frozen=True)
class LinearReadout:
    """log-odds = intercept + slope * ((x - mean) / scale @ weights + bias)."""

    mean: Floats
    """[d] of the rows that it was fitted on."""
    scale: Floats
    """[d] their standard deviations (1 where a feature was constant)."""
    weights: Floats
    """[d] of the standardised features."""
    bias: float
    slope: float = 1.0
    """Of the recalibration, which was fitted on rows that the weights were not."""
    intercept: float = 0.0

    def score(self, x: ArrayLike) -> Floats:
        """[n] of features [n, d], before the recalibration."""
        x = floats(x)
        if x.ndim != 2 or x.shape[1] != len(self.weights):
            raise ValueError(f"features: shape {x.shape}; the read-out takes [n, {len(self.weights)}]")
        return (x - self.mean) / self.scale @ self.weights + self.bias

    def logit(self, x: ArrayLike) -> Floats:
        """[n] natural log-odds of features [n, d]."""
        return self.intercept + self.slope * self.score(x)

    def predict(self, x: ArrayLike) -> Floats:
        """[n] beliefs in [0, 1] of features [n, d]."""
        return expit(self.logit(x))

    @property
    def direction(self) -> Floats:
        """[d] of raw features, the recalibration included: logit = x @ direction + offset."""
        return self.slope * self.weights / self.scale

    @property
    def offset(self) -> float:
        """See `direction`."""
        return self.intercept + self.slope * (self.bias - float(self.mean @ (self.weights / self.scale)))

    def calibrated(self, slope: float, intercept: float) -> Self:
        """The same with a recalibration of its score."""
        return replace(self, slope=slope, intercept=intercept)

    def pattern(self, x: ArrayLike) -> Floats:
        """[d] covariance of features [n, d] with the score: what carries the variable (Haufe et al. 2014)."""
        x = floats(x)
        score = self.score(x)
        return (x - x.mean(axis=0)).T @ (score - score.mean()) / len(x)

    @classmethod
    def from_direction(cls, direction: ArrayLike, bias: float = 0.0) -> Self:
        """A direction [d] of raw features, and a bias, from any other tool."""
        direction = floats(direction)
        if direction.ndim != 1 or not np.isfinite(direction).all() or not np.isfinite(bias):
            raise ValueError(f"direction: shape {direction.shape}; give [d] finite numbers, and a finite bias")
        return cls(np.zeros(len(direction)), np.ones(len(direction)), direction, float(bias))


def standardised(x: Floats) -> tuple[Floats, Floats, Floats]:
    """Features [n, d] with mean 0 and variance 1, their means and scales [d]; a constant one has scale 1."""
    mean = x.mean(axis=0)
    scale = x.std(axis=0)
    scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(mean)), scale, 1.0)
    return (x - mean) / scale, mean, scale


# Ridge regression of log-odds (PROBES 2).


def ridge(x: ArrayLike, y: ArrayLike, penalty: float) -> tuple[Floats, float]:
    """Weights [d] and intercept that minimise summed squared error + penalty |w|^2; the intercept is free."""
    from sklearn.linear_model import Ridge  # slow to import

    fit = Ridge(alpha=penalty).fit(floats(x), floats(y))
    return fit.coef_, float(fit.intercept_)


@dataclass(frozen=True)
class RidgeOnLogOdds:
    """Fits a read-out by ridge regression of clipped log-odds on standardised features."""

    penalty: float = 100.0
    eps: float = EPS

    def fit(self, x: ArrayLike, y: ArrayLike) -> LinearReadout:
        """The read-out of features [n, d] and probabilities [n]."""
        z, mean, scale = standardised(floats(x))
        w, b = ridge(z, clipped_logit(y, "target", self.eps)[0], self.penalty)
        return LinearReadout(mean, scale, w, b)


# Logistic regression on soft labels: cross-entropy with targets in [0, 1] (PROBES 2).
#
# The same as weighted logistic regression on rows doubled with labels 1 and 0, without the doubling.

NEWTON_STEPS = 100
TOLERANCE = 1e-10
"""Of the Newton decrement, per row."""


def soft_logistic(x: ArrayLike, y: ArrayLike, penalty: float) -> tuple[Floats, float]:
    """Weights [d] and intercept that minimise the summed cross-entropy + penalty / 2 |w|^2; the intercept is free.

    Args:
        x: [n, d]; d may be 0.
        y: [n] targets in [0, 1].
        penalty: at least 0; the inverse of scikit-learn's C.

    With more columns than rows the rows' own span is solved in, which holds the solution. Separable targets without a
    penalty have no minimum: the steps end after a hundred.
    """
    x, y = floats(x), floats(y)
    basis = None
    if x.shape[1] > len(x):
        q, r = np.linalg.qr(x.T)  # x = r.T @ q.T, and |w| is that of its coordinates in q
        x, basis = r.T, q
    design = np.column_stack([x, np.ones(len(x))])
    ridge = np.append(np.full(x.shape[1], penalty), 0.0)
    beta = np.zeros(design.shape[1])
    mean = np.clip(y.mean(), 1e-12, 1 - 1e-12)
    beta[-1] = np.log(mean / (1 - mean))
    loss = _loss(design @ beta, y, beta, ridge)
    for _ in range(NEWTON_STEPS):
        p = expit(design @ beta)
        gradient = design.T @ (p - y) + ridge * beta
        hessian = (design.T * np.maximum(p * (1 - p), 1e-12)) @ design
        hessian.flat[:: len(hessian) + 1] += ridge + 1e-12
        step = np.linalg.solve(hessian, gradient)
        decrement = float(gradient @ step)
        if decrement <= TOLERANCE * len(y):
            break
        size = 1.0
        while (trial := _loss(design @ (beta - size * step), y, beta - size * step, ridge)) > loss and size > 1e-8:
            size /= 2
        beta, loss = beta - size * step, min(trial, loss)
    w = beta[:-1] if basis is None else basis @ beta[:-1]
    return w, float(beta[-1])


def _loss(score: Floats, y: Floats, beta: Floats, ridge: Floats) -> float:
    return float((np.logaddexp(0, score) - y * score).sum() + 0.5 * (ridge * beta**2).sum())


@dataclass(frozen=True)
class SoftLogistic:
    """Fits a read-out by soft-label logistic regression on standardised features."""

    penalty: float = 100.0

    def fit(self, x: ArrayLike, y: ArrayLike) -> LinearReadout:
        """The read-out of features [n, d] and probabilities [n]."""
        z, mean, scale = standardised(floats(x))
        w, b = soft_logistic(z, y, self.penalty)
        return LinearReadout(mean, scale, w, b)


# Multinomial logistic regression, for distributions over more than two options.


class LinearReadouts(tuple[LinearReadout, ...]):
    """One for each option: the softmax of their log-odds is a distribution."""

    __slots__ = ()

    def score(self, x: ArrayLike) -> Floats:
        """[n, k] of features [n, d]."""
        return np.column_stack([readout.score(x) for readout in self])


@dataclass(frozen=True)
class Multinomial:
    """Fits all options at once by scikit-learn's multinomial logistic regression on standardised features."""

    penalty: float = 100.0

    def fit(self, x: ArrayLike, y: ArrayLike) -> LinearReadouts:
        """The read-outs of features [n, d] and distributions [n, k] over k > 2 options, whose shares are the weights of
        rows repeated for each. With more columns than rows the rows' own span is solved in, which holds the solution.
        """
        from sklearn.linear_model import LogisticRegression  # slow to import

        y = floats(y)
        z, mean, scale = standardised(floats(x))
        basis, z = np.linalg.qr(z.T) if z.shape[1] > len(z) else (None, z)
        z = z if basis is None else z.T
        n, k = y.shape
        fit: Any = LogisticRegression(C=1 / self.penalty, max_iter=1000)
        fit.fit(np.repeat(z, k, axis=0), np.tile(np.arange(k), n), sample_weight=y.ravel())
        weights = fit.coef_ if basis is None else fit.coef_ @ basis.T
        both = zip(weights, fit.intercept_, strict=True)
        return LinearReadouts(LinearReadout(mean, scale, w, float(b)) for w, b in both)


# Mean-difference directions: nothing is fitted but means, and with the correction a covariance (PROBES 2).


@dataclass(frozen=True)
class MeanDifference:
    """Fits the direction from the mean of what is false to the mean of what is true.

    Graded targets weigh a row by y and by 1 - y.
    """

    corrected: bool = False
    """Whether the direction is multiplied by the inverse of the covariance within classes (linear discriminant)."""
    shrinkage: float = 0.1
    """Share of the identity in that covariance, of standardised features."""

    def fit(self, x: ArrayLike, y: ArrayLike) -> LinearReadout:
        """The read-out of features [n, d] and probabilities [n]; its score is 0 half-way between the means.
        NaN throughout where only one of the classes is there.
        """
        z, mean, scale = standardised(floats(x))
        y = floats(y)
        if not 0 < y.mean() < 1:
            return LinearReadout(mean, scale, np.full(z.shape[1], np.nan), float("nan"))
        true, false = y @ z / y.sum(), (1 - y) @ z / (1 - y).sum()
        w = true - false
        if self.corrected:
            w = self._whitened(z, y, true, false, w)
        return LinearReadout(mean, scale, w, -float(w @ (true + false)) / 2)

    def _whitened(self, z: Floats, y: Floats, true: Floats, false: Floats, w: Floats) -> Floats:
        """The covariance within classes, shrunk, solved in the rows' span where there are fewer of them."""
        weighted = [np.sqrt(y)[:, None] * (z - true), np.sqrt(1 - y)[:, None] * (z - false)]
        a = np.vstack(weighted) * np.sqrt((1 - self.shrinkage) / len(z))
        s = self.shrinkage
        if a.shape[1] <= len(a):
            return np.linalg.solve(a.T @ a + s * np.eye(a.shape[1]), w)
        inner = np.linalg.solve(a @ a.T + s * np.eye(len(a)), a @ w)  # Woodbury
        return (w - a.T @ inner) / s


# Logistic regression on attention-pooled positions: what to look at is learnt together with what to read there.

LBFGS_STEPS = 200


@dataclass(frozen=True)
class AttentionReadout:
    """log-odds = bias + sum over positions of attention * (standardised x @ weights)."""

    mean: Floats
    """[d] over all rows and positions that it was fitted on."""
    scale: Floats
    """[d]."""
    query: Floats
    """[d]: attention is the softmax of standardised x @ query over positions."""
    weights: Floats
    """[d]."""
    bias: float

    def attention(self, x: ArrayLike) -> Floats:
        """[n, positions] non-negative, 1 in sum."""
        return softmax(self._standardised(x) @ self.query, axis=1)

    def score(self, x: ArrayLike) -> Floats:
        """[n] log-odds of features [n, positions, d]."""
        return (self.attention(x) * (self._standardised(x) @ self.weights)).sum(axis=1) + self.bias

    def predict(self, x: ArrayLike) -> Floats:
        """[n] beliefs in [0, 1] of features [n, positions, d]."""
        return expit(self.score(x))

    def _standardised(self, x: ArrayLike) -> Floats:
        return (floats(x) - self.mean) / self.scale


@dataclass(frozen=True)
class AttentionPooling:
    """Fits query and weights by soft-label cross-entropy; a query of 0, where it begins, is the mean over positions."""

    penalty: float = 100.0
    """On half the squared length of query and weights, of standardised features."""

    def fit(self, x: ArrayLike, y: ArrayLike) -> AttentionReadout:
        """The read-out of features [n, positions, d] and probabilities [n]. The loss has many minima: this is the one
        that is reached from the mean over positions.

        Raises UserError for features of another shape.
        """
        x, y = floats(x), floats(y)
        if x.ndim != 3:
            raise UserError(f"attention pooling: features of shape {x.shape}; give [rows, positions, features]")
        n, positions, d = x.shape
        flat, mean, scale = standardised(x.reshape(-1, d))
        z = flat.reshape(n, positions, d)
        p = np.clip(y.mean(), 1e-6, 1 - 1e-6)
        start = np.concatenate([np.zeros(2 * d), [np.log(p / (1 - p))]])
        solution = scipy.optimize.minimize(
            pooled_loss, start, args=(z, y, self.penalty), jac=True, method="L-BFGS-B", options={"maxiter": LBFGS_STEPS}
        )
        return AttentionReadout(mean, scale, solution.x[:d], solution.x[d : 2 * d], float(solution.x[-1]))


def pooled_loss(beta: Floats, z: Floats, y: Floats, penalty: float) -> tuple[float, Floats]:
    """Summed cross-entropy with the penalty, and its gradient, at query, weights and bias in one vector [2 d + 1]."""
    d = z.shape[2]
    query, weights, bias = beta[:d], beta[d : 2 * d], beta[-1]
    attention, read = softmax(z @ query, axis=1), z @ weights  # [n, positions]
    score = (attention * read).sum(axis=1) + bias
    loss = float((np.logaddexp(0, score) - y * score).sum() + 0.5 * penalty * (query @ query + weights @ weights))
    off = expit(score) - y
    by_read = off[:, None] * attention
    by_query = by_read * (read - (attention * read).sum(axis=1, keepdims=True))
    gradient = [np.einsum("np,npd->d", by_query, z), np.einsum("np,npd->d", by_read, z)]
    return loss, np.concatenate([gradient[0] + penalty * query, gradient[1] + penalty * weights, [off.sum()]])


# Contrast-consistent search: a direction from pairs of a statement and its negation, without labels (Burns et al. 2023,
# arXiv 2212.03827). Any feature that splits the pairs can win (Farquhar et al. 2023).


class Found(NamedTuple):
    """What a search has found; its sign is not known without labels."""

    affirmed: LinearReadout
    """For statements; features were normalised by those of statements."""
    negated: LinearReadout
    """For negations, normalised by those of negations."""

    def belief(self, affirmed: ArrayLike, negated: ArrayLike) -> Floats:
        """[n] belief in each statement: the mean of what is read of it and of its negation."""
        return 0.5 * (self.affirmed.predict(affirmed) + 1 - self.negated.predict(negated))


@dataclass(frozen=True)
class ContrastConsistentSearch:
    """Fits a direction along which a statement and its negation are read as complements, far from one half."""

    starts: int = 10
    seed: int = 0
    penalty: float = 0.01
    """On the squared length of the weights."""

    def fit(self, affirmed: ArrayLike, negated: ArrayLike) -> Found:
        """The best of several starts on features [pairs, d] of statements and of their negations, in one order.

        Raises UserError if they are not pairs.
        """
        first, second = floats(affirmed), floats(negated)
        if first.shape != second.shape or first.ndim != 2:
            raise UserError(f"CCS: {first.shape} statements and {second.shape} negations; give pairs of them")
        (a, mean_a, size_a), (b, mean_b, size_b) = _normalised(first), _normalised(second)
        rng = np.random.default_rng(self.seed)
        d = a.shape[1]
        minima = [self._descend(a, b, rng.normal(size=d + 1) / np.sqrt(d)) for _ in range(self.starts)]
        best = min(minima, key=lambda minimum: minimum.fun)
        w, bias = best.x[:-1], float(best.x[-1])
        sides = ((mean_a, size_a), (mean_b, size_b))
        return Found(*(LinearReadout(mean, np.full(d, size), w, bias) for mean, size in sides))

    def _descend(self, a: Floats, b: Floats, start: Floats) -> Any:
        return scipy.optimize.minimize(_objective, start, args=(a, b, self.penalty), jac=True, method="L-BFGS-B")


def _normalised(x: Floats) -> tuple[Floats, Floats, float]:
    """Each side without its mean, at length sqrt(d) on average: what names the side is gone."""
    mean = x.mean(axis=0)
    centred = x - mean
    size = float(np.linalg.norm(centred, axis=1).mean() / np.sqrt(x.shape[1])) or 1.0
    return centred / size, mean, size


def _objective(beta: Floats, a: Floats, b: Floats, penalty: float) -> tuple[float, Floats]:
    """Mean of (p+ + p- - 1)^2 + min(p+, p-)^2, and its gradient; the penalty spares the bias."""
    w, bias = beta[:-1], beta[-1]
    p, q = expit(a @ w + bias), expit(b @ w + bias)
    gap, low = p + q - 1, np.minimum(p, q)
    loss = float((gap**2 + low**2).mean() + penalty * (w @ w))
    dp = (2 * gap + 2 * low * (p <= q)) * p * (1 - p) / len(p)
    dq = (2 * gap + 2 * low * (q < p)) * q * (1 - q) / len(p)
    return loss, np.append(dp @ a + dq @ b + 2 * penalty * w, dp.sum() + dq.sum())
