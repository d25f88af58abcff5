"""Submissions to a venue: will they be accepted? The abstract first, then the reviews, then the rebuttal."""

from pathlib import Path

import numpy as np

from ....hooks.errors import UserError
from .question import BinaryQuestion
from .table import read_rows

STEPS = ("review", "rebuttal")
"""Columns whose names begin so are evidence, in this order."""
NEEDED, ALLOWED = (
    ("title", "abstract", "decision"),
    ("id", "venue", *(f"{s}{i}" for s in STEPS for i in ("", *range(1, 10)))),
)


def load_openreview(path: Path) -> list[BinaryQuestion]:
    """The submissions of a table with the columns `title, abstract, decision`, and perhaps `id, venue`, `review` or
    `review1` to `review9`, `rebuttal` likewise. A decision that is empty, or a withdrawal, is no outcome.

    Raises UserError as `read_rows` does, and for another decision than one that begins with accept, reject, desk or
    withdrawn.
    """
    questions = []
    for number, row in enumerate(read_rows(path, NEEDED, ALLOWED), 1):
        name = row.get("id") or str(number)
        venue = row.get("venue") or "the venue"
        given = [f"{column.capitalize()}: {text}" for column, text in row.items() if column.startswith(STEPS) and text]
        questions.append(
            BinaryQuestion(
                id=name,
                cluster=name,
                text=f"Will {venue} accept this submission, or reject it?",
                option_yes="Accept",
                option_no="Reject",
                provenance=f"{path.name}, row {number}",
                outcome=_outcome(path, number, row["decision"]),
                background=f"Title: {row['title']}\nAbstract: {row['abstract']}",
                evidence=tuple(given),
            )
        )
    return questions


def _outcome(path: Path, number: int, decision: str) -> float:
    outcomes = {"accept": 1.0, "reject": 0.0, "desk": 0.0, "withdrawn": np.nan}
    if not decision:
        return np.nan
    for beginning, outcome in outcomes.items():
        if decision.casefold().startswith(beginning):
            return outcome
    raise UserError(f"{path}: row {number}: decision {decision!r}; it must begin with one of {', '.join(outcomes)}")
