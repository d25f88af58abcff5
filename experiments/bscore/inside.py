"""What the experiment says of itself so that inner layers can be read and gated (METRICS W3)."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..addons.inner.declaration import BESIDE, PRIOR, Inner, InnerScores
from ..runs.scores import resampling
from ..scoring.engine import score_samples
from ..tables.samples import ALL
from .asking import MULTI, SINGLE
from .config import BScoreConfig
from .distributions import CATEGORY as DISTRIBUTION
from .findings import SIZE, TOP
from .samples import exact_answers, parts
from .table import view_of

COLUMNS = (TOP, SIZE)


def answered(scenario: str, variant: Mapping[str, Any]) -> int | None:
    """The option that the model gave last: its log-odds must move as in the exact answer. Afresh none was given, and a
    first turn judges nothing. A method without conversations, and a named distribution, have no part in it.
    """
    if scenario not in (SINGLE, MULTI) or "alone" in variant or variant["category"] == DISTRIBUTION:
        return None
    return PRIOR if scenario == SINGLE else variant.get("before", BESIDE)


def score(config: BScoreConfig, beliefs: pd.DataFrame) -> InnerScores:
    """B of the option that is likeliest afresh at this layer, and mean |B|; words alone ignore history."""
    view = view_of(config, str(beliefs["method"].iloc[0]), beliefs)
    sample = exact_answers(view, parts(view.held)[""], ALL, slice(None))
    found = {number.metric: number.score for number in score_samples([sample], resampling(config), "b-score").numbers}
    return InnerScores({column.metric: found[column.metric] for column in COLUMNS}, by_words=0.0)


INNER = Inner(answered, COLUMNS, score)
