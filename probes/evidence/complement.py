"""Does a probe hold a statement as true as it holds its negation false? (PROBES 8)"""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ...metrics.validation import Floats
from ...metrics.whitebox.readout import framing_bias


def pair_rows(pairs: ArrayLike, negated: ArrayLike) -> NDArray[np.intp]:
    """[m, 2] the rows of each statement and of its negation.

    Args:
        pairs: [n] what both share; empty: a row without a counterpart.
        negated: [n] whether a row is the negation.
    """
    table = pd.DataFrame({"pair": np.asarray(pairs).astype(str), "negated": np.asarray(negated, dtype=bool)})
    table = table[table["pair"] != ""].reset_index(names="row").drop_duplicates(["pair", "negated"])
    sides = [table[table["negated"] == side].set_index("pair")["row"] for side in (False, True)]
    return pd.concat(sides, axis=1, join="inner").to_numpy(dtype=np.intp)


def complement_gaps(belief: Floats, rows: NDArray[np.intp]) -> Floats:
    """[m] p(X) + p(not X) - 1 of beliefs [n] at pairs of rows [m, 2]."""
    return np.asarray(framing_bias(belief[rows[:, 0]], belief[rows[:, 1]]))
