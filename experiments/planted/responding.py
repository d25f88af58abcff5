"""An agent that answers to evidence on some of its items, and on the others not at all."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from .trajectories import Floats, Seed


@dataclass(frozen=True)
class Partly:
    """Plants the share of the items that respond, `share`: exactly so many of those that are drawn, rounded.

    Each item has `levels` true posteriors, a walk of log-odds. Where it responds, the belief moves by `slope` times as
    much as they do, about their mean; else it stands there. Every belief has noise of its own, of SD `noise`. Who is
    `surer` than Bayes' rule has log-odds so many times those of the posteriors, about whose mean such beliefs move.
    """

    share: float = 1.0
    slope: float = 1.0
    noise: float = 0.05
    levels: int = 5
    spread: float = 1.0
    """SD of the log-odds at which items begin; of 6 most posteriors lie within a thousandth of 0 or 1."""
    surer: float = 1.0

    def sample(self, items: int, seed: Seed) -> tuple[Floats, Floats, NDArray[np.intp]]:
        """[items x levels] beliefs, true posteriors, and the item of each."""
        rng = np.random.default_rng(seed)
        start, steps = self.spread * rng.standard_normal((items, 1)), 1.2 * rng.standard_normal((items, self.levels))
        log_odds = start + np.cumsum(steps, axis=1)
        truth, held = expit(log_odds), expit(self.surer * log_odds)
        mean = held.mean(axis=1, keepdims=True)
        responds = rng.permutation(items)[:, None] < round(self.share * items)
        belief = mean + self.slope * responds * (held - mean) + self.noise * rng.standard_normal(truth.shape)
        return np.clip(belief, 0, 1).ravel(), truth.ravel(), np.repeat(np.arange(items), self.levels)
