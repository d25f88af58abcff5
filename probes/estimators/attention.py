"""Logistic regression on attention-pooled positions: what to look at is learnt together with what to read there."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import expit, softmax

from ...hooks.errors import UserError
from ...metrics.validation import Floats, floats
from .readout import params_of, standardised

MAX_STEPS = 200


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

    def get_params(self) -> dict[str, Any]:
        """Its settings by name."""
        return params_of(self)

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
        found = minimize(
            pooled_loss, start, args=(z, y, self.penalty), jac=True, method="L-BFGS-B", options={"maxiter": MAX_STEPS}
        )
        return AttentionReadout(mean, scale, found.x[:d], found.x[d : 2 * d], float(found.x[-1]))


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
