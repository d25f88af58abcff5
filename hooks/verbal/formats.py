"""How a number may be written: what the prompt asks for, which numbers it admits, and every text that says each."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from ..errors import UserError
from ..prompts.options import END

NUMERAL = re.compile(r"-?\d*\.?\d+", re.ASCII)
"""Digits of no other script: what counts is what is listed."""


@dataclass(frozen=True)
class WrittenNumber:
    """A number that a format admits."""

    name: str
    value: float
    """The probability that it means, in [0, 1]."""
    forms: tuple[str, ...]
    """Every text that says it."""


@dataclass(frozen=True)
class NumberFormat:
    """One way to ask for a probability of `{yes}` (against `{no}`), or for several.

    An answer follows the format if each label comes with one form of a number and the last is closed by a terminator.
    What comes later is free. No terminator may go on with a number: no digit, point, comma, sign or space.

    Raises UserError for a form of two numbers, fewer than two numbers, a value outside [0, 1], or no label.
    """

    name: str
    instruction: str
    """What the prompt says; `{yes}` and `{no}` are the options."""
    numbers: tuple[WrittenNumber, ...]
    labels: tuple[str, ...] = ("",)
    """What stands before each number. Of several numbers, the last is the probability of `{yes}`."""
    terminators: tuple[str, ...] = (END, "\n")

    def __post_init__(self) -> None:
        if len(self.numbers) < 2 or not self.labels:
            raise UserError(f"format {self.name!r}: give at least two numbers and a label")
        owner: dict[str, WrittenNumber] = {}
        for number in self.numbers:
            if not 0 <= number.value <= 1:
                raise UserError(f"format {self.name!r}: {number.name!r} means {number.value}; give a value in [0, 1]")
            for form in number.forms:
                if owner.setdefault(form, number) is not number:
                    raise UserError(
                        f"format {self.name!r}: {form!r} says {owner[form].name!r} and {number.name!r}; take one away"
                    )

    @cached_property
    def spelled(self) -> dict[str, WrittenNumber]:
        """The number that each form says."""
        return {form: number for number in self.numbers for form in number.forms}

    @cached_property
    def scale(self) -> tuple[float, float]:
        """The smallest and the largest number, as written."""
        written = [float(found[0]) for form in self.spelled if (found := NUMERAL.match(form))]
        return min(written), max(written)

    @cached_property
    def signs(self) -> frozenset[str]:
        """What the forms write after the numeral."""
        return frozenset(NUMERAL.sub("", form, count=1) for form in self.spelled)

    def worded(self, yes: str, no: str) -> "NumberFormat":
        """The format for these options.

        >>> LINES.worded("yes", "no").labels[0]
        'no: '
        """

        def fill(text: str) -> str:
            return text.replace("{yes}", yes).replace("{no}", no)

        return replace(self, instruction=fill(self.instruction), labels=tuple(map(fill, self.labels)))


def _decimals(hundredths: int) -> tuple[str, ...]:
    """Two decimals, or what is left without zeros at the end."""
    full = f"{hundredths / 100:.2f}"
    return tuple(form for form in (full, full[:3], full[:1]) if float(form) == float(full))


def _hundredths(write: Callable[[int], tuple[str, ...]]) -> tuple[WrittenNumber, ...]:
    return tuple(WrittenNumber(write(i)[0], i / 100, write(i)) for i in range(101))


UNIT = NumberFormat(
    "unit",
    'How probable is it that the answer is "{yes}" and not "{no}"? '
    "Reply with one number from 0.00 to 1.00, with two decimals, and nothing else.",
    _hundredths(_decimals),
)
"""`0.30`, `0.3`. Not `.3`, `0.300`, `0,3`, `30%`."""

INTEGER = NumberFormat(
    "integer",
    'On a scale from 0 (certainly "{no}") to 100 (certainly "{yes}"), what is the answer? '
    "Reply with one whole number and nothing else.",
    _hundredths(lambda i: (f"{i}",)),
)
"""`30`. Not `30.0`, `30%`."""

PERCENT = NumberFormat(
    "percent",
    'What chance, from 0% to 100%, do you give to the answer "{yes}" rather than "{no}"? '
    "Reply with one whole percentage and nothing else.",
    _hundredths(lambda i: (f"{i}%",)),
)
"""`30%`. Not `30`: without the sign, `1` might be a certainty."""

JSON = NumberFormat(
    "json",
    'How probable is it that the answer is "{yes}" and not "{no}"? Reply with a JSON object and nothing else: '
    'its one field is "probability", a number from 0 to 1 with at most two decimals.',
    UNIT.numbers,
    labels=('{"probability": ',),
    terminators=("}", " }"),
)
"""`{"probability": 0.30}`. The object must be closed."""

LINES = NumberFormat(
    "lines",
    "Give each answer a number from 0 to 100, its probability in percent. Reply with two lines and nothing else: "
    '"{no}:" and its number, then "{yes}:" and its number.',
    INTEGER.numbers,
    labels=("{no}: ", "\n{yes}: "),
)
"""`No: 70`, and on the next line `Yes: 30`. They need not add up: by how much they do not is a finding."""

UNIT_LINES = NumberFormat(
    "unit lines",
    "Give each answer its probability, a number from 0 to 1 with at most two decimals. Reply with two lines and "
    'nothing else: "{no}:" and its number, then "{yes}:" and its number.',
    UNIT.numbers,
    labels=("{no}: ", "\n{yes}: "),
)
"""`No: 0.70`, and on the next line `Yes: 0.30`, as `lines` in units of one."""


def count_format(n: int = 10) -> NumberFormat:
    """The hybrid of a count: of `n` times, how many? `3`, `3/10` and `3 out of 10` mean 3/n (METRICS D10).

    Raises UserError for n < 1.

    >>> count_format(10).numbers[3].forms, count_format(10).numbers[3].value
    (('3', '3/10', '3 out of 10'), 0.3)
    """
    if n < 1:
        raise UserError(f"of {n} times: give at least one")
    return NumberFormat(
        f"of {n}",
        f'Imagine {n} cases that are all like this one. In how many of them is the answer "{{yes}}", not "{{no}}"? '
        f"Reply with one whole number from 0 to {n} and nothing else.",
        tuple(WrittenNumber(f"{k}", k / n, (f"{k}", f"{k}/{n}", f"{k} out of {n}")) for k in range(n + 1)),
    )


FORMATS = {one.name: one for one in (UNIT, INTEGER, PERCENT, JSON, LINES, UNIT_LINES, count_format())}
