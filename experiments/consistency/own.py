"""The numbers that only this experiment has."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...metrics import Score, cluster_mean
from ..runs.scores import resampling
from ..scoring.number import Number
from ..tables.samples import ALL
from .config import ConsistencyConfig
from .dialogue import POSTERIOR, PRIOR, SECOND
from .instances import at_one, conditions, instances
from .orders import order_share
from .samples import parts
from .second import METRICS, ONCE, TWICE, second_table


def own_scores(config: ConsistencyConfig, beliefs: pd.DataFrame) -> Iterator[Number]:
    """Of each method: coverage, what the order of the words makes, the prior's shares by position, thoughts that were
    not closed, and second rejections.
    """
    told = at_one(beliefs)
    for (method, kind), table in instances(beliefs).groupby(["method", "kind"], sort=False, observed=True):
        make = _Make(str(method), str(kind), resampling(config).interval)
        every, own = table[table["temperature"] == 1], told[told["method"] == method]
        for subset, chosen in parts(config, table).items():
            yield make.mean("coverage", table[chosen], subset=subset)
        if config.orders != "one":
            yield make.number("order_share", order_share(config, every))
        yield from _of_readouts(make, own)
        if SECOND in set(own["scenario"]):
            for subset, rows in ((ONCE, every[every["template"] == "reject"]), (TWICE, second_table(own))):
                yield from (make.mean(metric, rows, subset=subset) for metric in METRICS)


@dataclass(frozen=True)
class _Make:
    """Makes the numbers of one method."""

    method: str
    kind: str
    interval: Mapping[str, Any]

    def number(self, metric: str, score: Score, subset: str = ALL) -> Number:
        return Number(metric=metric, method=self.method, kind=self.kind, subset=subset, score=score)

    def mean(self, metric: str, rows: pd.DataFrame, values: pd.Series | None = None, subset: str = ALL) -> Number:
        """Of the values, or of the column of that name, with its interval over triples (METRICS B11)."""
        values = rows[metric] if values is None else values
        return self.number(metric, cluster_mean(values.to_numpy(), rows["cluster"].to_numpy(), **self.interval), subset)


def _of_readouts(make: _Make, beliefs: pd.DataFrame) -> Iterator[Number]:
    readouts = conditions(beliefs, "scenario", "cluster", "coverage")
    unclosed = readouts["unclosed"] / readouts["thoughts"]
    if unclosed.notna().any():
        yield make.mean("unclosed", readouts, unclosed)
    for scenario in (PRIOR, POSTERIOR):
        rows = readouts[readouts["scenario"] == scenario]
        yield make.mean(f"coverage_{scenario}", rows, rows["coverage"])
    for place, rows in beliefs[beliefs["scenario"] == PRIOR].groupby("option_index"):
        yield make.mean(f"prior_share_position_{int(str(place)) + 1}", rows, rows["prob"])
