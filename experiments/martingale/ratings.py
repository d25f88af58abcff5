"""What people believe after each step of a run: a sheet for them to fill in, and what they filled in as a judge's rows.

They see what the model saw when it was asked, and nothing later.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from ...hooks.errors import UserError
from ...hooks.text import unguarded
from ...metrics import COLUMNS
from ..experiment import Transcript
from ..runs.folder import RunFolder
from ..tables.cells import complete, load
from ..tables.source import open_table
from .table import CELL, SHARED, marked

ROLES = {
    **dict.fromkeys(("item", "reasoning", "prompt", "rater"), "label"),
    "draw": "real",
    "step": "number",
    "belief": "probability",
}
START = ["item", "reasoning", "prompt"]
TRAJECTORY = [*START, "draw"]
PLACE = [*TRAJECTORY, "step"]


def sheet(folder: RunFolder) -> pd.DataFrame:
    """A row for each place of a run: PLACE, `rater` and `belief` to fill in (that `option` is right, in [0, 1]), and
    `shown`, what the model had seen. A start has no draw, as all draws share it. Later steps stand further down, lest
    they be seen before.
    """
    places = _places(folder.beliefs()).sort_values("step", kind="stable")
    told = folder.transcripts(set(places["readout_id"]))
    shown = ["\n\n".join(_shown(told[name])) for name in places["readout_id"]]
    draw = places["draw"].astype("Int64").mask(places["draw"] == SHARED)
    return places[[*PLACE, "option"]].assign(draw=draw, rater="", belief="", shown=shown)


def _shown(said: Transcript) -> Iterator[str]:
    yield from (f"{message['role']}: {message['content']}" for message in said["messages"])
    yield from (f"assistant, thinking: {thought['text']}" for thought in said["thoughts"])


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
    data = load(source, ROLES)
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
    return pd.concat([beliefs, *(_rows(places, str(name), own) for name, own in given.groupby("rater", sort=False))])


def _places(beliefs: pd.DataFrame) -> pd.DataFrame:
    """One row of the belief table for each place, with what its variant says."""
    table = marked(beliefs)
    shared = table["draw"] == SHARED
    return table[table["control"].isna() & (shared == (table["step"] == 0))].drop_duplicates(PLACE)


def _rows(places: pd.DataFrame, rater: str, given: pd.DataFrame) -> pd.DataFrame:
    """The ratings of one as rows of the belief table, also for the steps left out, lest they be bridged."""
    begun = places.set_index(START).index.isin(given.set_index(START).index) & (places["step"] == 0)
    gone_on = places.set_index(TRAJECTORY).index.isin(given.set_index(TRAJECTORY).index)
    rows = places[begun | gone_on].merge(given[[*PLACE, "belief"]], on=PLACE, how="left")
    rated = rows["belief"].notna()
    kept = (*CELL, "draw", "truth")
    variants = [{key: one[key] for key in kept if key in one} for one in map(json.loads, rows["variant"])]
    return rows.assign(
        readout_id=rows["readout_id"].astype(str) + f"/rater {rater}",
        kind="judge",
        method=f"rater {rater}",
        variant=[json.dumps(variant, sort_keys=True) for variant in variants],
        prob=rows["belief"],
        status=np.where(rated, "ok", "nan"),
        coverage=rated.astype(np.float64),
    )[list(COLUMNS)]
