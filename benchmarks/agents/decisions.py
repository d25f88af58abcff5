"""Who holds a belief, states one, and acts on one: the same, or not."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, softmax

from doxascope.metrics.contract import Array
from doxascope.metrics.tables.samples import Decisions

from .updates import Seed

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


# A decision maker who acts on its belief and reports it, well or badly.


@dataclass(frozen=True)
class ReportNoise:
    """Plants action independent of theta given the report if and only if `noise` is 0.

    The agent is truthful: it acts on its belief, which is p* unless `misbelief` (SD in log-odds) moves it, and
    on a taste for the context that has nothing to do with the state. Only its report has noise, of SD `noise`
    in log-odds, drawn once per context and repetition. `responsive` is the slope of the action's log-odds on
    the belief's; 0 is a flat choice curve, and a negative one falls. Without `trembling` every repetition has
    the same action.
    """

    noise: float = 0.0
    misbelief: float = 0.0
    """A wrong belief is no incoherence: the report still holds all that the action knows of the state."""
    responsive: float = 1.0
    taste: float = 1.0
    trembling: bool = True
    levels: int = 0
    """Number of distinct beliefs, evenly spaced; 0 draws them uniformly from [0.05, 0.95]."""
    repetitions: int = 1
    digits: int | None = None
    """Decimals that the report is rounded to."""

    def sample(self, n: int, seed: Seed) -> Decisions:
        """Draw n contexts, each a cluster of its repetitions; beliefs are the reports."""
        rng = np.random.default_rng(seed)
        p_star = rng.choice(np.linspace(0.1, 0.9, self.levels), n) if self.levels else rng.uniform(0.05, 0.95, n)
        theta = rng.binomial(1, p_star)
        belief = expit(logit(p_star) + self.misbelief * rng.standard_normal(n)) if self.misbelief else p_star
        pi = expit(self.responsive * logit(belief) + self.taste * rng.standard_normal(n))
        shape = (n, self.repetitions)
        luck = rng.random(shape) if self.trembling else np.repeat(rng.random((n, 1)), self.repetitions, axis=1)
        report = np.repeat(belief[:, None], self.repetitions, axis=1)
        if self.noise:
            report = expit(logit(report) + self.noise * rng.standard_normal(shape))
        if self.digits is not None:
            report = report.round(self.digits)
        of = np.repeat(np.arange(n), self.repetitions)
        return Decisions(
            belief=report.ravel(),
            action=(luck < pi[:, None]).ravel().astype(np.int64).astype(str),
            outcome=theta[of].astype(np.float64),
            action_prob=pi[of],
            p_star=p_star[of],
            clusters=of,
        )
