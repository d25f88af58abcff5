"""From the belief table to readings, and from these to the pairs that a martingale regression takes (METRICS A11)."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...metrics.validation import Floats
from ..tables.belief_parts import BeliefParts, BeliefTable, in_parts
from ..tables.samples import ALL
from ..tables.updates import STEPWISE

CELL = ["domain", "reasoning", "prompt"]
TRAJECTORY = ["kind", "method", *CELL, "item", "draw"]
FACETS = ("reading", "wording")
"""In what the readings of one belief differ: the order of the options, and how it was asked for."""
GATE = "gate"
"""The domain of the urns that the gate is judged by, which enter no other number."""
MARKS = ("draw", *FACETS, "truth", "statuses", "control")
"""What a variant may hold besides the cell."""
CONTROL = ["domain", "prompt", "item", "cluster", "draw", "step", "reading", "prob"]
"""What is kept of the negative control."""
SHARED = -1
"""In place of the draw of a start, which every trajectory shares."""


class Tables(NamedTuple):
    """What numbers and pages are made of."""

    readings: pd.DataFrame
    urns: pd.DataFrame
    """The readings of the gate's urns."""
    statuses: pd.DataFrame
    control: pd.DataFrame
    """What was read of the negative control."""


def tables(beliefs: BeliefTable) -> Tables:
    """Those of a run, made of a part of it at a time."""
    return in_parts(beliefs).once(_tables)


def _tables(beliefs: BeliefParts) -> Tables:
    readings, urns, statuses, control = zip(*map(_of_part, beliefs), strict=True)
    return Tables(_arranged(readings), _arranged(urns), _joined(statuses), _joined(control))


def _of_part(beliefs: pd.DataFrame) -> Tables:
    whole = _told(beliefs)
    of_gate = whole["domain"] == GATE
    own, urns = whole[~of_gate], whole[of_gate]
    return Tables(_readings(own), _readings(urns), _statuses(own), own.loc[own["control"].notna(), CONTROL])


def readings(beliefs: BeliefTable, *, of_gate: bool = False) -> pd.DataFrame:
    """One row per trajectory, step and method: `belief`, the mean of its readings, NaN where one has no number; their
    means in each order, `reading_0` and `reading_1`, and in each wording, `wording_0`, ..., where there are several;
    `first`, the reading in the first wording and order; `coverage`, `status`, `cluster`, `outcome`, `truth`.

    The start, which is stored once, stands in every trajectory of its question. The negative control is left
    out. So are the gate's urns, or all but these.
    """
    made = tables(beliefs)
    return made.urns if of_gate else made.readings


def _readings(table: pd.DataFrame) -> pd.DataFrame:
    table = table[table["control"].isna()]
    key = [*TRAJECTORY, "step"]
    own = table.groupby(key, sort=False, dropna=False)
    found = own.agg(
        belief=("prob", _mean),
        first=("prob", lambda values: values.iloc[0]),
        coverage=("coverage", "mean"),
        status=("status", _worst),
        cluster=("cluster", "first"),
        outcome=("outcome", "first"),
        truth=("truth", "first"),
    )
    for facet in FACETS:
        levels = table.groupby([*key, facet], sort=False)["prob"].agg(_mean).unstack()
        found = found.join(levels.rename(columns=lambda level, facet=facet: f"{facet}_{level:g}"))
    return _with_starts(found.reset_index())


def marked(beliefs: pd.DataFrame) -> pd.DataFrame:
    """The rows of P(yes), with what their variants say in columns of its own; not of the gate's urns."""
    whole = _told(beliefs)
    return whole[whole["domain"] != GATE].reset_index(drop=True)


def _told(beliefs: pd.DataFrame) -> pd.DataFrame:
    table = beliefs[beliefs["option_index"] == 0].reset_index(drop=True)
    for name in ("kind", "method", "item", "cluster", "status"):
        table[name] = table[name].astype(str)
    texts = table["variant"].astype(str)
    known = {text: json.loads(text) for text in texts.unique()}
    variants = pd.DataFrame([known[text] for text in texts]).reindex(columns=[*CELL, *MARKS])
    return pd.concat([table, variants.fillna({"draw": SHARED})], axis=1)


def trajectory_statuses(beliefs: BeliefTable) -> pd.DataFrame:
    """One row per trajectory: its cell, item, cluster, draw and status."""
    return tables(beliefs).statuses


def _statuses(table: pd.DataFrame) -> pd.DataFrame:
    starts = table.dropna(subset=["statuses"]).drop_duplicates([*CELL, "item"])
    rows = starts[[*CELL, "item", "cluster", "statuses"]].explode("statuses", ignore_index=True)
    return rows.rename(columns={"statuses": "status"}).dropna(subset=["status"])


