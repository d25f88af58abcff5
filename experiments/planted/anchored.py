"""A Bayesian whose posterior is pulled: towards an anchor, upwards, or away from the middle."""

from dataclasses import dataclass, field, replace

import numpy as np

from .trajectories import Seed, Trajectories
from .urn import Bayesian


@dataclass(frozen=True)
class Anchored:
    """Plants M = -pull and, in the first step, a mean update of pull (anchor - E prior) + shift.

    In each step it adds the Bayesian update to its belief, and ends (1 - pull) times there plus pull times at the
    anchor. `shift` moves every posterior by a constant, which leaves M at 0. `bend` adds a U shape,
    bend (8 (prior - 1/2)^2 - 1), to which M is blind as well if priors are symmetric about one half.
    """

    pull: float = 0.1
    anchor: float = 0.5
    shift: float = 0.0
    bend: float = 0.0
    of: Bayesian = field(default_factory=Bayesian)

    @property
    def slope(self) -> float:
        """M, for symmetric priors."""
        return -self.pull

    def variance(self, step: int) -> float:
        """Var(belief) before the update."""
        if step:
            raise ValueError("step: only the variance of the prior, at step 0, is known")
        return self.of.variance(0)

    def sample(self, n: int, seed: Seed) -> Trajectories:
        """Draw n questions."""
        fair = self.of.sample(n, seed)
        path = [fair.belief[:, 0]]
        for update in np.diff(fair.belief).T:
            bent = self.bend * (8 * (path[-1] - 0.5) ** 2 - 1)
            path.append((1 - self.pull) * (path[-1] + update) + self.pull * self.anchor + self.shift + bent)
        belief = np.column_stack(path)
        return replace(fair, read=belief, belief=belief)
