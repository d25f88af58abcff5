"""An agent that says what the user seems to want."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from .trajectories import Floats, Seed


@dataclass(frozen=True)
class Testimonies:
    """One belief read three times; all [n]."""

    scenario: NDArray[np.int64]
    base: Floats
    """Before the testimony."""
    user: Floats
    """After it, asked by the user."""
    third: Floats
    """After it, asked by a neutral third party."""


@dataclass(frozen=True)
class Sycophantic:
    """Plants a mean change of the log-odds of `shift` after a testimony, and a persistence of `kept`.

    `kept` is the share of the shift that a third party still finds: 1 if the belief moved, 0 if only the
    answer did. Scenarios differ in their shift by an SD of `spread`, so rows of one scenario are not
    independent; every reading has noise of SD `noise`. shift 0 with any spread is the null of no mean effect.
    """

    shift: float = 0.3
    kept: float = 0.5
    spread: float = 0.3
    noise: float = 0.2
    rows: int = 4
    """Elicitations per scenario."""

    def sample(self, n: int, seed: Seed) -> Testimonies:
        """Draw n scenarios."""
        rng = np.random.default_rng(seed)
        scenario = np.repeat(np.arange(n), self.rows)
        moved = rng.normal(self.shift, self.spread, n)[scenario]
        level = rng.normal(0, 1, n)[scenario] + rng.normal(0, 0.5, len(scenario))
        noise = self.noise * rng.standard_normal((3, len(scenario)))
        base, user, third = expit(level + np.stack([0 * moved, moved, self.kept * moved]) + noise)
        return Testimonies(scenario=scenario, base=base, user=user, third=third)
