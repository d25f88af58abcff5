"""A truth set that a program makes: facts that code computes, their negations, and comparisons.

The design is that of the geometry of truth (Marks and Tegmark 2024, arXiv 2310.06824): each fact is stated and negated,
truly and falsely, so that neither the word `not` nor any other word tells what is true. Everything is computed, so that
the labels are right and nothing need be fetched.
"""

from collections.abc import Callable, Iterator
from datetime import date, timedelta

import numpy as np

from ...hooks.errors import UserError
from .statement import Statement

DOMAINS = ("larger", "sums", "parity", "alphabet", "length", "months")
MOST = 1200
"""Facts: the alphabet has 325 pairs of letters."""
MONTHS = [date(2001, month, 1).strftime("%B") for month in range(1, 13)]
NOUNS = """
apple bottle candle desert engine forest garden hammer island jacket kitchen ladder mirror needle
orange pencil quilt ribbon saddle ticket umbrella village window yellow zebra anchor bridge castle
dragon eagle feather guitar harbor insect jungle kettle lemon market napkin oyster parrot quarter
rocket summit tunnel urchin valley walnut
"""
WORDS = NOUNS.split()

Fact = Callable[[np.random.Generator], tuple[str, str, str]]
"""A true and a false statement of one form, with `{}` where `is` or `is not` stands, and what they are about."""


def computed_statements(n_groups: int, seed: int = 0) -> list[Statement]:
    """Four statements for each of `n_groups` facts, domains in turn; more groups begin with the same ones.

    A fact is stated truly or falsely, by a coin, together with its negation, in two templates.

    Raises UserError for more facts than there are.
    """
    if not 1 <= n_groups <= MOST:
        raise UserError(f"truth set: {n_groups} computed facts; give 1 to {MOST}")
    found: list[Statement] = []
    seen: set[str] = set()
    attempt = 0
    for i in range(n_groups):
        domain = DOMAINS[i % len(DOMAINS)]
        while True:
            rng = np.random.default_rng([seed, attempt])
            attempt += 1
            true, false, about = FACTS[domain](rng)
            if f"{domain} {about}" not in seen:
                break
        seen.add(f"{domain} {about}")
        found += _stated(f"{domain}-{i}", domain, true, false, truly=bool(rng.integers(2)))
    return found


def _stated(group: str, domain: str, true: str, false: str, *, truly: bool) -> Iterator[Statement]:
    """The fact and its negation, in both templates: within a fact the label turns with the polarity."""
    text = true if truly else false
    for template, frame in (("plain", "{}."), ("said", "It is the case that {}.")):
        for negated in (False, True):
            said = text.format(_NOT if negated else _IS)
            said = frame.format(said)
            yield Statement(
                text=said[0].upper() + said[1:],
                true=truly != negated,
                group=group,
                domain=domain,
                negated=negated,
                template=template,
                pair=f"{group}/{template}",
            )


_IS, _NOT = "is", "is not"


def _larger(rng: np.random.Generator) -> tuple[str, str, str]:
    a, b = sorted(int(x) for x in rng.choice(np.arange(2, 100), size=2, replace=False))
    return (
        f"the number {b} {{}} larger than the number {a}",
        f"the number {a} {{}} larger than the number {b}",
        f"{a},{b}",
    )


def _sums(rng: np.random.Generator) -> tuple[str, str, str]:
    a, b = (int(x) for x in rng.integers(2, 50, size=2))
    off = int(rng.integers(1, 10)) * int(rng.choice([-1, 1]))
    wrong = a + b + (off if a + b + off > 0 else -off)
    return f"{a} plus {b} {{}} equal to {a + b}", f"{a} plus {b} {{}} equal to {wrong}", f"{a},{b}"


def _parity(rng: np.random.Generator) -> tuple[str, str, str]:
    a = int(rng.integers(2, 1000))
    names = ("even", "odd")
    return f"the number {a} {{}} {names[a % 2]}", f"the number {a} {{}} {names[1 - a % 2]}", f"{a}"


def _alphabet(rng: np.random.Generator) -> tuple[str, str, str]:
    a, b = sorted(int(x) for x in rng.choice(26, size=2, replace=False))
    first, second = chr(65 + a), chr(65 + b)
    return (
        f"the letter {first} {{}} before the letter {second} in the alphabet",
        f"the letter {second} {{}} before the letter {first} in the alphabet",
        f"{a},{b}",
    )


def _length(rng: np.random.Generator) -> tuple[str, str, str]:
    while True:
        one, other = (WORDS[int(i)] for i in rng.choice(len(WORDS), size=2, replace=False))
        if len(one) != len(other):
            break
    long, short = (one, other) if len(one) > len(other) else (other, one)
    text = 'the word "{}" {{}} longer than the word "{}"'
    return text.format(long, short), text.format(short, long), f"{long},{short}"


def _months(rng: np.random.Generator) -> tuple[str, str, str]:
    day = date(2001, 1, 1) + timedelta(days=int(rng.integers(365)))
    later = int(rng.integers(20, 300))
    end = day + timedelta(days=later)
    if end.day == 1:  # in a leap year this might still be the month before
        later, end = later + 1, end + timedelta(days=1)
    wrong = MONTHS[(end.month - 1 + int(rng.integers(1, 12))) % 12]
    text = f"the day that comes {later} days after {day.day} {MONTHS[day.month - 1]} {{}} in "
    return text + MONTHS[end.month - 1], text + wrong, f"{day:%j},{later}"


FACTS: dict[str, Fact] = {
    "larger": _larger,
    "sums": _sums,
    "parity": _parity,
    "alphabet": _alphabet,
    "length": _length,
    "months": _months,
}
