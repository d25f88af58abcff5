"""An agent whose belief is not the mean of its beliefs given each case."""

from dataclasses import dataclass

import numpy as np

from ..tables.samples import Cases
from .trajectories import Seed


@dataclass(frozen=True)
class Incoherent:
    """Plants a mean signed violation of iterated expectation of `gap`; 0 is coherent.

    Conditional beliefs lie within [0.2, 0.8]; `noise` is the half-width of a uniform error of the belief, so
    |gap| + noise must not exceed 0.2.
    """

    gap: float = 0.0
    noise: float = 0.1
    cases: int = 3

    def sample(self, n: int, seed: Seed) -> Cases:
        """Draw n beliefs with their conditionals."""
        rng = np.random.default_rng(seed)
        cond = rng.uniform(0.2, 0.8, (n, self.cases))
        weights = rng.dirichlet(np.ones(self.cases), n)
        p = (weights * cond).sum(axis=1) + self.gap + rng.uniform(-self.noise, self.noise, n)
        return Cases(p=p, conditional=cond, weights=weights)
