"""What the experiment says of itself so that inner layers can be read and gated (METRICS W3)."""

from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd

from ...metrics import INNER_KINDS, bayes_error
from ..addons.inner.declaration import PRIOR as NONE_YET
from ..addons.inner.declaration import Inner, InnerScores
from ..experiment import Column
from ..runs.scores import resampling
from ..tables.samples import Sample
from .asking import BELIEF, CASE, PRIOR
from .config import RationalityConfig
from .own import RESPONSE, response
from .samples import decisions, knowledge
from .table import actions, detailed, methods

COLUMNS = (
    Column(RESPONSE, "response", "slope of the belief on the true chance; 0: no evidence is heard"),
    Column("rmse_truth", "error", "root mean square distance of the belief from the true chance"),
)


def against(scenario: str, variant: Mapping[str, Any]) -> int | None:
    """The answer that the evidence speaks against; none yet before it; nothing of what is neither."""
    return NONE_YET if scenario == PRIOR else variant.get("against") if scenario == BELIEF else None


def score(config: RationalityConfig, beliefs: pd.DataFrame) -> InnerScores:
    """How a belief answers to the evidence, and how far it is from the truth. The words alone answer to nothing."""
    table = detailed(beliefs)
    own = table[(table["scenario"] == BELIEF) & (table["option_index"] == 0)]
    each = own.groupby("item", sort=False).agg(belief=("prob", "mean"), truth=("truth", "first"))
    belief, truth = (each[name].to_numpy(dtype=np.float64) for name in ("belief", "truth"))
    names = each.index.to_numpy()
    error = bayes_error(belief, truth, names, **resampling(config).interval)
    return InnerScores({RESPONSE: response(truth, belief, names, config), "rmse_truth": error}, by_words=0.0)


def beside(config: RationalityConfig, beliefs: pd.DataFrame) -> Iterator[tuple[str, list[Sample]]]:
    """Could an inner belief be the one that is acted on, what does the choice know beyond it, and what do it and the
    beliefs that are said know beyond each other? What is read inside of a decision is none.
    """
    of_decisions = beliefs["kind"].isin(INNER_KINDS) & ~beliefs["scenario"].isin((BELIEF, CASE))
    table = detailed(beliefs[~of_decisions])
    acts = actions(config, table)
    every = list(methods(table, acts.items))
    acted = [decisions(config, one, acts) for one in every]
    yield "sufficiency", [*acted]
    yield "knows-more", [*acted]
    pairs = [pair for pair in permutations(every, 2) if len([one for one in pair if one.kind in INNER_KINDS]) == 1]
    yield "latent", [knowledge(*pair, acts) for pair in pairs]


INNER = Inner(against, COLUMNS, score, beside)
