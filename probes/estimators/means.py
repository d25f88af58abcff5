"""Mean-difference directions: nothing is fitted but means, and with the correction a covariance (PROBES 2)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...metrics.validation import Floats, floats
from .readout import LinearReadout, params_of, standardised


@dataclass(frozen=True)
class MeanDifference:
    """Fits the direction from the mean of what is false to the mean of what is true.

    Graded targets weigh a row by y and by 1 - y.
    """

    corrected: bool = False
    """Whether the direction is multiplied by the inverse of the covariance within classes (linear discriminant)."""
    shrinkage: float = 0.1
    """Share of the identity in that covariance, of standardised features."""

    def get_params(self) -> dict[str, Any]:
        """Its settings by name."""
        return params_of(self)

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
