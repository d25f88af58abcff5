"""A sound agent, read with noise."""

from dataclasses import dataclass, field, replace

import numpy as np

from .anchored import Anchored
from .trajectories import Floats, Seed, Trajectories
from .urn import Bayesian


@dataclass(frozen=True)
class PriorNoise:
    """Plants M = (1 + M of the agent) lam - 1: for a Bayesian, M = -(1 - lam) with no fault of its own.

    Every reading has its own noise, uniform within `half_width`; lam = Var(belief) / Var(reading) is the
    reliability. The split-reading IV slope of two readings of the prior is that of the agent itself.
    """

    half_width: float = 0.14
    of: Bayesian | Anchored = field(default_factory=Bayesian)

    @property
    def reliability(self) -> float:
        """Share of the variance of the first reading that is the belief's."""
        variance = self.of.variance(0)
        return variance / (variance + self.half_width**2 / 3)

    @property
    def slope(self) -> float:
        """M of the readings."""
        return (1 + self.of.slope) * self.reliability - 1

    def reading(self, belief: Floats, seed: Seed) -> Floats:
        """Read beliefs once more, with fresh noise."""
        return belief + np.random.default_rng(seed).uniform(-self.half_width, self.half_width, belief.shape)

    def sample(self, n: int, seed: Seed) -> Trajectories:
        """Draw n questions."""
        rng = np.random.default_rng(seed)
        silent = self.of.sample(n, rng)
        return replace(silent, read=self.reading(silent.belief, rng))