def _mean(values: "pd.Series[float]") -> float:
    return float(values.mean(skipna=False))


def facet_columns(table: pd.DataFrame, facet: str, of: str = "") -> list[str]:
    """The columns of `table` that hold the levels of a facet; of the prior's if `of` is `prior_`."""
    return [name for name in table.columns if name.startswith(f"{of}{facet}_")]


def _worst(statuses: "pd.Series[str]") -> str:
    """That of a reading without a number, if there is one."""
    return next((one for one in statuses if one not in ("ok", "low_coverage")), max(statuses, key=len))


def _with_starts(table: pd.DataFrame) -> pd.DataFrame:
    """A start without a draw is written into every trajectory that goes on from it. `place` is that of the method."""
    place = {name: i for i, name in enumerate(table["method"].unique())}
    table = table.assign(place=table["method"].map(place))
    shared = table[table["draw"] == SHARED].drop(columns="draw")
    own = table[table["draw"] != SHARED]
    drawn = own[TRAJECTORY].drop_duplicates()
    begun = shared.merge(drawn, on=TRAJECTORY[:-1], how="inner")
    return pd.concat([begun, own], ignore_index=True)


def _arranged(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Readings of all parts by method, in the order of the settings, and trajectory."""
    firsts = [part.drop_duplicates("method").sort_values("place")["method"] for part in parts]
    place = {name: i for i, name in enumerate(dict.fromkeys(name for first in firsts for name in first))}
    whole = _joined([part.drop(columns="place") for part in parts])
    whole = whole.assign(place=whole["method"].map(place)).sort_values(["place", *CELL, "item", "draw", "step"])
    facets = [name for facet in FACETS for name in sorted(facet_columns(whole, facet), key=_level)]
    others = [name for name in whole.columns if name not in (*facets, "place")]
    return whole[[*others, *facets]].reset_index(drop=True)


def _level(name: str) -> float:
    """Of a facet, from the name of its column."""
    return float(name.rpartition("_")[2])


def _joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Rows of all parts; an empty part knows no types."""
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def pairs(table: pd.DataFrame, mode: str) -> pd.DataFrame:
    """Prior and posterior of each pair: every belief with the next, or the first with the last. The prior's
    readings and status are `prior_first`, `prior_reading_0`, ..., `prior_wording_0`, ..., `prior_status`.

    A pair whose belief is missing is there and NaN, so that whoever uses it counts it.
    """
    keys = [table[name] for name in TRAJECTORY]
    readings = ["first", *(name for facet in FACETS for name in facet_columns(table, facet))]
    columns = ["belief", *readings, "truth", "step", "status"]
    if mode == STEPWISE:
        before = table[columns].groupby(keys, sort=False).shift(1)
        kept = before["step"].notna()
    else:
        kept = ~table.duplicated(TRAJECTORY, keep="last") & (table["step"] > 0)
        before = table[columns].groupby(keys, sort=False).transform(lambda values: values.iloc[0])
    found = table[kept].rename(columns={"belief": "post", "truth": "true_post"})
    before = before[kept]
    found = found.assign(
        prior=before["belief"],
        **{f"prior_{name}": before[name] for name in readings},
        true_prior=before["truth"],
        prior_status=before["status"],
    )
    return found.assign(update=found["post"] - found["prior"]).reset_index(drop=True)


def once(rows: pd.DataFrame) -> pd.DataFrame:
    """Each reading of a method once: the start is every trajectory's."""
    return rows[(rows["step"] > 0) | ~rows.duplicated([*CELL, "item", "step"])]


def by_method(table: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """(kind, method, rows)."""
    for (kind, method), rows in table.groupby(["kind", "method"], sort=False):
        yield str(kind), str(method), rows


def cell_names(table: pd.DataFrame) -> "pd.Series[str]":
    """The cell of each row, as it is called."""
    return table["domain"] + ", " + table["reasoning"] + ", " + table["prompt"]


def subsets(*tables: pd.DataFrame) -> Iterator[tuple[str, tuple[pd.DataFrame, ...]]]:
    """All cells together, then each cell of the first table; its rows of each of the tables."""
    yield ALL, tables
    names = [cell_names(table) for table in tables]
    for cell in names[0].unique():
        yield str(cell), tuple(table[name == cell] for table, name in zip(tables, names, strict=True))


def array(rows: pd.DataFrame, name: str) -> Floats:
    """A column of numbers."""
    return rows[name].to_numpy(dtype=np.float64)


def labels(rows: pd.DataFrame, name: str = "cluster") -> Any:
    """A column of names."""
    return rows[name].to_numpy()
