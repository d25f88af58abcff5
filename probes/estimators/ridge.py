"""Ridge regression of log-odds (PROBES 2)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from ...metrics.logodds import clipped_logit
from ...metrics.validation import Floats, floats
from ..targets import EPS
from .readout import LinearReadout, params_of, standardised


def ridge(x: ArrayLike, y: ArrayLike, penalty: float) -> tuple[Floats, float]:
    """Weights [d] and intercept that minimise the summed squared error + penalty |w|^2; the intercept is free.

    Args:
        x: [n, d]; with more columns than rows the dual is solved.
        y: [n] any numbers.
        penalty: above 0.
    """
    x, y = floats(x), floats(y)
    mean, level = x.mean(axis=0), float(y.mean())
    centred, rest = x - mean, y - level
    if x.shape[1] <= len(x):
        w = cho_solve(cho_factor(centred.T @ centred + penalty * np.eye(x.shape[1])), centred.T @ rest)
    else:
        w = centred.T @ cho_solve(cho_factor(centred @ centred.T + penalty * np.eye(len(x))), rest)
    return w, level - float(mean @ w)


@dataclass(frozen=True)
class RidgeOnLogOdds:
    """Fits a read-out by ridge regression of clipped log-odds on standardised features."""

    penalty: float = 100.0
    eps: float = EPS

    def get_params(self) -> dict[str, Any]:
        """Its settings by name."""
        return params_of(self)

    def fit(self, x: ArrayLike, y: ArrayLike) -> LinearReadout:
        """The read-out of features [n, d] and probabilities [n]."""
        z, mean, scale = standardised(floats(x))
        w, b = ridge(z, clipped_logit(y, "target", self.eps)[0], self.penalty)
        return LinearReadout(mean, scale, w, b)
