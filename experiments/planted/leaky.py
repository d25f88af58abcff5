"""A judge who has seen the end before it reads the beginning."""

from dataclasses import dataclass, field, replace

from ...metrics import hindsight_slope
from .anchored import Anchored
from .trajectories import Seed, Trajectories
from .urn import Bayesian


@dataclass(frozen=True)
class LeakyJudge:
    """Plants M = w (1 - w) r / (1 + w^2 r) on a Bayesian, with r = Var(update) / Var(prior).

    A belief is read as b + w d, where d is the update that is yet to come. The last one has no future and is
    read as it is.
    """

    leak: float = 0.1
    of: Bayesian | Anchored = field(default_factory=Bayesian)

    @property
    def slope(self) -> float:
        """M of the readings of a Bayesian, for one step."""
        prior, post = self.of.variance(0), self.of.variance(1)
        return hindsight_slope(self.leak, (post - prior) / prior)  # updates of a martingale are uncorrelated

    def sample(self, n: int, seed: Seed) -> Trajectories:
        """Draw n questions."""
        honest = self.of.sample(n, seed)
        read = honest.belief.copy()
        read[:, :-1] += self.leak * (honest.belief[:, 1:] - honest.belief[:, :-1])
        return replace(honest, read=read)
