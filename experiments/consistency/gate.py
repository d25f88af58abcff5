"""Whether a method measures a belief at all (METRICS W4)."""

import pandas as pd

from ...metrics import CompetenceGate, competence_gate
from .config import ConsistencyConfig


def gates(config: ConsistencyConfig, table: pd.DataFrame) -> dict[str, CompetenceGate]:
    """What is ruled out must lose probability, and share among the words: where less of the answer is any of them,
    a model that never heard the rejection loses the first as well.
    """
    before_and_after = {
        "rejected_change": ("rejected_prior", "p_invalid_raw"),
        "rejected_share_change": ("rejected_prior_share", "p_invalid_norm"),
    }
    return {
        name: competence_gate(
            table[before],
            table[after],
            table["cluster"].to_numpy(),
            seed=config.seed,
            draws=config.bootstrap_draws,
            level=config.level,
        )
        for name, (before, after) in before_and_after.items()
    }
