"""An agent that is asked "Is it this one?" of every option, each in a branch of its own."""

from dataclasses import dataclass

import numpy as np

from ..tables.samples import Forks
from .trajectories import Seed


@dataclass(frozen=True)
class YesSayer:
    """Plants a fork excess of `bias`; 0 says yes exactly as often as it would reveal.

    The bias is spread evenly over three options. `spread` is the SD of an item's own bias, shared by its
    contexts (cut at two SD, which keeps the mean), `noise` the half-width of an error per answer;
    (bias + 2 spread) / 3 + noise must not exceed 0.1.
    """

    bias: float = 0.0
    spread: float = 0.04
    noise: float = 0.05
    contexts: int = 4

    def sample(self, n: int, seed: Seed) -> Forks:
        """Draw n items, each a cluster of contexts."""
        rng = np.random.default_rng(seed)
        item = np.repeat(np.arange(n), self.contexts)
        r = 0.1 + 0.7 * rng.dirichlet(np.ones(3), len(item))
        own = self.spread * np.clip(rng.standard_normal(n), -2, 2)
        q = r + (self.bias + own[item])[:, None] / 3 + rng.uniform(-self.noise, self.noise, r.shape)
        return Forks(q=q, r=r, clusters=item)
