"""Weekdays of dates."""

from datetime import date, timedelta

import numpy as np

from .question import Question

PROVENANCE = "computed: the Gregorian calendar"
FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)


def weekdays(n: int, seed: int = 0) -> list[Question]:
    """`n` questions, each true with probability 1/2. More of them begin with the same ones."""
    return [_question(i, np.random.default_rng([seed, i])) for i in range(n)]


def _question(i: int, rng: np.random.Generator) -> Question:
    day = FIRST + timedelta(days=int(rng.integers((LAST - FIRST).days + 1)))
    right = bool(rng.integers(2))
    named = day if right else day + timedelta(days=int(rng.integers(1, 7)))
    text = f"In the Gregorian calendar, is {day.day} {day:%B} {day.year} a {named:%A}?"
    return Question(f"weekday-{i}", f"weekday-{i}", text, "Yes", "No", PROVENANCE, float(right))
