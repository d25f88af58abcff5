"""A linear read-out of activations, as any estimator here leaves it: frozen, and plain arrays."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from ...metrics.validation import Floats, floats


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
        """[d] covariance of the features [n, d] with the score: what carries the variable, which the weights of a
        regression are not (Haufe et al. 2014).
        """
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


def params_of(estimator: Any) -> dict[str, Any]:
    """The settings of an estimator that is a dataclass."""
    return asdict(estimator)
