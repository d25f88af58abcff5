"""Has the model made a choice? Every word is asked for in a branch of its own (METRICS W1).

Activations are a function of the context, so a choice that is written nowhere cannot be kept. The positive control
writes it where the model can read it: a model that can use such a note makes the branches agree with the reveal.
"""

import numpy as np
import pandas as pd

from .dialogue import FORK, FORK_REVEAL, PRIOR
from .instances import conditions, option_masses

CONTROL = "choice written down"
YES, REVEAL = (tuple(f"{name}_{word}" for word in range(3)) for name in ("yes", "reveal"))
"""Columns with P(yes) among yes and no to each word, and with the mass of its reveal."""


def fork_table(beliefs: pd.DataFrame) -> pd.DataFrame:
    """A row for each item, method of revealing, and word that is written down (-1: none, which is no control), with the
    mean probability of yes or no as `coverage`.

    Args:
        beliefs: the rows at temperature 1.
    """
    q = _by_context(beliefs[beliefs["scenario"] == FORK]).pivot(index=["item", "hidden"], columns="asked")
    methods = beliefs.loc[beliefs["scenario"] == FORK_REVEAL, "method"].unique()
    reveals = beliefs[beliefs["method"].isin(methods) & beliefs["scenario"].isin((PRIOR, FORK_REVEAL))]
    masses, rows = option_masses(reveals), conditions(reveals, "item", "method", "cluster")
    rows = rows.assign(hidden=rows["hidden"].fillna(-1).astype(int))
    branches = q.loc[pd.MultiIndex.from_frame(rows[["item", "hidden"]])]
    said = np.hstack([branches["yes"].to_numpy(), masses.loc[rows["readout_id"]].to_numpy()])
    return rows[["item", "cluster", "method", "hidden"]].assign(
        coverage=branches["coverage"].to_numpy().mean(axis=1), **dict(zip((*YES, *REVEAL), said.T, strict=True))
    )


def _by_context(asked: pd.DataFrame) -> pd.DataFrame:
    """item, hidden, asked, and of "Is it X?": P(yes) among yes and no, and the probability of either."""
    rows = conditions(asked, "item")[["readout_id", "item", "hidden", "asked"]]
    yes_no = option_masses(asked).loc[rows["readout_id"]].to_numpy()
    total = yes_no.sum(axis=1)
    return rows.drop(columns="readout_id").assign(
        hidden=rows["hidden"].fillna(-1).astype(int), yes=yes_no[:, 0] / total, coverage=total
    )
