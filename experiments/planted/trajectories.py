"""What is read of an agent that revises its beliefs, with the truth beside it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Seed = int | np.random.Generator
"""A number, or a generator to go on drawing from."""


@dataclass(frozen=True, kw_only=True)
class Trajectories:
    """Beliefs of one agent over questions and steps."""

    read: Floats
    """[questions, steps + 1], what an instrument reads."""
    belief: Floats
    """[questions, steps + 1], what the agent believes."""
    outcome: Floats
    """[questions], 0 or 1: what came true."""

    def updates(self) -> tuple[Floats, Floats, NDArray[np.int64] | None]:
        """Prior, posterior and question of each step of the readings; no question, where each has one step."""
        prior, posterior = self.read[:, :-1], self.read[:, 1:]
        n, steps = prior.shape
        return prior.ravel(), posterior.ravel(), np.repeat(np.arange(n), steps) if steps > 1 else None
