"""Would the words alone, without any context, score as well? (METRICS W3)

Each read-out is replaced by one that knows how likely each word is on the whole, and nothing of what was said. Between
two such read-outs the ratio of two words never moves: on two classes they score a perfect 1, and no score can rise
above them. On three classes they give the rejected word its usual share, and can be beaten.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from ...metrics import Score, belief_consistency, chance_corrected, moment_interval, word_identity_null
from ...metrics.inference.rows import complete_rows
from ...metrics.validation import Floats
from ..runs.scores import resampling
from .config import ConsistencyConfig
from .instances import conditions, option_masses


@dataclass(frozen=True, kw_only=True)
class WordKappa(Score):
    """METRICS W3. The words' constants are held as fitted on all instances."""

    headline: ClassVar[str] = "kappa_word"
    kappa_word: float
    """(c - c_word) / (1 - c_word), at most 1; NaN where the words alone score 1."""
    c: float
    c_word: float
    """Mean score of the words alone, on the same instances."""


def word_kappas(config: ConsistencyConfig, beliefs: pd.DataFrame, table: pd.DataFrame) -> dict[str, WordKappa]:
    """`kappa_word` of two-class and `kappa_word_c3` of three-class consistency, for one method.

    Args:
        config: of the run.
        beliefs: the method's rows at temperature 1.
        table: its instances.
    """
    own = beliefs[beliefs["scenario"].isin(("prior", "posterior"))]
    masses, readouts = option_masses(own), conditions(own)
    words = own.pivot(index="readout_id", columns="option_index", values="option")
    with np.errstate(divide="ignore"):
        logp = np.log(masses.loc[readouts["readout_id"]].to_numpy())
    null = word_identity_null(logp, words.loc[readouts["readout_id"]].to_numpy(), readouts["cluster"].to_numpy())
    alone = pd.DataFrame(null.null_prob, index=readouts["readout_id"].to_numpy())
    before, after = (alone.loc[table[name]].to_numpy() for name in ("readout_id_prior", "readout_id"))
    word = belief_consistency(before, after, table["rejected"].to_numpy())
    clusters = table["cluster"].to_numpy()
    return {
        "kappa_word": _kappa(config, table["c2"].to_numpy(), word.c2, clusters),
        "kappa_word_c3": _kappa(config, table["c3"].to_numpy(), word.c3, clusters),
    }


def _kappa(config: ConsistencyConfig, score: Floats, by_words: Floats, clusters: np.ndarray) -> WordKappa:
    rows = complete_rows(clusters, score=score, by_words=by_words)
    if not rows.n:
        return WordKappa(kappa_word=np.nan, c=np.nan, c_word=np.nan, status="too_few", **rows.counts)
    c, c_word = (float(column.mean()) for column in rows.columns)
    corrected = chance_corrected(c, c_word)
    kappa = float(corrected.kappa)
    if np.isnan(kappa):
        return WordKappa(kappa_word=kappa, c=c, c_word=c_word, status=corrected.status, **rows.counts)
    found = moment_interval(
        np.column_stack([*rows.columns, np.ones(rows.n)]),
        rows.codes,
        lambda sums: chance_corrected(sums[:, 0] / sums[:, 2], sums[:, 1] / sums[:, 2]).kappa,
        **resampling(config).interval,
    )
    return WordKappa(kappa_word=kappa, c=c, c_word=c_word, **found.fields(), **rows.counts)
