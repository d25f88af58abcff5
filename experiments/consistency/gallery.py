"""The instances that a reader can look at: what was said, and what became of the ratio."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..experiment import Gallery, Instance, Transcript, Transcripts
from ..tables.belief_parts import Made
from .config import ConsistencyConfig
from .made import INSTANCES

MOST = 1000
"""Instances on a page; of more, so many are drawn."""
LOWEST = 20
"""Of each method, that are on the page in any case."""
SHOWN = (
    *("method", "template", "order", "temperature", "rejected", "coverage", "c2", "alpha_prior", "alpha_post"),
    *("readout_id", "readout_id_prior", "of", "of_prior"),
)
"""Columns of the instances that are on the page."""


def scored(made: Made) -> pd.DataFrame:
    """The consistency of every instance, and its method; the index is its number."""
    every = [made.read(INSTANCES, method, ["method", "c2"]) for method in made.groups(INSTANCES)]
    return pd.concat(every).sort_index()


def gallery(
    config: ConsistencyConfig,
    every: pd.DataFrame,
    look_up: Callable[[np.ndarray], pd.DataFrame],
    transcripts: Transcripts,
) -> Gallery:
    """Every instance, or a sample and the lowest; the lowest first.

    Args:
        config: of the run.
        every: `method` and `c2` of each instance, by its number.
        look_up: from the numbers of some instances to their columns `SHOWN`.
        transcripts: of the run.
    """
    shown = look_up(_shown(every, config.seed))
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
        caption=_caption(len(shown), len(every), config),
        facets=list(facets),
        score="consistency",
        instances=[_instance(row, facets.values(), said) for row in shown.to_dict("records")],
    )


def _shown(every: pd.DataFrame, seed: int) -> np.ndarray:
    """The numbers of those that are on the page, the lowest first."""
    ranked = every.sort_values("c2", kind="stable")
    numbers = ranked.index.to_numpy()
    if len(ranked) <= MOST:
        return numbers
    ranked = ranked.reset_index(drop=True)
    lowest = ranked.groupby("method", observed=True, sort=False).head(LOWEST)
    drawn = ranked.sample(MOST, random_state=seed)
    return numbers[lowest.index.union(drawn.index)]


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
