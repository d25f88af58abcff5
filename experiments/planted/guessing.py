"""An agent whose every answer is a fresh guess."""

from dataclasses import dataclass

import numpy as np

from .trajectories import Seed, Trajectories


@dataclass(frozen=True)
class Guessing:
    """Plants M = -1 with an intercept of 1/2, and a calibration slope of 0."""

    steps: int = 1

    @property
    def slope(self) -> float:
        """M."""
        return -1.0

    def sample(self, n: int, seed: Seed) -> Trajectories:
        """Draw n questions, answered uniformly at random."""
        rng = np.random.default_rng(seed)
        belief = rng.random((n, self.steps + 1))
        return Trajectories(read=belief, belief=belief, outcome=rng.binomial(1, 0.5, n).astype(np.float64))
