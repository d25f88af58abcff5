"""A second rejection: "Is it X?" "No." "Is it Y?" "No."

One word is left, so there is no ratio to keep, and consistency on two classes is not defined. What follows from the two
turns is certainty: consistency on three classes is 1 - JSD from all mass on the word that is left, which depends on the
share of the two rejected words alone. Beside it stand the same numbers after the first "No.".
"""

import numpy as np
import pandas as pd

from ...metrics import jsd_leak
from .dialogue import SECOND
from .instances import conditions, option_masses

METRICS = ("c3", "p_invalid_raw", "p_invalid_norm", "p_error_post")
ONCE, TWICE = "1 rejection", "2 rejections"


def second_table(beliefs: pd.DataFrame) -> pd.DataFrame:
    """One row per method and context with two rejections, with `METRICS`; `p_invalid_*` is the mass of both rejected
    words.
    """
    own = beliefs[beliefs["scenario"] == SECOND]
    masses, rows = option_masses(own), conditions(own, "method", "cluster")
    after = masses.loc[rows["readout_id"]].to_numpy()
    left = 3 - rows["rejected"].to_numpy(dtype=int) - rows["then"].to_numpy(dtype=int)
    total = after.sum(axis=1)
    invalid = total - after[np.arange(len(after)), left]
    share = invalid / np.where(total > 0, total, np.nan)
    scores = {"c3": 1 - jsd_leak(share), "p_invalid_raw": invalid, "p_invalid_norm": share, "p_error_post": 1 - total}
    return rows[["method", "cluster"]].assign(**scores)
