"""Questions whose outcome a program computes: products, the larger of two numbers, weekdays. Each is true with
probability 1/2, and more of them begin with the same ones.
"""

from collections.abc import Callable
from datetime import date, timedelta

import numpy as np

from .question import BinaryQuestion

FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)


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
    day = FIRST + timedelta(days=int(rng.integers((LAST - FIRST).days + 1)))
    right = bool(rng.integers(2))
    named = day if right else day + timedelta(days=int(rng.integers(1, 7)))
    name, text = f"weekday-{i}", f"In the Gregorian calendar, is {day.day} {day:%B} {day.year} a {named:%A}?"
    return BinaryQuestion(name, name, text, "Yes", "No", "computed: the Gregorian calendar", float(right))
