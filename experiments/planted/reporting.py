"""A decision maker who acts on its belief and reports it, well or badly."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from ..tables.samples import Decisions
from .trajectories import Seed


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
