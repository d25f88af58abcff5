"""What is read of an agent that revises its beliefs, with the truth beside it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...metrics import TrajectoryPairs, belief_table, trajectory_pairs

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

    def pairs(self, mode: str = "per_step") -> TrajectoryPairs:
        """Priors and posteriors of the readings, with the question of each."""
        return trajectory_pairs(list(self.read), mode)

    def table(self, kind: str = "exact") -> pd.DataFrame:
        """The readings as a belief table: two options per reading, one question per cluster."""
        return belief_table(
            {
                "readout_id": f"{question}/{step}",
                "experiment": "planted",
                "item": str(question),
                "cluster": str(question),
                "kind": kind,
                "method": "planted",
                "scenario": "prior" if step == 0 else "posterior",
                "step": step,
                "option": option,
                "option_index": index,
                "prob": prob,
                "status": "ok",
                "outcome": self.outcome[question],
            }
            for question, path in enumerate(self.read)
            for step, belief in enumerate(path)
            for index, (option, prob) in enumerate((("yes", belief), ("no", 1 - belief)))
        )
