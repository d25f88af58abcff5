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
from .made import INSTANCES, made_of
from .of_method import Names, of_method
from .samples import options

COLUMNS = (
    Column("kappa_word", "gain over words", "3-class consistency beyond the words alone: 0 is word taste, 1 coherent"),
    Column("rms_logodds", "change of log-odds", "root mean square, of the two words that remain; 0 is a kept ratio"),
    Column("c2", "consistency", "1 - JSD of the two words that remain, before and after; 1 is a kept ratio"),
    Column("kappa", "above chance", "(consistency - chance) / (1 - chance); chance: the posterior of another triple"),
)
FAMILIES = ("word-gain", "logodds-change", "consistency", "consistency-kappa")


def rejected(scenario: str, variant: Mapping[str, Any]) -> int | None:
    """The word that is ruled out, of a prior none, and nothing of what is neither."""
    return NONE_YET if scenario == PRIOR else variant["rejected"] if scenario == POSTERIOR else None


def score(config: ConsistencyConfig, beliefs: pd.DataFrame) -> InnerScores:
    """Gain over the words, which have none themselves, change of log-odds, and consistency."""
    made, how = made_of(beliefs), resampling(config)
    (method,) = made.groups(INSTANCES)
    sample = options(of_method(made, method, Names()))
    found = {number.metric: number.score for name in FAMILIES for number in score_samples([sample], how, name).numbers}
    return InnerScores({column.metric: found[column.metric] for column in COLUMNS}, 0.0)


INNER = Inner(rejected, COLUMNS, score)
