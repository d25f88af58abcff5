"""Has the model made a choice? Every word is asked for in a branch of its own (METRICS W1).

Activations are a function of the context, so a choice that is written nowhere cannot be kept. The positive control
writes it where the model can read it: a model that can use such a note makes the branches agree with the reveal.
"""

from collections.abc import Iterator

import pandas as pd

from ..tables.rows import joined
from ..tables.samples import ALL, Forks
from .config import ConsistencyConfig
from .dialogue import FORK, FORK_REVEAL, PRIOR
from .instances import conditions, option_masses

CONTROL = "choice written down"


def forks(config: ConsistencyConfig, beliefs: pd.DataFrame) -> Iterator[Forks]:
    """Per method of revealing: nothing written down, and the positive control.

    Args:
        config: of the run.
        beliefs: the rows at temperature 1.
    """
    asked = beliefs[beliefs["scenario"] == FORK]
    if asked.empty:
        return
    q = _by_context(asked).pivot(index=["item", "hidden"], columns="asked")
    reveals = beliefs[beliefs["method"].isin(config.fork_methods) & beliefs["scenario"].isin((PRIOR, FORK_REVEAL))]
    masses, rows = option_masses(reveals), conditions(reveals, "item", "method", "cluster")
    rows = rows.assign(hidden=rows["hidden"].fillna(-1).astype(int))
    for (method, control), own in rows.groupby(["method", rows["hidden"] >= 0], sort=False, observed=True):
        branches = q.loc[pd.MultiIndex.from_frame(own[["item", "hidden"]])]
        yield Forks(
            kind="exact",
            method=str(method),
            subset=CONTROL if control else ALL,
            q=branches["yes"].to_numpy(),
            r=masses.loc[own["readout_id"]].to_numpy(),
            coverage=branches["coverage"].to_numpy().mean(axis=1),
            clusters=own["cluster"].to_numpy(),
            keys=joined(own["item"].to_numpy(), own["hidden"].to_numpy()),
        )


def _by_context(asked: pd.DataFrame) -> pd.DataFrame:
    """item, hidden, asked, and of "Is it X?": P(yes) among yes and no, and the probability of either."""
    rows = conditions(asked, "item")[["readout_id", "item", "hidden", "asked"]]
    yes_no = option_masses(asked).loc[rows["readout_id"]].to_numpy()
    total = yes_no.sum(axis=1)
    return rows.drop(columns="readout_id").assign(
        hidden=rows["hidden"].fillna(-1).astype(int), yes=yes_no[:, 0] / total, coverage=total
    )
