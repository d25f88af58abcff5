"""Contrast-consistent search: a direction from pairs of a statement and its negation, without labels (Burns et al.
2023, arXiv 2212.03827). Its known failures are measured beside it: any feature that splits the pairs can win (Farquhar
et al. 2023), and the principal component of the differences finds most of what it finds.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import expit

from ...hooks.errors import UserError
from ...metrics.validation import Floats, floats
from .readout import LinearReadout, params_of


class Found(NamedTuple):
    """What a search has found; its sign is not known without labels."""

    affirmed: LinearReadout
    """For statements; features were normalised by those of statements."""
    negated: LinearReadout
    """For negations, normalised by those of negations."""
    loss: float
    """Of the best start: consistency + confidence, 0 is perfect, a half is a constant one half."""
    principal_loss: float
    """The least that the principal component of the differences reaches: what the search adds is below it."""

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

    def get_params(self) -> dict[str, Any]:
        """Its settings by name."""
        return params_of(self)

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
        found = [self._descend(a, b, rng.normal(size=d + 1) / np.sqrt(d)) for _ in range(self.starts)]
        best = min(found, key=lambda one: one.fun)
        component = np.linalg.svd(a - b, full_matrices=False)[2][0]
        sizes = np.geomspace(0.01, 100, 30)
        principal = min(_objective(np.append(size * component, 0.0), a, b, 0.0)[0] for size in sizes)
        w, bias = best.x[:-1], float(best.x[-1])
        return Found(
            LinearReadout(mean_a, np.full(d, size_a), w, bias),
            LinearReadout(mean_b, np.full(d, size_b), w, bias),
            _objective(best.x, a, b, 0.0)[0],
            principal,
        )

    def _descend(self, a: Floats, b: Floats, start: Floats) -> Any:
        return minimize(_objective, start, args=(a, b, self.penalty), jac=True, method="L-BFGS-B")


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
