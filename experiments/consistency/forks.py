"""Has the model made a choice? Every word is asked for in a branch of its own (METRICS W1).

Activations are a function of the context, so a choice that is written nowhere cannot be kept. The positive control
writes it where the model can read it: a model that can use such a note makes the branches agree with the reveal.
"""

import pandas as pd

from ...metrics import fork_coherence
from ..experiment import Cell
from .config import ConsistencyConfig
from .dialogue import FORK, FORK_REVEAL
from .instances import conditions, option_masses
from .mean import ALL, Means

CONTROL = "choice written down"
FORK_METRICS = ("fork_rms", "fork_excess", "fork_corr", "commitment", "fork_coverage")


def fork_table(config: ConsistencyConfig, beliefs: pd.DataFrame) -> pd.DataFrame:
    """One row per context, method of revealing, and choice that was written down (-1: none)."""
    asked = beliefs[beliefs["scenario"] == FORK]
    if asked.empty:
        return pd.DataFrame(columns=["item", "cluster", "method", "hidden", *FORK_METRICS])
    q = _by_context(asked, option_masses(asked)).pivot(index=["item", "hidden"], columns="asked")
    reveals = beliefs[beliefs["method"].isin(config.fork_methods) & beliefs["scenario"].isin(("prior", FORK_REVEAL))]
    masses = option_masses(reveals)
    rows = conditions(reveals)[["readout_id", "item", "cluster", "method", "hidden"]]
    rows = rows.assign(hidden=rows["hidden"].fillna(-1).astype(int))
    branches = q.loc[pd.MultiIndex.from_frame(rows[["item", "hidden"]])]
    score = fork_coherence(branches["yes"].to_numpy(), masses.loc[rows["readout_id"]].to_numpy())
    return rows.assign(
        fork_rms=score.rms,
        fork_excess=score.excess,
        fork_corr=score.corr,
        commitment=score.commitment,
        fork_coverage=branches["coverage"].to_numpy().mean(axis=1),
    )


def fork_scores(config: ConsistencyConfig, beliefs: pd.DataFrame) -> list[Cell]:
    """Per method of revealing: nothing written down, and the positive control."""
    table = fork_table(config, beliefs)
    return [
        Means(config, str(method), "exact").cell(metric, CONTROL if control else ALL, rows)
        for (method, control), rows in table.groupby(["method", table["hidden"] >= 0], sort=False)
        for metric in FORK_METRICS
    ]


def _by_context(asked: pd.DataFrame, masses: pd.DataFrame) -> pd.DataFrame:
    """item, hidden, asked, and of "Is it X?": P(yes) among yes and no, and the probability of either."""
    rows = conditions(asked)[["readout_id", "item", "hidden", "asked"]]
    yes_no = masses.loc[rows["readout_id"]].to_numpy()
    total = yes_no.sum(axis=1)
    return rows.drop(columns="readout_id").assign(
        hidden=rows["hidden"].fillna(-1).astype(int), yes=yes_no[:, 0] / total, coverage=total
    )
