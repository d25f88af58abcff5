"""The belief table as arrays, as a tidy table of answers, and as samples: beliefs over options, and P(yes) of
options that are proposed one by one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ....base.errors import UserError, nearest
from ....metrics import option_scores, order_effect
from ....metrics.beliefs import distinct_conditions
from ....metrics.contract import Floats
from ....metrics.tables.cells import padded
from ....metrics.tables.sample_rows import joined
from ....metrics.tables.samples import ALL, Multiclass, Sample, YesNo
from ...materials.choices.columns import NAMES as COLUMN_NAMES
from .ask import PROPOSED
from .config import AskConfig

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


def answered(beliefs: pd.DataFrame, kind: str = "exact") -> Iterator[tuple[str, list[Answered]]]:
    """Of each method of a kind the questions in the order of the table."""
    exact = beliefs[beliefs["kind"] == kind]
    codes, questions = distinct_conditions(exact, without=("order", "proposed"))
    exact = exact.assign(question=codes)
    further = [name for name in exact.columns if name.startswith(MORE)]
    for method, rows in exact.groupby("method", sort=False, observed=True):
        starts = np.flatnonzero(rows["item"].ne(rows["item"].shift()).to_numpy())
        columns = {name: rows[name].to_numpy() for name in COLUMNS}
        ends = [*starts[1:], len(rows)]
        parts = [{k: v[a:b] for k, v in columns.items()} for a, b in zip(starts, ends, strict=True)]
        yield str(method), [_answered(part, questions[part["question"][0]], further) for part in parts]


MORE = "more."
"""Before the name of a user's column, among the conditions."""
COLUMNS = (
    *("item", "cluster", "scenario", "option_index", "prob", "coverage", "status", "competitor", "competitor_logp"),
    "question",
)


def _answered(rows: Mapping[str, Any], question: Mapping[str, Any], further: Sequence[str]) -> Answered:
    first = np.flatnonzero(rows["option_index"] == 0)
    k = len(rows["prob"]) // len(first)
    prob = rows["prob"].astype(np.float64).reshape(-1, k)
    yes = None
    if rows["scenario"][0] == PROPOSED:
        yes = prob[:, 0]
        with np.errstate(invalid="ignore"):
            prob = (yes / yes.sum())[None]
    statuses = [str(status) for status in rows["status"][first]]
    likely = rows["competitor_logp"][first].astype(np.float64)
    at = int(np.nanargmax(likely)) if np.isfinite(likely).any() else None
    return Answered(
        item=str(rows["item"][0]),
        cluster=str(rows["cluster"][0]),
        topic=question.get("topic", ""),
        options=question["options"],
        truth=question.get("truth"),
        more={name.removeprefix(MORE): question.get(name) for name in further},
        by_order=prob,
        coverage=rows["coverage"][first].astype(np.float64),
        status=next((status for status in statuses if status != "ok"), "ok"),
        rather=("", np.nan) if at is None else (str(rows["competitor"][first[at]]), float(np.exp(likely[at]))),
        yes=yes,
    )


def padded_truth(asked: Sequence[Answered]) -> Floats:
    """[n] index of the true option; NaN where none is known."""
    return np.array([np.nan if question.truth is None else question.truth for question in asked])


def answer_table(beliefs: pd.DataFrame) -> pd.DataFrame:
    """A row for each question and method, to be joined with the user's own table by `id`: the likeliest option and its
    probability, the true one and its, whether they are the same (tied options share), coverage, what the model would
    rather begin with, how far the order of the options moves the belief, and the user's further columns, which are
    called `own_<name>` where ours have the name. Columns that are all empty are left out.
    """
    rows = [_row(method, question) for method, asked in answered(beliefs) for question in asked]
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def _row(method: str, question: Answered) -> dict[str, Any]:
    scores = option_scores(question.belief[None], padded_truth([question]))
    row: dict[str, Any] = {
        "id": question.item,
        "method": method,
        "answer": question.value or None,
        "prob": float(question.belief.max()),
        "truth": question.options[question.truth] if question.truth is not None else None,
        "truth_prob": question.value_of_truth,
        "correct": float(scores.correct[0]),
        "brier": float(scores.brier[0]),
        "log_loss": float(scores.log_loss[0]),
        "coverage": float(question.coverage.mean()),
        **dict(zip(RATHER, (question.rather[0] or None, question.rather[1]), strict=True)),
        "order_effect": order_effect(question.by_order).moved,
        "status": question.status,
        "topic": question.topic or None,
        "cluster": question.cluster if question.cluster != question.item else None,
    }
    return row | {own_name(name, row, question.more): value for name, value in question.more.items()}


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
            {"id": question.item, "method": method, "option": option, "prob": float(p), "true": place == question.truth}
            for method, asked in answered(beliefs)
            for question in asked
            for place, (option, p) in enumerate(zip(question.options, question.belief, strict=True))
        ]
    )


