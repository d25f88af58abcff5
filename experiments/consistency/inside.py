"""What consistency says of itself so that inner layers can be scored like its exact beliefs (METRICS W3)."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..addons.inner.declaration import PRIOR as NONE_YET
from ..addons.inner.declaration import Inner, InnerScores
from ..experiment import Column
from ..runs.scores import resampling
from ..scoring.engine import score_samples
from .config import ConsistencyConfig
from .dialogue import POSTERIOR, PRIOR
from .instances import instances
from .samples import options
from .words import word_kappas

COLUMNS = (
    Column("c2", "consistency", "1 - JSD of the two words that remain, before and after; 1 is a kept ratio"),
    Column("kappa", "above chance", "(consistency - chance) / (1 - chance); chance: the posterior of another triple"),
    Column("kappa_word_c3", "above words, 3-class", "3-class consistency above that of the words alone"),
)


def rejected(scenario: str, variant: Mapping[str, Any]) -> int | None:
    """The word that is ruled out, of a prior none, and nothing of what is neither."""
    return NONE_YET if scenario == PRIOR else variant["rejected"] if scenario == POSTERIOR else None


def score(config: ConsistencyConfig, beliefs: pd.DataFrame) -> InnerScores:
    """Consistency above nothing, above chance and above the words."""
    table = instances(beliefs)
    sample, how = options(table), resampling(config)
    found = {
        number.metric: number.score
        for metric in ("consistency", "consistency-kappa")
        for number in score_samples([sample], how, metric).numbers
    }
    words = word_kappas(config, beliefs, table)
    return InnerScores({"c2": found["c2"], "kappa": found["kappa"], **words}, words["kappa_word"].c_word)


INNER = Inner(rejected, COLUMNS, score)
