"""Runs of the martingale experiment, scored together: what tells them apart is a factor, as the domain is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ...hooks.errors import UserError
from ..experiment import RunConfig
from ..martingale.config import MartingaleConfig
from ..martingale.ratings import rated
from ..martingale.table import CELL, STEPWISE, WHOLE, array, labels, pairs, readings
from ..runs.folder import RunFolder
from ..tables.samples import Judgements, Pairs, Sample, Updates, joined
from ..tables.understand import Understood, understand
from .comparable import Run, levels
from .config import stored_config

PLACE = ["item", "reasoning", "prompt", "draw"]
"""Names a trajectory within a run and a kind."""
BETWEEN = "all kinds"
"""The group of what is said of kinds together."""


def understand_runs(folders: Sequence[RunFolder], ratings: Path | None = None) -> Understood:
    """Runs of the same questions: a sample for each kind of belief of each run, and one of all runs for what tells them
    apart. The one run of another experiment is its belief table.

    Args:
        folders: of the runs.
        ratings: what people made of the steps of the one run that there is (as `rated`).

    Raises UserError for runs that are not complete, or not comparable (as `levels`).
    """
    opened = [_opened(folder) for folder in folders]
    runs = [Run(folder, config) for folder, config in opened if isinstance(config, MartingaleConfig)]
    if not runs and len(opened) == 1 and not ratings:
        return understand(folders[0].path / "beliefs")
    if len(runs) < len(opened):
        raise UserError("only runs of martingale are scored together, or with ratings; score others one by one")
    if ratings and len(runs) > 1:
        raise UserError(f"{ratings}: ratings are of the steps of one run; give that run alone")
    of_run = levels(runs)
    tables = [_table(run, own, ratings) for run, own in zip(runs, of_run, strict=True)]
    factors = [*of_run[0], *CELL]
    table = pd.concat(tables, ignore_index=True)
    steps, ends = (pd.concat([pairs(one, mode) for one in tables], ignore_index=True) for mode in (STEPWISE, WHOLE))
    several = len(runs) > 1
    samples: dict[str, Sample] = {}
    names: dict[str, dict[str, str]] = {}
    for (run, group), whole in ends.groupby(["run", "group"], sort=False):
        name = f"{group}, {run}" if several else str(group)
        single = steps[(steps["run"] == run) & (steps["group"] == group)]
        samples[name] = _updates(single, whole, CELL)
        names.setdefault(str(run), {})[str(group)] = name
    for group, whole in ends.groupby("group", sort=False) if several else ():
        samples[str(group)] = replace(_updates(steps[steps["group"] == group], whole, factors), mixed=True)
    for run, groups in names.items():
        if len(groups) > 1:
            beliefs, updates = (rows[rows["run"] == run] for rows in (table, steps))
            samples[f"{BETWEEN}, {run}" if several else BETWEEN] = _judgements(beliefs, updates, list(groups))
    of_kind = [[groups[kind] for groups in names.values() if kind in groups] for kind in table["group"].unique()]
    varied = [name for name in factors if table[name].nunique() > 1]
    return Understood(
        Path(" + ".join(folder.path.name for folder in folders)),
        "runs of martingale",
        samples,
        _line(table, ends, varied),
        [*(list(groups.values()) for groups in names.values()), *of_kind],
    )


def _table(run: Run, own: Mapping[str, str], ratings: Path | None) -> pd.DataFrame:
    """The readings of a run, with its levels, its name `run`, and the `group` of each."""
    beliefs = run.folder.beliefs()
    table = readings(rated(beliefs, ratings) if ratings else beliefs)
    if table.empty:
        raise UserError(f"{run.folder.path}: no trajectory has a step, so no belief could move")
    return table.assign(group=table["kind"] + "/" + table["method"], run=", ".join(own.values()), **own)


def _opened(folder: RunFolder) -> tuple[RunFolder, RunConfig]:
    if folder.missing:
        raise UserError(f"{folder.path}: {folder.missing} batches are still to be read; go on with the run first")
    return folder, stored_config(folder.path / "config.yaml")[1]


def _updates(steps: pd.DataFrame, ends: pd.DataFrame, factors: Sequence[str]) -> Updates:
    whole = _pairs(ends, PLACE)
    alike = len(steps) == len(ends)  # then no trajectory has a second step
    views = {"": whole} if alike else {STEPWISE: _pairs(steps, [*PLACE, "step"]), WHOLE: whole}
    varied = {name: labels(ends, name) for name in factors if ends[name].nunique() > 1}
    return Updates(views=views, clusters=whole.clusters, factors=varied or None)


def _pairs(rows: pd.DataFrame, place: Sequence[str]) -> Pairs:
    outcome = rows["outcome"].where(rows["outcome"].isin((0.0, 1.0))).to_numpy(dtype=np.float64)
    return Pairs(
        prior=array(rows, "prior"),
        posterior=array(rows, "post"),
        outcome=outcome if np.isfinite(outcome).any() else None,
        clusters=labels(rows),
        keys=joined(*(labels(rows, name) for name in place)),
        why=np.where(rows["prior"].isna(), rows["prior_status"], rows["status"]),
    )


def _judgements(table: pd.DataFrame, steps: pd.DataFrame, kinds: Sequence[str]) -> Judgements:
    index = [*PLACE, "step", "cluster"]
    beliefs = table.pivot(index=index, columns="group", values="belief")[list(kinds)]
    changes = steps.pivot(index=index, columns="group", values="update")[list(kinds)]
    return Judgements(
        judges=tuple(kinds),
        readings=beliefs.to_numpy(dtype=np.float64),
        clusters=beliefs.index.get_level_values("cluster").to_numpy(),
        changes=changes.to_numpy(dtype=np.float64),
        change_clusters=changes.index.get_level_values("cluster").to_numpy(),
    )


def _line(table: pd.DataFrame, ends: pd.DataFrame, factors: Sequence[str]) -> str:
    runs = list(dict.fromkeys(table["run"]))
    trajectories = len(ends.drop_duplicates(["run", *PLACE]))
    told = [
        f"martingale, {len(runs)} run{'s' if len(runs) > 1 else ''} ({'; '.join(runs)})",
        f"{trajectories} trajectories, clusters: question ({table['cluster'].nunique()})",
        "the belief is in the first option",
        f"factors: {', '.join(factors)}" if factors else "one cell",
    ]
    statuses = table["status"].value_counts().drop("ok", errors="ignore")
    told += ["read-outs: " + ", ".join(f"{n} {name}" for name, n in statuses.items())] if len(statuses) else []
    return "; ".join(told)
