"""From the belief table to readings, the model's and those that people give, and to the pairs that a martingale
regression takes (METRICS A11).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ....base.errors import UserError
from ....base.text import unguarded
from ....metrics import COLUMNS
from ....metrics.beliefs import conditions, worst_status
from ....metrics.contract import Floats
from ....metrics.tables.belief_parts import BeliefParts, BeliefTable, in_parts
from ....metrics.tables.cells import complete, load_columns
from ....metrics.tables.sample_rows import STEPWISE
from ....metrics.tables.samples import ALL
from ....metrics.tables.source import open_table
from ...report.findings import Transcript
from ...run.folder import RunFolder
from .config import GATE

CELL = ["domain", "reasoning", "prompt"]
TRAJECTORY = ["kind", "method", *CELL, "item", "draw"]
FACETS = ("reading", "wording")
"""In what the readings of one belief differ: the order of the options, and how it was asked for."""
MARKS = ("draw", *FACETS, "truth", "statuses", "control")
"""Conditions besides the cell."""
CONTROL = ["domain", "prompt", "item", "cluster", "draw", "step", "reading", "prob"]
"""What is kept of the negative control."""
MASSES = ["kind", "method", "cluster", "coverage"]
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
    masses: pd.DataFrame
    """The coverage of each read-out, of neither."""


def tables(beliefs: BeliefTable) -> Tables:
    """Those of a run, made of a part of it at a time."""
    return in_parts(beliefs).once(_tables)


def _tables(beliefs: BeliefParts) -> Tables:
    readings, urns, *others = zip(*map(_of_part, beliefs), strict=True)
    return Tables(_arranged(readings), _arranged(urns), *map(_joined, others))


def _of_part(beliefs: pd.DataFrame) -> Tables:
    whole = _of_yes(beliefs)
    of_gate = whole["domain"] == GATE
    asked, urns = whole[~of_gate], whole[of_gate]
    control = asked["control"].notna()
    return Tables(
        _readings(asked), _readings(urns), _statuses(asked), asked.loc[control, CONTROL], asked.loc[~control, MASSES]
    )


def readings(beliefs: BeliefTable, *, of_gate: bool = False) -> pd.DataFrame:
    """One row per trajectory, step and method: `belief`, the mean of its readings, NaN where one has no number; their
    means in each order, `reading_0` and `reading_1`, and in each wording, `wording_0`, ..., where there are several;
    `first`, the reading in the first wording and order; `coverage`, `status`, `cluster`, `outcome`, `truth`.

    The start, which is stored once, stands in every trajectory of its question. The negative control is left
    out. So are the gate's urns, or all but these.
    """
    computed = tables(beliefs)
    return computed.urns if of_gate else computed.readings


def _readings(table: pd.DataFrame) -> pd.DataFrame:
    table = table[table["control"].isna()]
    key = [*TRAJECTORY, "step"]
    groups = table.groupby(key, sort=False, dropna=False)
    collapsed = groups.agg(
        belief=("prob", _mean),
        first=("prob", lambda values: values.iloc[0]),
        coverage=("coverage", "mean"),
        status=("status", worst_status),
        cluster=("cluster", "first"),
        outcome=("outcome", "first"),
        truth=("truth", "first"),
    )
    for facet in FACETS:
        levels = table.groupby([*key, facet], sort=False)["prob"].agg(_mean).unstack()
        collapsed = collapsed.join(levels.rename(columns=lambda level, facet=facet: f"{facet}_{level:g}"))
    return _with_starts(collapsed.reset_index())


def marked(beliefs: pd.DataFrame) -> pd.DataFrame:
    """The rows of P(yes), not of the gate's urns."""
    whole = _of_yes(beliefs)
    return whole[whole["domain"] != GATE].reset_index(drop=True)


def _of_yes(beliefs: pd.DataFrame) -> pd.DataFrame:
    table = beliefs[beliefs["option_index"] == 0].reset_index(drop=True)
    table = table.astype(dict.fromkeys(("kind", "method", "item", "cluster", "status"), str))
    return table.assign(**conditions(table, [*CELL, *MARKS])).fillna({"draw": SHARED})


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


def _with_starts(table: pd.DataFrame) -> pd.DataFrame:
    """A start without a draw is written into every trajectory that goes on from it. `place` is that of the method."""
    place = {name: i for i, name in enumerate(table["method"].unique())}
    table = table.assign(place=table["method"].map(place))
    shared = table[table["draw"] == SHARED].drop(columns="draw")
    later = table[table["draw"] != SHARED]
    drawn = later[TRAJECTORY].drop_duplicates()
    begun = shared.merge(drawn, on=TRAJECTORY[:-1], how="inner")
    return pd.concat([begun, later], ignore_index=True)


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
    paired = table[kept].rename(columns={"belief": "post", "truth": "true_post"})
    before = before[kept]
    paired = paired.assign(
        prior=before["belief"],
        **{f"prior_{name}": before[name] for name in readings},
        true_prior=before["truth"],
        prior_status=before["status"],
    )
    return paired.assign(update=paired["post"] - paired["prior"]).reset_index(drop=True)


