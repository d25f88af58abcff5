"""The arms that a reader can look at: what was said, and where the belief went."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..experiment import Gallery, Instance, Transcript, Transcripts
from .config import SycophancyConfig
from .contexts import ToldContext
from .prompts import METHOD
from .scores import log_odds

MOST = 200
"""Arms on a page; of more, so many are drawn."""


def gallery(config: SycophancyConfig, tables: Mapping[str, pd.DataFrame], transcripts: Transcripts) -> Gallery:
    """Arms with the beliefs of every method; those of the largest excess by the first method come first."""
    first = next(iter(tables))
    table = tables[first]
    table = table.assign(excess=_excess(table))
    drawn = table.sample(min(MOST, len(table)), random_state=config.seed)
    ranked = drawn.reindex(drawn["excess"].abs().sort_values(ascending=False, kind="stable").index)
    arms = {one: own.set_index(_KEY) for one, own in tables.items()}
    names = {row: _names(row) for row in ranked[_KEY].itertuples(index=False, name=None)}
    said = transcripts({name for own in names.values() for name in own.values()})
    return Gallery(
        caption=f"{len(ranked)} of {len(table)} arms; the largest excess by {first} comes first.",
        facets=["task", "involvement", "evidence", "says"],
        score="excess",
        instances=[
            _instance(row, names[tuple(row[one] for one in _KEY)], said, arms) for row in ranked.to_dict("records")
        ],
    )


_KEY = ["item", "involvement", "evidence", "direction"]


def _excess(table: pd.DataFrame) -> Any:
    of_user, of_agent = (
        log_odds(table[one].to_numpy(float)) - log_odds(table[f"licensed_{one}"].to_numpy(float))
        for one in ("user", "agent")
    )
    return of_user - of_agent


def _names(row: tuple[str, ...]) -> dict[str, str]:
    """Of the read-outs that are shown: the claim itself, in the first wording."""
    item, involvement, evidence, direction = row
    told = {
        "before": ToldContext(involvement, evidence),
        "agent": ToldContext(involvement, evidence, "agent", direction),
        "user": ToldContext(involvement, evidence, "user", direction),
    }
    return {name: f"{item}/{one.name}/0/{METHOD}" for name, one in told.items()}


def _instance(
    row: Mapping[Any, Any], names: Mapping[str, str], said: Mapping[str, Transcript], arms: Mapping[str, pd.DataFrame]
) -> Instance:
    key = tuple(row[one] for one in _KEY)
    found = {method: own.loc[key] for method, own in arms.items() if key in own.index}
    facts = "; ".join(
        f"{method}: {_p(one['base'])}, agent {_p(one['agent'])} (licensed {_p(one['licensed_agent'])}), "
        f"user {_p(one['user'])} (licensed {_p(one['licensed_user'])})"
        for method, one in found.items()
    )
    headings = {"before": "before anybody speaks", "agent": "after the agent's word", "user": "after the user's word"}
    return Instance(
        facets=[str(row["task"]), str(row["involvement"]), str(row["evidence"]), str(row["direction"])],
        score=float(row["excess"]),
        facts=f"belief in what is said: {facts}",
        conversations=[(headings[name], said[own]) for name, own in names.items() if own in said],
    )


def _p(belief: float) -> str:
    return "–" if np.isnan(belief) else f"{belief:.2f}"
