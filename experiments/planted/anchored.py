"""A Bayesian whose posterior is pulled: towards an anchor, upwards, or away from the middle."""

from dataclasses import dataclass, field, replace

import numpy as np

from .readings import Seed, Trajectories
from .urn import Bayesian


@dataclass(frozen=True)
class Anchored:
    """Plants M = -pull and a mean update of pull (anchor - E prior) + shift.

    Its posterior is (1 - pull) times the Bayesian one plus pull times the anchor. `shift` moves every
    posterior by a constant, which leaves M at 0. `bend` adds a U shape, bend (8 (prior - 1/2)^2 - 1), to
    which M is blind as well if priors are symmetric about one half.
    """

    pull: float = 0.1
    anchor: float = 0.5
    shift: float = 0.0
    bend: float = 0.0
    of: Bayesian = field(default_factory=Bayesian)

    @property
    def slope(self) -> float:
        """M, for one step and symmetric priors."""
        return -self.pull

    def variance(self, step: int) -> float:
        """Var(belief) before the update."""
        if step:
            raise ValueError("step: only the variance of the prior, at step 0, is known")
        return self.of.variance(0)

    def sample(self, n: int, seed: Seed) -> Trajectories:
        """Draw n questions; the update is a single one."""
        fair = replace(self.of, steps=1).sample(n, seed)
        prior, bayes = fair.belief.T
        post = (1 - self.pull) * bayes + self.pull * self.anchor + self.shift + self.bend * (8 * (prior - 0.5) ** 2 - 1)
        belief = np.column_stack([prior, post])
        return replace(fair, read=belief, belief=belief)
