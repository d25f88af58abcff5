"""The instances that a reader can look at: what was said, and what became of the ratio."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..experiment import Gallery, Instance, Transcript, Transcripts
from .config import ConsistencyConfig

MOST = 1000
"""Instances on a page; of more, so many are drawn."""
LOWEST = 20
"""Of each method, that are on the page in any case."""


def gallery(config: ConsistencyConfig, table: pd.DataFrame, transcripts: Transcripts) -> Gallery:
    """Every instance, or a sample and the lowest; the lowest first."""
    shown = _shown(table, config.seed)
    shown = shown.assign(
        status=np.select(
            [shown["c2"].isna(), shown["coverage"] < config.low_coverage], ["undefined", "low coverage"], "ok"
        ),
        temperature=shown["temperature"].map("T = {:g}".format),
        asked_before=_question(shown["readout_id_prior"], shown["of_prior"]),
        asked_after=_question(shown["readout_id"], shown["of"]),
    )
    facets = {"method": "method", "rejection": "template", "status": "status"}
    facets |= {"temperature": "temperature"} if config.temperatures else {}
    facets |= {"order": "order"} if config.orders != "one" else {}
    said = transcripts({*shown["asked_before"], *shown["asked_after"]})
    return Gallery(
        caption=_caption(len(shown), len(table), config),
        facets=list(facets),
        score="consistency",
        instances=[_instance(row, facets.values(), said) for row in shown.to_dict("records")],
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


def _question(readout_id: pd.Series, of: pd.Series) -> pd.Series:
    """The read-outs that were asked for, and those from which others are derived."""
    return readout_id.astype(object).where(of == "", of.astype(object))


def _instance(row: Mapping[Hashable, Any], facets: Iterable[str], said: Mapping[str, Transcript]) -> Instance:
    before, after = said[row["asked_before"]], said[row["asked_after"]]
    ruled_out = after["options"][row["rejected"]]
    alpha, beta = (word for word in after["options"] if word != ruled_out)
    was, became = (f"{alpha} {_percent(p)}, {beta} {_percent(1 - p)}" for p in (row["alpha_prior"], row["alpha_post"]))
    return Instance(
        facets=[str(row[facet]) for facet in facets],
        score=row["c2"],
        facts=f"{was}; after {ruled_out} was ruled out {became}",
        conversations=[("before", before), ("after", after)],
    )


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{share:.1%}"
