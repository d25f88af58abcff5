"""A second rejection: "Is it X?" "No." "Is it Y?" "No."

One word is left, so there is no ratio to keep, and consistency on two classes is not defined. What follows from the two
turns is certainty: consistency on three classes is 1 - JSD from all mass on the word that is left, which depends on the
share of the two rejected words alone. Beside it stand the same numbers after the first "No.".
"""

import numpy as np
import pandas as pd

from ...metrics import jsd_leak
from ..experiment import Cell
from .dialogue import SECOND
from .instances import conditions, option_masses
from .mean import Means

METRICS = ("c3", "p_invalid_raw", "p_invalid_norm", "p_error_post")
ONCE, TWICE = "1 rejection", "2 rejections"


def second_table(beliefs: pd.DataFrame) -> pd.DataFrame:
    """One row per context with two rejections, with `METRICS`; `p_invalid_*` is the mass of both rejected words."""
    own = beliefs[beliefs["scenario"] == SECOND]
    masses, rows = option_masses(own), conditions(own)
    after = masses.loc[rows["readout_id"]].to_numpy()
    left = 3 - rows["rejected"].to_numpy(dtype=int) - rows["then"].to_numpy(dtype=int)
    total = after.sum(axis=1)
    invalid = total - after[np.arange(len(after)), left]
    share = invalid / np.where(total > 0, total, np.nan)
    return rows.assign(c3=1 - jsd_leak(share), p_invalid_raw=invalid, p_invalid_norm=share, p_error_post=1 - total)


def second_scores(means: Means, beliefs: pd.DataFrame, table: pd.DataFrame) -> list[Cell]:
    """The scores of one method by number of rejections; none if a second was not asked for.

    Args:
        means: of the method.
        beliefs: its rows at temperature 1.
        table: its instances, of which those that reject one word by the same words count.
    """
    if SECOND not in set(beliefs["scenario"]):
        return []
    both = ((ONCE, table[table["template"] == "reject"]), (TWICE, second_table(beliefs)))
    return [means.cell(metric, subset, rows) for subset, rows in both for metric in METRICS]
