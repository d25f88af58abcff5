"""Who holds a belief, states one, and acts on one: the same, or not."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, softmax

from ..tables.cells import Array
from .trajectories import Seed

UTILITIES = np.array([[1.0, -1.0], [0.25, 0.25], [-1.0, 1.0]])
"""[no, defer, yes] in the state that the target does not hold, and in that it does."""


@dataclass(frozen=True)
class Decided:
    """What is true, held, stated and done in n contexts."""

    p_star: Array
    outcome: Array
    held: Array
    stated: Array
    """[n, 2] two readings."""
    tree: Array
    """[n, 3] exact probability of no, defer, yes."""
    two: Array
    """[n, 2] of yes, no where there is no more."""


@dataclass(frozen=True)
class Deciding:
    """Plants a maximiser of expected utility with logistic shocks who states the belief that it acts on.

    Evidence comes in two pieces, whose log-odds add up to those of the true chance; the agent's belief is off by
    `misbelief` (SD in log-odds), which is no incoherence. Each of the others plants one:
    """

    hides: bool = False
    """It states what the first piece alone says: the action knows more of the truth than the report."""
    distortion: float = 0.0
    """SD in log-odds of what has nothing to do with the truth and moves the belief that is acted on alone."""
    noise: float = 0.0
    """SD in log-odds of each reading of the statement."""
    gamma: float = 1.0
    """Exponent of the weighting of the belief before it is acted on."""
    misbelief: float = 0.7
    sharpness: float = 3.0
    """Of utilities, in units of the shocks."""

    def sample(self, n: int, seed: Seed) -> Decided:
        """Draw n contexts."""
        rng = np.random.default_rng(seed)
        first, second = rng.normal(0, 1.2, (2, n))
        p_star = expit(first + second)
        off = self.misbelief * rng.standard_normal(n)
        held = expit(first + second + off)
        told = first + off if self.hides else logit(held)
        used = expit(logit(held) + self.distortion * rng.standard_normal(n))
        weighted = np.exp(-((-np.log(used)) ** self.gamma))
        value = self.sharpness * np.column_stack([1 - weighted, weighted]) @ UTILITIES.T
        return Decided(
            p_star=p_star,
            outcome=rng.binomial(1, p_star).astype(np.float64),
            held=held,
            stated=expit(told[:, None] + self.noise * rng.standard_normal((n, 2))),
            tree=softmax(value, axis=1),
            two=softmax(value[:, [2, 0]], axis=1),
        )
