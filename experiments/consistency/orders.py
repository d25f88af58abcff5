"""How much of the score is the order in which the words were listed? (METRICS B11)"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from ...metrics import Score, reliability_icc
from ..runs.scores import resampling
from .config import ConsistencyConfig


@dataclass(frozen=True, kw_only=True)
class OrderShare(Score):
    """One-way components of variance: triples, and the orders of a triple. Interval over triples."""

    headline: ClassVar[str] = "share"
    share: float
    """Of the variance of a score, what two orders of one triple differ by: 1 - ICC(1). Not cut at 1, which it exceeds
    by chance where triples hardly differ."""
    order_variance: float
    """Between the orders of a triple; of exact beliefs nothing else varies there, of sampled ones the sampling does."""
    n_orders: int


def order_share(config: ConsistencyConfig, table: pd.DataFrame, metric: str = "c2") -> OrderShare:
    """The share for one method.

    Args:
        config: of the run.
        table: instances of one method. A triple's score in one order is the mean over its instances.
        metric: the score; a triple in one of whose orders no instance has it is dropped and counted.
    """
    scores = table.pivot_table(metric, "cluster", "order", aggfunc="mean", dropna=False)
    found = reliability_icc(scores, groups=np.arange(len(scores)), **resampling(config).interval)
    return OrderShare(
        share=1 - found.icc1,
        order_variance=float(scores.dropna().var(axis=1, ddof=1).mean()),
        n_orders=scores.shape[1],
        n_rows=found.n_rows,
        n_clusters=found.n_clusters,
        n_dropped=found.n_dropped,
        reasons=found.reasons,
        status=found.status,
        se=found.se,
        ci_lo=1 - found.ci_hi,
        ci_hi=1 - found.ci_lo,
        ci_method=found.ci_method,
        params={**found.params, "metric": metric},
    )
