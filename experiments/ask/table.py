"""The belief table of a run as arrays, and as a tidy table with a row for each question and method."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ...metrics import option_scores, order_effect
from ...metrics.validation import Floats
from .asking import PROPOSED

RATHER = ("rather", "rather_prob")
"""What the model would rather begin with than any option, and how probable that is."""


@dataclass(frozen=True)
class Answered:
    """A question under one method at one temperature."""

    item: str
    cluster: str
    topic: str
    options: tuple[str, ...]
    truth: int | None
    more: Mapping[str, Any]
    by_order: Floats
    """[orders, k]; of a form that proposes options one by one [1, k], P(yes) of each over their sum."""
    coverage: Floats
    """[read-outs]"""
    status: str
    """Of the first read-out that is not ok, if there is one."""
    rather: tuple[str, float]
    """The likeliest first token of no option in the read-out where it is likeliest, and its probability."""
    yes: Floats | None = None
    """[k] P(yes) of each option, where they are proposed one by one."""

    @cached_property
    def belief(self) -> Floats:
        """[k] every order weighing the same."""
        return self.by_order.mean(axis=0)

    @property
    def value_of_truth(self) -> float:
        """Probability of the true option; NaN where none is known."""
        return float("nan") if self.truth is None else float(self.belief[self.truth])

    @property
    def value(self) -> str:
        """What answers it most: the likeliest option; empty where there is no belief."""
        return self.options[int(self.belief.argmax())] if np.isfinite(self.belief).all() else ""


def answered(beliefs: pd.DataFrame) -> Iterator[tuple[str, list[Answered]]]:
    """Of each method the questions in the order of the table."""
    exact = beliefs[beliefs["kind"] == "exact"]
    for method, rows in exact.groupby("method", sort=False, observed=True):
        starts = np.flatnonzero(rows["item"].ne(rows["item"].shift()).to_numpy())
        columns = {name: rows[name].to_numpy() for name in COLUMNS}
        ends = [*starts[1:], len(rows)]
        yield (
            str(method),
            [_answered({k: v[a:b] for k, v in columns.items()}) for a, b in zip(starts, ends, strict=True)],
        )


COLUMNS = (
    *("readout_id", "item", "cluster", "scenario", "variant", "option_index", "prob", "coverage", "status"),
    *("competitor", "competitor_logp"),
)


def _answered(rows: Mapping[str, Any]) -> Answered:
    first = np.flatnonzero(rows["option_index"] == 0)
    k = len(rows["prob"]) // len(first)
    prob = rows["prob"].astype(np.float64).reshape(-1, k)
    told = json.loads(str(rows["variant"][0]))
    yes = None
    if rows["scenario"][0] == PROPOSED:
        yes = prob[:, 0]
        with np.errstate(invalid="ignore"):
            prob = (yes / yes.sum())[None]
    statuses = [str(one) for one in rows["status"][first]]
    likely = rows["competitor_logp"][first].astype(np.float64)
    at = int(np.nanargmax(likely)) if np.isfinite(likely).any() else None
    return Answered(
        item=str(rows["item"][0]),
        cluster=str(rows["cluster"][0]),
        topic=told["topic"],
        options=tuple(told["options"]),
        truth=told["truth"],
        more=told["more"],
        by_order=prob,
        coverage=rows["coverage"][first].astype(np.float64),
        status=next((one for one in statuses if one != "ok"), "ok"),
        rather=("", np.nan) if at is None else (str(rows["competitor"][first[at]]), float(np.exp(likely[at]))),
        yes=yes,
    )


def padded_truth(asked: Sequence[Answered]) -> Floats:
    """[n] index of the true option; NaN where none is known."""
    return np.array([np.nan if one.truth is None else one.truth for one in asked])


def answer_table(beliefs: pd.DataFrame) -> pd.DataFrame:
    """A row for each question and method, to be joined with the user's own table by `id`: the likeliest option and its
    probability, the true one and its, whether they are the same (tied options share), coverage, what the model would
    rather begin with, how far the order of the options moves the belief, and the user's further columns, which are
    called `own_<name>` where ours have the name. Columns that are all empty are left out.
    """
    rows = [_row(method, one) for method, asked in answered(beliefs) for one in asked]
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def _row(method: str, one: Answered) -> dict[str, Any]:
    scores = option_scores(one.belief[None], padded_truth([one]))
    own: dict[str, Any] = {
        "id": one.item,
        "method": method,
        "answer": one.value or None,
        "prob": float(one.belief.max()),
        "truth": one.options[one.truth] if one.truth is not None else None,
        "truth_prob": one.value_of_truth,
        "correct": float(scores.correct[0]),
        "brier": float(scores.brier[0]),
        "log_loss": float(scores.log_loss[0]),
        "coverage": float(one.coverage.mean()),
        **dict(zip(RATHER, (one.rather[0] or None, one.rather[1]), strict=True)),
        "order_effect": order_effect(one.by_order).moved,
        "status": one.status,
        "topic": one.topic or None,
        "cluster": one.cluster if one.cluster != one.item else None,
    }
    return own | {own_name(name, own, one.more): value for name, value in one.more.items()}


def own_name(name: str, ours: Collection[str], theirs: Collection[str] = ()) -> str:
    """What a column of the user's is called beside ours: as it is, or `own_` and its name."""
    if name not in ours:
        return name
    while name in ours or name in theirs:
        name = f"own_{name}"
    return name


def option_table(beliefs: pd.DataFrame) -> pd.DataFrame:
    """A row for each question, method and option: its probability, over all orders."""
    return pd.DataFrame(
        [
            {"id": one.item, "method": method, "option": option, "prob": float(p), "true": place == one.truth}
            for method, asked in answered(beliefs)
            for one in asked
            for place, (option, p) in enumerate(zip(one.options, one.belief, strict=True))
        ]
    )
