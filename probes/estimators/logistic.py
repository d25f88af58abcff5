"""Logistic regression on soft labels: cross-entropy with targets in [0, 1] (PROBES 2).

The same as weighted logistic regression on rows doubled with labels 1 and 0, without the doubling.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from ...metrics.validation import Floats, floats
from .readout import LinearReadout, params_of, standardised

MAX_STEPS = 100
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
    for _ in range(MAX_STEPS):
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

    def get_params(self) -> dict[str, Any]:
        """Its settings by name."""
        return params_of(self)

    def fit(self, x: ArrayLike, y: ArrayLike) -> LinearReadout:
        """The read-out of features [n, d] and probabilities [n]."""
        z, mean, scale = standardised(floats(x))
        w, b = soft_logistic(z, y, self.penalty)
        return LinearReadout(mean, scale, w, b)