def samples(config: AskConfig, beliefs: pd.DataFrame) -> Iterator[Sample]:
    """Of each method all questions, then those of each value of `by`; of every kind of belief."""
    for kind in ("exact", "verbal", "probe"):
        for method, asked in answered(beliefs, kind):
            for subset, part in parts(config, asked).items():
                yield replace(multiclass(method, subset, part), kind=kind)
                if proposed := [question for question in part if question.yes is not None]:
                    yield replace(_proposed(method, subset, proposed), kind=kind)


def parts(config: AskConfig, asked: Sequence[Answered]) -> dict[str, list[Answered]]:
    """All questions, then those of each value of the column that the settings name."""
    by_value = {ALL: list(asked)}
    values = values_by(config, [(each.topic, each.more) for each in asked])
    for question, value in zip(asked if values else (), values, strict=True):
        by_value.setdefault(f"{config.by}: {value}", []).append(question)
    return by_value


def values_by(config: AskConfig, asked: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Any]:
    """[n] of each (topic, further columns) the value of the column `by`; empty without `by`.

    The column that topics were read from is called `topic`, or as it is in the file. Raises UserError for a name that
    no question has.
    """
    if config.by is None:
        return []
    by = config.by.strip().lower()
    cells = [{name.strip().lower(): cell for name, cell in more.items()} for _, more in asked]
    known = {name: None for row in cells for name in row}
    if by in known:
        return [row.get(by) for row in cells]
    named = {*COLUMN_NAMES["topic"], (config.questions.columns.topic or "").strip().lower()}
    if by in named and any(topic for topic, _ in asked):
        return [topic for topic, _ in asked]
    topics = ["topic"] if any(topic for topic, _ in asked) else []
    raise UserError(f"by: no question has a column {config.by!r}; {nearest(by, [*topics, *known])}")


def multiclass(method: str, subset: str, asked: Sequence[Answered]) -> Multiclass:
    """The beliefs over options of some questions."""
    several = [question.by_order for question in asked]
    return Multiclass(
        kind="exact",
        method=method,
        subset=subset,
        belief=padded([question.belief.tolist() for question in asked]),
        sizes=np.array([len(question.options) for question in asked]),
        truth=padded_truth(asked),
        coverage=np.array([question.coverage.mean() for question in asked]),
        by_order=several if max(map(len, several)) > 1 else None,
        clusters=np.array([question.cluster for question in asked]),
        keys=np.array([question.item for question in asked], dtype=object),
        why=np.array([question.status for question in asked], dtype=object),
    )


def _proposed(method: str, subset: str, asked: Sequence[Answered]) -> YesNo:
    """A row for each option: whether it is right, and the belief that it is."""
    options = [(question, place) for question in asked for place in range(len(question.options))]
    truth = [np.nan if question.truth is None else float(question.truth == place) for question, place in options]
    names = (np.array([question.item for question, _ in options]), np.array([place for _, place in options]))
    return YesNo(
        kind="exact",
        method=method,
        subset=subset,
        belief=np.concatenate([question.yes for question in asked if question.yes is not None]),
        outcome=np.array(truth) if np.isfinite(truth).any() else None,
        mass=np.concatenate([question.coverage for question in asked]),
        clusters=np.array([question.cluster for question, _ in options]),
        keys=joined(*names),
        why=np.array([question.status for question, _ in options], dtype=object),
    )
