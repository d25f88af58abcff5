"""The mean of a metric over instances, with its interval over triples (METRICS B11)."""

from dataclasses import dataclass

import pandas as pd

from ...metrics import cluster_mean
from ..experiment import Cell
from .config import ConsistencyConfig

ALL = "all"


@dataclass(frozen=True)
class Means:
    """The means of one method, each a cell."""

    config: ConsistencyConfig
    method: str
    kind: str

    def cell(
        self,
        metric: str,
        subset: str,
        rows: pd.DataFrame,
        values: pd.Series | None = None,
        strata: pd.Series | None = None,
    ) -> Cell:
        """The mean of `values`, or of the column `metric`, over `rows`."""
        score = cluster_mean(
            (rows[metric] if values is None else values).to_numpy(),
            rows["cluster"].to_numpy(),
            strata=None if strata is None else strata.to_numpy(),
            seed=self.config.seed,
            draws=self.config.bootstrap_draws,
            level=self.config.level,
        )
        return Cell(metric, self.method, subset, score, self.kind)
