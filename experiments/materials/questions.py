"""Questions with two answers: those whose outcome a program computes, urns whose posterior is known, and loaders for
those of others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from ...base.documents import read_json, read_json_rows
from ...base.errors import UserError, in_one_line, nearest
from ...metrics.tables.source import open_table

# A question with two answers, and all that is known of it.


@dataclass(frozen=True)
class BinaryQuestion:
    """A question that is answered by one of two options.

    Raises UserError for an empty text, options that are empty or alike, or an outcome outside [0, 1].
    """

    id: str
    cluster: str
    """Questions that share content share a cluster."""
    text: str
    option_yes: str
    option_no: str
    provenance: str
    """Where it comes from, and how its outcome is known."""
    outcome: float = np.nan
    """1 if `option_yes` is right, 0 if `option_no` is, between where it was settled so; NaN if unknown or a matter of
    values."""
    background: str = ""
    evidence: tuple[str, ...] = ()
    """What is revealed, step by step."""
    posterior: tuple[float, ...] = ()
    """[steps + 1] the true P(yes) before any evidence and after each step of it, where it is known."""
    resolved_on: str = ""
    """ISO date. A model that was trained later may remember the outcome: then its answer is no forecast."""
    among: str = ""
    """Name of the question with more than two options of which this one asks for one; empty: there is none."""

    def __post_init__(self) -> None:
        yes, no = (" ".join(text.split()).casefold() for text in (self.option_yes, self.option_no))
        if not self.text.strip():
            raise UserError(f"question {self.id}: has no text")
        if not yes or not no or yes == no:
            raise UserError(
                f"question {self.id}: options {self.option_yes!r} and {self.option_no!r}; give two that differ"
            )
        if not (np.isnan(self.outcome) or 0 <= self.outcome <= 1):
            raise UserError(f"question {self.id}: outcome {self.outcome}; give a number in [0, 1], or none")
        if self.posterior and len(self.posterior) != len(self.evidence) + 1:
            raise UserError(
                f"question {self.id}: {len(self.posterior)} posteriors for {len(self.evidence)} pieces of evidence"
            )


# Questions whose outcome a program computes: products, the larger of two numbers, weekdays. Each is true with
# probability 1/2, and more of them begin with the same ones.

FIRST_DATE, LAST_DATE = date(1900, 1, 1), date(2099, 12, 31)


def arithmetic(n: int, seed: int = 0) -> list[BinaryQuestion]:
    """`n` products of two numbers, right or a little wrong."""
    return _each(n, seed, _product)


def comparisons(n: int, seed: int = 0) -> list[BinaryQuestion]:
    """`n` pairs of numbers: the larger is the answer, and models favour the numbers very differently."""
    return _each(n, seed, _larger)


def weekdays(n: int, seed: int = 0) -> list[BinaryQuestion]:
    """`n` weekdays of dates."""
    return _each(n, seed, _weekday)


def _each(n: int, seed: int, make: Callable[[int, np.random.Generator], BinaryQuestion]) -> list[BinaryQuestion]:
    return [make(i, np.random.default_rng([seed, i])) for i in range(n)]


def _product(i: int, rng: np.random.Generator) -> BinaryQuestion:
    a, b = (int(x) for x in rng.integers(3, 100, size=2))
    right = bool(rng.integers(2))
    off = int(rng.integers(1, a * b // 5 + 1)) * int(rng.choice([-1, 1]))
    text = f"Is {a} times {b} equal to {a * b + (0 if right else off)}?"
    provenance = "computed: the product of two drawn numbers, or one that is off by at most a fifth"
    return BinaryQuestion(f"arithmetic-{i}", f"arithmetic-{i}", text, "Yes", "No", provenance, float(right))


def _larger(i: int, rng: np.random.Generator) -> BinaryQuestion:
    a, b = (int(x) for x in rng.choice(np.arange(10, 1000), size=2, replace=False))
    name, text = f"comparison-{i}", f"Which number is larger: {a} or {b}?"
    return BinaryQuestion(name, name, text, str(a), str(b), "computed: the larger of two drawn numbers", float(a > b))


def _weekday(i: int, rng: np.random.Generator) -> BinaryQuestion:
    day = FIRST_DATE + timedelta(days=int(rng.integers((LAST_DATE - FIRST_DATE).days + 1)))
    right = bool(rng.integers(2))
    named = day if right else day + timedelta(days=int(rng.integers(1, 7)))
    name, text = f"weekday-{i}", f"In the Gregorian calendar, is {day.day} {day:%B} {day.year} a {named:%A}?"
    return BinaryQuestion(name, name, text, "Yes", "No", "computed: the Gregorian calendar", float(right))


# Draws from one of two urns, revealed one by one: the true posterior is known at every step.

URN_PROVENANCE = (
    "computed: Bayes' rule for draws with replacement; the outcome is the urn that the draws were made from"
)
BALLS, CHANCES = 10, 6


def urns(n: int, draws: int = 6, seed: int = 0) -> list[BinaryQuestion]:
    """`n` questions of `draws` draws, true with the probability that they state; more begin with the same ones."""
    return [_urn_question(i, draws, np.random.default_rng([seed, i])) for i in range(n)]


def posterior(prior: float, red_in_a: float, red_in_b: float, red: Sequence[bool]) -> tuple[float, ...]:
    """[draws + 1] P(urn A) before and after each draw, from the shares of red balls in the urns."""
    odds = prior / (1 - prior)
    beliefs = [prior]
    for is_red in red:
        odds *= red_in_a / red_in_b if is_red else (1 - red_in_a) / (1 - red_in_b)
        beliefs.append(odds / (1 + odds))
    return tuple(beliefs)


def _urn_question(i: int, draws: int, rng: np.random.Generator) -> BinaryQuestion:
    a, b = (int(x) for x in rng.choice(np.arange(1, BALLS), size=2, replace=False))
    sides = int(rng.integers(1, CHANCES))
    is_a = bool(rng.random() < sides / CHANCES)
    red = [bool(x) for x in rng.random(draws) < (a if is_a else b) / BALLS]
    background = (
        f"Urn A holds {a} red and {BALLS - a} blue balls, urn B {b} red and {BALLS - b} blue. A fair die with "
        f"{CHANCES} sides is thrown: at {sides} or less urn A is taken, else urn B. Nobody sees which. Balls are then "
        "drawn from it at random, and each is put back before the next."
    )
    return BinaryQuestion(
        id=f"urn-{i}",
        cluster=f"urn-{i}",
        text="Are the balls drawn from urn A?",
        option_yes="Yes",
        option_no="No",
        provenance=URN_PROVENANCE,
        outcome=float(is_a),
        background=background,
        evidence=tuple(f"Draw {k} is {'red' if x else 'blue'}." for k, x in enumerate(red, 1)),
        posterior=posterior(sides / CHANCES, a / BALLS, b / BALLS, red),
    )


# The rows of tables.


def read_rows(path: Path, needed: Sequence[str], allowed: Sequence[str], *, only: bool = False) -> list[dict[str, str]]:
    """The rows of a .csv, .jsonl or .parquet file as texts, with "" for what is missing.

    Raises UserError if it cannot be read, has no rows, lacks a column that is needed, or, with `only`, has one that is
    not allowed.
    """
    source = open_table(path)
    if missing := [name for name in needed if name not in source.columns]:
        raise UserError(
            f"{path}: has no column {missing[0]!r}, only {', '.join(source.columns)}; needed: {', '.join(needed)}"
        )
    if only and (unknown := [name for name in source.columns if name not in (*needed, *allowed)]):
        raise UserError(
            f"{path}: the column {unknown[0]!r} is not used here; rename it or take it out; "
            f"{nearest(unknown[0], (*needed, *allowed))}"
        )
    wanted = [name for name in (*needed, *allowed) if name in source.columns]
    rows = [
        {
            name: "" if value is None or str(value) == "nan" else str(value).strip()
            for name, value in zip(wanted, cells, strict=True)
        }
        for chunk in source.chunks(wanted)
        for cells in zip(*(chunk[name] for name in wanted), strict=True)
    ]
    if not rows:
        raise UserError(f"{path}: has no rows")
    return rows


# Submissions to a venue: will they be accepted? The abstract first, then the reviews, then the rebuttal.

REVIEW_STEPS = ("review", "rebuttal")
"""Columns whose names begin so are evidence, in this order."""
SUBMISSION_COLUMNS, SUBMISSION_EXTRAS = (
    ("title", "abstract", "decision"),
    ("id", "venue", *(f"{s}{i}" for s in REVIEW_STEPS for i in ("", *range(1, 10)))),
)


def load_openreview(path: Path) -> list[BinaryQuestion]:
    """The submissions of a table with the columns `title, abstract, decision`, and perhaps `id, venue`, `review` or
    `review1` to `review9`, `rebuttal` likewise. A decision that is empty, or a withdrawal, is no outcome.

    Raises UserError as `read_rows` does, and for another decision than one that begins with accept, reject, desk or
    withdrawn.
    """
    questions = []
    for number, row in enumerate(read_rows(path, SUBMISSION_COLUMNS, SUBMISSION_EXTRAS), 1):
        name = row.get("id") or str(number)
        venue = row.get("venue") or "the venue"
        given = [
            f"{column.capitalize()}: {text}" for column, text in row.items() if column.startswith(REVIEW_STEPS) and text
        ]
        questions.append(
            BinaryQuestion(
                id=name,
                cluster=name,
                text=f"Will {venue} accept this submission, or reject it?",
                option_yes="Accept",
                option_no="Reject",
                provenance=f"{path.name}, row {number}",
                outcome=_decision_outcome(path, number, row["decision"]),
                background=f"Title: {row['title']}\nAbstract: {row['abstract']}",
                evidence=tuple(given),
            )
        )
    return questions


def _decision_outcome(path: Path, number: int, decision: str) -> float:
    outcomes = {"accept": 1.0, "reject": 0.0, "desk": 0.0, "withdrawn": np.nan}
    if not decision:
        return np.nan
    for beginning, outcome in outcomes.items():
        if decision.casefold().startswith(beginning):
            return outcome
    raise UserError(f"{path}: row {number}: decision {decision!r}; it must begin with one of {', '.join(outcomes)}")


# Views that somebody wants challenged, as r/ChangeMyView has them: a matter of values, without an outcome.


def load_views(path: Path) -> list[BinaryQuestion]:
    """The views of a JSON-lines file: its objects have a `title`, and may have an `id` and a `selftext`. Other keys are
    left alone.

    Raises UserError as `read_json_rows` does, and for a title without text.
    """
    return [_view_question(path, number, row) for number, row in enumerate(read_json_rows(path, ("title",)), 1)]


def _view_question(path: Path, number: int, row: Mapping[str, Any]) -> BinaryQuestion:
    view = row["title"]
    if not isinstance(view, str) or not (view := view.strip()).removeprefix("CMV:").strip():
        raise UserError(f"{path}: row {number} has no text under 'title'")
    name = str(row.get("id") or number)
    return BinaryQuestion(
        id=name,
        cluster=name,
        text=f"Do you agree with this view? {view.removeprefix('CMV:').strip()}",
        option_yes="Agree",
        option_no="Disagree",
        provenance=f"{path.name}, row {number}",
        background=str(row.get("selftext") or ""),
    )


# The questions of ForecastBench and their resolutions, as its data sets publish them.


def load_forecastbench(questions: Path, resolutions: Path) -> list[BinaryQuestion]:
    """A question for each single question and date on which it is resolved; the dates of one question are a cluster.

    What is not resolved yet, or has no resolution in the file, has no outcome. Combinations of questions are left out.

    Args:
        questions: a question set, .json or .json.gz.
        resolutions: the resolution set of the same due date.

    Raises UserError for a file that cannot be read or is no such set, or sets of two due dates.
    """
    asked, settled = _read_forecasts(questions, "questions"), _read_forecasts(resolutions, "resolutions")
    due = asked["forecast_due_date"]
    if settled["forecast_due_date"] != due:
        raise UserError(
            f"{resolutions}: due on {settled['forecast_due_date']}, the questions on {due}; give the sets of one date"
        )
    dated: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    with in_one_line(resolutions):
        for row in settled["resolutions"]:
            if isinstance(row["id"], str):
                dated.setdefault((row["source"], row["id"]), []).append(row)
    with in_one_line(questions):
        return [
            _forecast_question(row, due, resolution)
            for row in asked["questions"]
            if isinstance(row["id"], str)
            for resolution in dated.get((row["source"], row["id"]), [{}])
        ]


def _forecast_question(row: Mapping[str, Any], due: str, resolution: Mapping[str, Any]) -> BinaryQuestion:
    date = resolution.get("resolution_date", "")
    cluster = f"{row['source']}/{row['id']}"
    text = (
        row["question"].replace("{forecast_due_date}", due).replace("{resolution_date}", date or "the resolution date")
    )
    return BinaryQuestion(
        id=f"{cluster}/{date}" if date else cluster,
        cluster=cluster,
        text=text,
        option_yes="Yes",
        option_no="No",
        provenance=f"ForecastBench {due}, {row['source']}, {row['url']}",
        outcome=float(resolution["resolved_to"]) if resolution.get("resolved") else np.nan,
        background=row["background"],
        resolved_on=date,
    )


FORECAST_FIELDS = {
    "questions": ("id", "source", "question", "background", "url"),
    "resolutions": ("id", "source", "resolution_date", "resolved_to", "resolved"),
}


def _read_forecasts(path: Path, kind: str) -> Any:
    data = read_json(path)
    if not isinstance(data, dict) or not isinstance(data.get(kind), list) or "forecast_due_date" not in data:
        raise UserError(f"{path}: is no ForecastBench {kind[:-1]} set: give one with {kind!r} and 'forecast_due_date'")
    for number, row in enumerate(data[kind], 1):
        if missing := [name for name in FORECAST_FIELDS[kind] if not isinstance(row, dict) or name not in row]:
            raise UserError(f"{path}: {kind[:-1]} {number} has no {missing[0]!r}")
    return data
