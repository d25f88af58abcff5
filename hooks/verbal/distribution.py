"""The exact distribution over the numbers that a format admits."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, logsumexp

from ..exact.exact import normalised
from .formats import WrittenNumber

TIE = 1e-12
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NumberDistribution:
    """How probable each number is as the next that the model says. Statistics are of the numbers that the format admits
    alone, and NaN if these have no mass.

    >>> low, high = WrittenNumber("30", 0.3, ("30",)), WrittenNumber("70", 0.7, ("70",))
    >>> half = NumberDistribution((low, high), np.log([0.4, 0.4]))
    >>> round(half.mean, 3), round(half.coverage, 3), round(half.entropy, 3)
    (0.5, 0.8, 1.0)
    """

    numbers: tuple[WrittenNumber, ...]
    logp: Floats
    """[numbers] natural log of the probability that the answer says the number."""
    unread: float = 0.0
    """The most that the numbers on earlier lines that were not followed can add to the sum of exp(logp)."""

    @property
    def coverage(self) -> float:
        """Total probability of the admitted numbers, in [0, 1]; the rest is outside the format."""
        return float(np.exp(logsumexp(self.logp)))

    @property
    def outside(self) -> float:
        """Probability of an answer that does not follow the format, too large by `unread` at most."""
        return 1 - self.coverage

    @property
    def prob(self) -> Floats:
        """[numbers], normalised over the admitted numbers."""
        return normalised(self.logp)

    @property
    def error(self) -> float:
        """Bound on the total-variation distance of `prob` from what it would be with nothing unread: with mass u left
        out of a mass c + u, u / (c + u). The mean is off by no more.
        """
        return self.unread / (self.coverage + self.unread) if self.unread else 0.0

    @property
    def values(self) -> Floats:
        """[numbers] the probability that each means."""
        return np.array([number.value for number in self.numbers])

    @property
    def mean(self) -> float:
        """The belief: the expected probability, which is what sampled answers average to."""
        return float(self.values @ self.prob)

    @property
    def sd(self) -> float:
        """Standard deviation: the noise of one sampled answer."""
        return float(np.sqrt((self.values - self.mean) ** 2 @ self.prob))

    @property
    def mode(self) -> float:
        """The likeliest value; the smallest of several."""
        prob = self.prob
        return self._at(prob >= prob.max() - TIE)

    @property
    def median(self) -> float:
        """The smallest value with at least half of the mass at or below it."""
        order = np.argsort(self.values, kind="stable")
        below = np.empty(len(order))
        below[order] = self.prob[order].cumsum()
        return self._at(below >= 0.5 - TIE)

    @property
    def entropy(self) -> float:
        """Bits."""
        return float(entr(self.prob).sum() / np.log(2))

    def _at(self, chosen: NDArray[np.bool_]) -> float:
        return float(self.values[chosen].min()) if chosen.any() else np.nan

    def status(self, low_coverage: float) -> str:
        """`nan` without any mass, `low_coverage` below that threshold, else `ok`."""
        return "nan" if np.isnan(self.mean) else "low_coverage" if self.coverage < low_coverage else "ok"
