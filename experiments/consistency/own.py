"""The numbers that only this experiment has."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...metrics import Score, cluster_mean
from ..runs.scores import resampling
from ..scoring.number import Number
from ..tables.belief_parts import BeliefTable, Made
from ..tables.samples import ALL
from .config import ConsistencyConfig
from .dialogue import POSTERIOR, PRIOR
from .made import INSTANCES, PRIORS, READOUTS, SECOND, SHARES, made_of
from .orders import order_share
from .samples import OF_PARTS, parts
from .second import METRICS, ONCE, TWICE


def own_scores(config: ConsistencyConfig, beliefs: BeliefTable) -> Iterator[Number]:
    """Of each method: coverage, what the order of the words makes, the prior's shares by position, thoughts that were
    not closed, and second rejections.
    """
    made = made_of(beliefs)
    for method in made.groups(INSTANCES):
        table = made.read(
            INSTANCES,
            method,
            ["kind", "cluster", "item", "temperature", "template", "coverage", *OF_PARTS, "c2", *METRICS],
        )
        make = _Make(method, str(table["kind"].iloc[0]), resampling(config).interval)
        every = table[table["temperature"] == 1]
        for subset, chosen in parts(config, table).items():
            yield make.mean("coverage", table[chosen], subset=subset)
        if config.orders != "one":
            yield make.number("order_share", order_share(config, every))
        yield from _of_readouts(make, made)
        if method in made.groups(SECOND):
            twice = made.read(SECOND, method, ["cluster", *METRICS])
            for subset, rows in ((ONCE, every[every["template"] == "reject"]), (TWICE, twice)):
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


def _of_readouts(make: _Make, made: Made) -> Iterator[Number]:
    readouts = made.read(READOUTS, make.method, ["scenario", "cluster", "coverage", "unclosed", "thoughts"])
    unclosed = readouts["unclosed"] / readouts["thoughts"]
    if unclosed.notna().any():
        yield make.mean("unclosed", readouts, unclosed)
    for scenario in (PRIOR, POSTERIOR):
        rows = readouts[readouts["scenario"] == scenario]
        yield make.mean(f"coverage_{scenario}", rows, rows["coverage"])
    priors = made.read(PRIORS, make.method, ["cluster", *SHARES])
    for place, name in enumerate(SHARES):
        yield make.mean(f"prior_share_position_{place + 1}", priors, priors[name])
