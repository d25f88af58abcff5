"""The instances that a reader can look at: what was said, and what became of the ratio."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ..protocol import Gallery, Instance, Transcript, Transcripts
from .config import ConsistencyConfig

MOST = 1000
"""Instances on a page; of more, so many are drawn."""
LOWEST = 20
"""Of each method, that are on the page in any case."""


def gallery(config: ConsistencyConfig, table: pd.DataFrame, transcripts: Transcripts) -> Gallery:
    """Every instance, or a sample and the lowest; the lowest first."""
    shown = _shown(table, config.seed)
    facets = {"method": "method", "rejection": "template", "status": "status"}
    facets |= {"temperature": "temperature"} if config.temperatures else {}
    facets |= {"order": "order"} if config.orders != "one" else {}
    shown = shown.assign(
        status=np.select(
            [shown["c2"].isna(), shown["coverage"] < config.low_coverage], ["undefined", "low coverage"], "ok"
        ),
        asked_before=shown["readout_id_prior"].map(_question),
        asked_after=shown["readout_id"].map(_question),
    )
    said = transcripts({*shown["asked_before"], *shown["asked_after"]})
    return Gallery(
        caption=_caption(len(shown), len(table), config),
        facets=list(facets),
        score="consistency",
        instances=[_instance(row, list(facets.values()), said) for row in shown.to_dict("records")],
    )


def _shown(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    ranked = table.sort_values("c2", kind="stable", ignore_index=True)
    if len(ranked) <= MOST:
        return ranked
    lowest = ranked.groupby("method", observed=True, sort=False).head(LOWEST)
    drawn = ranked.sample(MOST, random_state=seed)
    return ranked.loc[lowest.index.union(drawn.index)]


def _caption(n: int, n_all: int, config: ConsistencyConfig) -> str:
    if n == n_all:
        return f"All {n}, the least consistent first."
    return (
        f"{n} of {n_all}, the least consistent first: {MOST} drawn with seed {config.seed}, and the {LOWEST} lowest of "
        "each method, which were chosen after looking."
    )


def _question(readout_id: str) -> str:
    """The question from which a read-out is derived: item, scenario and method, without temperature or sampling."""
    return "/".join(readout_id.split("/")[:3])


def _instance(row: Mapping[str, object], facets: list[str], said: Mapping[str, Transcript]) -> Instance:
    before, after = said[str(row["asked_before"])], said[str(row["asked_after"])]
    rejected = int(str(row["rejected"]))
    alpha, beta = (word for i, word in enumerate(after["options"]) if i != rejected)
    shares = [
        f"{alpha} {_percent(share)}, {beta} {_percent(1 - share)}" for share in (row["alpha_prior"], row["alpha_post"])
    ]
    return Instance(
        facets=[str(row[facet]) for facet in facets],
        score=float(row["c2"]),
        facts=f"{shares[0]}; after {after['options'][rejected]} was ruled out {shares[1]}",
        conversations=[("before", before), ("after", after)],
    )


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{share:.1%}"
