"""The trajectories that a reader can look at: every step, with the belief after it under each kind."""

import math

import pandas as pd

from ..experiment import Gallery, Instance, Message, Transcript, Transcripts
from ..tables.belief_parts import BeliefTable
from .config import MartingaleConfig
from .table import CELL, TRAJECTORY, trajectory_statuses

MOST = 300
"""Trajectories on a page; of more, so many are drawn."""


def gallery(config: MartingaleConfig, table: pd.DataFrame, beliefs: BeliefTable, transcripts: Transcripts) -> Gallery:
    """Every trajectory, or a sample; those that move the first method's belief most come first."""
    one = TRAJECTORY[2:]
    statuses = trajectory_statuses(beliefs)
    statuses["draw"] = statuses.groupby([*CELL, "item"], sort=False).cumcount()
    status = statuses.set_index(one)["status"]
    first = table[table["method"] == table["method"].iloc[0]]
    moved = first.groupby(one, sort=False)["belief"].agg(lambda own: own.iloc[-1] - own.iloc[0])
    drawn = moved.sample(min(MOST, len(moved)), random_state=config.seed)
    ranked = drawn.reindex(drawn.abs().sort_values(ascending=False, kind="stable").index)
    names = {key: f"{key[3]}/{key[1]}-{key[2]}/{int(key[4])}" for key in ranked.index}
    said = transcripts(set(names.values()))
    rows = {key: own for key, own in table.groupby(one, sort=False)}
    instances = [
        _instance(said[names[key]], rows[key], [*key[:3], str(status[key])], float(ranked[key])) for key in ranked.index
    ]
    return Gallery(
        caption=f"{len(ranked)} of {len(moved)} trajectories; what moves the belief by {first['method'].iloc[0]} most "
        "comes first.",
        facets=["domain", "reasoning", "prompt", "status"],
        score="update",
        instances=instances,
    )


def _instance(said: Transcript, rows: pd.DataFrame, facets: list[str], moved: float) -> Instance:
    """The question with the belief before any step, then each step with the belief after it."""
    n = int(rows["step"].max())
    messages = list(said["messages"])
    asked, steps = messages[: len(messages) - n], messages[len(messages) - n :]
    by_step = [own for _, own in rows.groupby("step", sort=True)]
    parts: list[list[Message]] = [asked, *([step] for step in steps)]
    headings = ["before any step", *(f"after step {k}" for k in range(1, n + 1))]
    return Instance(
        facets=facets,
        score=moved,
        facts=_path(rows),
        conversations=[
            (f"{heading}: {_beliefs(by_step[k])}", {**said, "messages": part, "answers": []})
            for k, (heading, part) in enumerate(zip(headings, parts, strict=True))
        ],
    )


def _path(rows: pd.DataFrame) -> str:
    """The beliefs of each method along the trajectory."""
    paths = [
        f"{method} {' → '.join(map(_number, own['belief']))}" for method, own in rows.groupby("method", sort=False)
    ]
    return "; ".join(paths)


def _beliefs(rows: pd.DataFrame) -> str:
    return ", ".join(
        f"{method} {_number(belief)}" + (f" ({status})" if math.isnan(belief) else "")
        for method, belief, status in zip(rows["method"], rows["belief"], rows["status"], strict=True)
    )


def _number(belief: float) -> str:
    return "–" if math.isnan(belief) else f"{belief:.2f}"
