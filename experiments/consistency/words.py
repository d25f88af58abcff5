"""Would the words alone, without any context, score as well? (METRICS W3)

Each read-out is replaced by one that knows how likely each word is on the whole, and nothing of what was said. Between
two such read-outs the ratio of two words never moves: on two classes they score a perfect 1, and no score can rise
above them. On three classes they give the rejected word its usual share, and can be beaten.
"""

import numpy as np
import pandas as pd

from ...metrics import word_identity_null
from .instances import conditions, option_masses

ALONE_BEFORE, ALONE_AFTER = (tuple(f"alone_{when}_{word}" for word in range(3)) for when in ("before", "after"))
"""Columns with the shares of the three words."""


def with_words(beliefs: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The instances of one method with the shares that the words alone would give, NaN at other temperatures than 1.

    Args:
        beliefs: the method's rows at temperature 1.
        table: its instances.
    """
    own = beliefs[beliefs["scenario"].isin(("prior", "posterior"))]
    masses, readouts = option_masses(own), conditions(own, "cluster")
    words = own.pivot(index="readout_id", columns="option_index", values="option")
    with np.errstate(divide="ignore"):
        logp = np.log(masses.loc[readouts["readout_id"]].to_numpy())
    null = word_identity_null(logp, words.loc[readouts["readout_id"]].to_numpy(), readouts["cluster"].to_numpy())
    alone = pd.DataFrame(null.null_prob, index=readouts["readout_id"].to_numpy())
    return table.assign(
        **{
            name: alone[word].reindex(table[readout]).to_numpy()
            for names, readout in ((ALONE_BEFORE, "readout_id_prior"), (ALONE_AFTER, "readout_id"))
            for word, name in enumerate(names)
        }
    )