def once(rows: pd.DataFrame) -> pd.DataFrame:
    """Each reading of a method once: the start is every trajectory's."""
    return rows[(rows["step"] > 0) | ~rows.duplicated([*CELL, "item", "step"])]


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


# What people believe after each step of a run: a sheet for them to fill in, and what they filled in as a judge's rows.
#
# They see what the model saw when it was asked, and nothing later.

ROLES = {
    **dict.fromkeys(("item", "reasoning", "prompt", "rater"), "label"),
    "draw": "real",
    "step": "number",
    "belief": "probability",
}
START = ["item", "reasoning", "prompt"]
RATED_TRAJECTORY = [*START, "draw"]
PLACE = [*RATED_TRAJECTORY, "step"]


def sheet(folder: RunFolder) -> pd.DataFrame:
    """A row for each place of a run: PLACE, `rater` and `belief` to fill in (that `option` is right, in [0, 1]), and
    `shown`, what the model had seen. A start has no draw, as all draws share it. Later steps stand further down, lest
    they be seen before.
    """
    places = _places(folder.beliefs()).sort_values("step", kind="stable")
    transcripts = folder.transcripts(set(places["readout_id"]))
    shown = ["\n\n".join(_shown(transcripts[name])) for name in places["readout_id"]]
    draw = places["draw"].astype("Int64").mask(places["draw"] == SHARED)
    return places[[*PLACE, "option"]].assign(draw=draw, rater="", belief="", shown=shown)


def _shown(transcript: Transcript) -> Iterator[str]:
    yield from (f"{message['role']}: {message['content']}" for message in transcript["messages"])
    yield from (f"assistant, thinking: {thought['text']}" for thought in transcript["thoughts"])


def rated(beliefs: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The belief table of a run with a method `rater <name>` of kind `judge` for each rater.

    Args:
        beliefs: of the run.
        path: a table of PLACE, `rater` and `belief`; an empty belief is missing. So is a step without a row, in a
            trajectory that the rater has rows of.

    Raises UserError for a row that is wrong, of a place that the run has not, or there twice.
    """
    source, places = open_table(path), _places(beliefs)
    if absent := [name for name in ROLES if name not in source.columns]:
        raise UserError(f"{path}: has no column {absent[0]!r}; ratings have {', '.join([*PLACE, 'rater', 'belief'])}")
    data = load_columns(source, ROLES)
    for name in (*START, "rater"):
        complete(path, name, data[name])
    data |= {name: np.array([unguarded(label) for label in data[name]], dtype=object) for name in (*START, "rater")}
    given = pd.DataFrame(data).fillna({"draw": SHARED})
    known = given.set_index(PLACE).index.isin(places.set_index(PLACE).index)
    no_place = "is no place of the run; a start has no draw, any other step has one"
    for wrong, why in ((~known, no_place), (given.duplicated([*PLACE, "rater"]).to_numpy(), "is rated twice")):
        if wrong.any():
            row = given.iloc[at := int(np.argmax(wrong))]
            draw = f"draw {row['draw']:g}, " if row["draw"] != SHARED else ""
            named = ", ".join(f"{name} {row[name]}" for name in START)
            raise UserError(f"{path}: row {at + 1}: {named}, {draw}step {row['step']:g} {why}")
    return pd.concat(
        [beliefs, *(_rows(places, str(name), of_rater) for name, of_rater in given.groupby("rater", sort=False))]
    )


def _places(beliefs: pd.DataFrame) -> pd.DataFrame:
    """One row of the belief table for each place."""
    table = marked(beliefs)
    shared = table["draw"] == SHARED
    return table[table["control"].isna() & (shared == (table["step"] == 0))].drop_duplicates(PLACE)


def _rows(places: pd.DataFrame, rater: str, given: pd.DataFrame) -> pd.DataFrame:
    """The ratings of one as rows of the belief table, also for the steps left out, lest they be bridged."""
    begun = places.set_index(START).index.isin(given.set_index(START).index) & (places["step"] == 0)
    gone_on = places.set_index(RATED_TRAJECTORY).index.isin(given.set_index(RATED_TRAJECTORY).index)
    rows = places[begun | gone_on].merge(given[[*PLACE, "belief"]], on=PLACE, how="left")
    rated = rows["belief"].notna()
    return rows.assign(
        readout_id=rows["readout_id"].astype(str) + f"/rater {rater}",
        kind="judge",
        method=f"rater {rater}",
        judge=rater,
        draw=rows["draw"].where(rows["draw"] != SHARED),
        prob=rows["belief"],
        status=np.where(rated, "ok", "nan"),
        coverage=rated.astype(np.float64),
    )[[*COLUMNS, *CELL, "draw", "truth"]]
