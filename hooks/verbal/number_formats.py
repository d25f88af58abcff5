"""How a number may be written (what the prompt asks for, which numbers it admits, every text that says each), and a
strict parser of answers that are written so.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations, product
from typing import Annotated

from pydantic import AfterValidator

from ...base.errors import UserError
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
    each: tuple[float, ...] = ()
    """Of a ranking of several options, the probability of every one; `value` is that of the first."""


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
    """What closes the last number; one before it is closed by the first character of the label that comes next."""
    several: str = ""
    """What the prompt says instead where there are more than two options, `{options}`: about `{option}`, so that each
    has a question of its own, or, with `each`, about all of them in one answer."""
    each: tuple[str, ...] = ()
    """The labels of such an answer: before the first option and before each other one, which is `{option}`."""
    ranked: bool = False
    """Whether the options are ranked: then what is written is a ranking, and `numbers` are those of the options."""

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

    @property
    def n_values(self) -> int:
        """How many probabilities an answer states."""
        return len(self.numbers[0].each) or len(self.labels)

    @cached_property
    def scale(self) -> tuple[float, float]:
        """The smallest and the largest number, as written."""
        written = [float(numeral[0]) for form in self.spelled if (numeral := NUMERAL.match(form))]
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

        numbers = ranking_numbers((yes, no)) if self.ranked else self.numbers
        return replace(self, instruction=fill(self.instruction), labels=tuple(map(fill, self.labels)), numbers=numbers)

    def over(self, options: Sequence[str]) -> tuple["NumberFormat", ...]:
        """The questions for the probabilities of some options: of two, one for that of the first; of more, one for all
        of them, or one for each. Their numbers, one after the other, are those of the options in their order.

        Raises UserError for more than two options where the format has no words for several, and more than it can rank.

        >>> JSON.over(["red", "green", "blue"])[0].labels
        ('{"red": ', ', "green": ', ', "blue": ')
        """
        if len(options) == 2:
            return (self.worded(*options),)
        if not self.several:
            raise UserError(f"format {self.name!r}: asks of two options, and here are {len(options)}")

        def fill(text: str, option: str = "") -> str:
            quoted = json.dumps(option, ensure_ascii=False)
            named = ", ".join(f'"{name}"' for name in options)
            # one pass: an option may hold braces
            words = {"{options}": named, "{option}": option, '"{option}"': quoted}
            return re.sub(r'"\{option\}"|\{options?\}', lambda found: words[found[0]], text)

        if self.ranked:
            return (replace(self, instruction=fill(self.several), numbers=ranking_numbers(options)),)
        if not self.each:
            return tuple(replace(self, instruction=fill(self.several, option)) for option in options)
        first, later = self.each
        labels = [fill(later if i else first, option) for i, option in enumerate(options)]
        return (replace(self, instruction=fill(self.several), labels=tuple(labels)),)

    def closers(self, line: int) -> tuple[str, ...]:
        """What closes the number of that place, from 0."""
        return (self.labels[line + 1][0],) if line + 1 < len(self.labels) else self.terminators

    @cached_property
    def stop(self) -> tuple[str, ...]:
        """Texts that end an answer in the format wherever they stand: the terminators, unless a label has one."""
        ends = tuple(text for text in self.terminators if text != END)
        return () if any(end in label for label in self.labels for end in ends) else ends


def _decimals(hundredths: int) -> tuple[str, ...]:
    """Two decimals, or what is left without zeros at the end."""
    full = f"{hundredths / 100:.2f}"
    return tuple(form for form in (full, full[:3], full[:1]) if float(form) == float(full))


def _hundredths(write: Callable[[int], tuple[str, ...]]) -> tuple[WrittenNumber, ...]:
    return tuple(WrittenNumber(write(i)[0], i / 100, write(i)) for i in range(101))


AMONG = "Exactly one of these is the answer: {options}. "
UNIT = NumberFormat(
    "unit",
    'How probable is it that the answer is "{yes}" and not "{no}"? '
    "Reply with one number from 0.00 to 1.00, with two decimals, and nothing else.",
    _hundredths(_decimals),
    several=AMONG + 'How probable is it that the answer is "{option}"? '
    "Reply with one number from 0.00 to 1.00, with two decimals, and nothing else.",
)
"""`0.30`, `0.3`. Not `.3`, `0.300`, `0,3`, `30%`."""

INTEGER = NumberFormat(
    "integer",
    'On a scale from 0 (certainly "{no}") to 100 (certainly "{yes}"), what is the answer? '
    "Reply with one whole number and nothing else.",
    _hundredths(lambda i: (f"{i}",)),
    several=AMONG + 'On a scale from 0 (certainly not) to 100 (certainly), is it "{option}"? '
    "Reply with one whole number and nothing else.",
)
"""`30`. Not `30.0`, `30%`."""

PERCENT = NumberFormat(
    "percent",
    'What chance, from 0% to 100%, do you give to the answer "{yes}" rather than "{no}"? '
    "Reply with one whole percentage and nothing else.",
    _hundredths(lambda i: (f"{i}%",)),
    several=AMONG + 'What chance, from 0% to 100%, do you give to the answer "{option}"? '
    "Reply with one whole percentage and nothing else.",
)
"""`30%`. Not `30`: without the sign, `1` might be a certainty."""

JSON = NumberFormat(
    "json",
    'How probable is it that the answer is "{yes}" and not "{no}"? Reply with a JSON object and nothing else: '
    'its one field is "probability", a number from 0 to 1 with at most two decimals.',
    UNIT.numbers,
    labels=('{"probability": ',),
    terminators=("}", " }"),
    several=AMONG + "How probable is each? Reply with a JSON object and nothing else: its fields are these options, in "
    "this order, and each value is a number from 0 to 1 with at most two decimals.",
    each=('{"{option}": ', ', "{option}": '),
)
"""`{"probability": 0.30}`; of several options `{"red": 0.50, "green": 0.50, "blue": 0.20}`. It must be closed."""

LINES = NumberFormat(
    "lines",
    "Give each answer a number from 0 to 100, its probability in percent. Reply with two lines and nothing else: "
    '"{no}:" and its number, then "{yes}:" and its number.',
    INTEGER.numbers,
    labels=("{no}: ", "\n{yes}: "),
    several=AMONG
    + "Give each a number from 0 to 100, its probability in percent. Reply with one line for each, in this "
    "order, and nothing else: the option, a colon and its number.",
    each=("{option}: ", "\n{option}: "),
)
"""`No: 70`, and on the next line `Yes: 30`. They need not add up: by how much they do not is a finding."""

UNIT_LINES = replace(
    LINES,
    name="unit lines",
    instruction="Give each answer its probability, a number from 0 to 1 with at most two decimals. Reply with two "
    'lines and nothing else: "{no}:" and its number, then "{yes}:" and its number.',
    numbers=UNIT.numbers,
    several=AMONG
    + "Give each its probability, a number from 0 to 1 with at most two decimals. Reply with one line for "
    "each, in this order, and nothing else: the option, a colon and its number.",
)
"""`No: 0.70`, and on the next line `Yes: 0.30`, as `lines` in units of one."""


POINTS = NumberFormat(
    "points",
    'Whoever answers "{yes}" gets 100 points if that is right, and nothing if "{no}" is. What is the expected value of '
    'answering "{yes}", in points? Reply with one whole number from 0 to 100 and nothing else.',
    INTEGER.numbers,
    several=AMONG + 'Whoever answers "{option}" gets 100 points if that is right, and nothing otherwise. What is the '
    'expected value of answering "{option}", in points? Reply with one whole number from 0 to 100 and nothing else.',
)
"""The expected value of an action, which is its probability of being right: `30`. Not `30 points`."""


def line_format(name: str, text: str, labels: Sequence[str], **words: str) -> NumberFormat:
    """A line for each label, with a number of `unit`: `text` is the instruction, in which `{n}` is how many there are
    and `{listed}` what begins them, and `words` are filled in.
    """
    instruction = text.format(n=len(labels), listed=", ".join(f'"{label}:"' for label in labels), **words)
    marks = tuple(f"{chr(10) if i else ''}{label}: " for i, label in enumerate(labels))
    return replace(UNIT, name=name, instruction=instruction, labels=marks)


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
        several=f'{AMONG}Imagine {n} cases that are all like this one. In how many of them is it "{{option}}"? '
        f"Reply with one whole number from 0 to {n} and nothing else.",
    )


MOST_RANKED = 4
"""Options: the rankings of five, with ties, have 1,920 texts."""


def ranking_numbers(options: Sequence[str]) -> tuple[WrittenNumber, ...]:
    """Every ranking of the options, with ties, whose members stand in any order, and the probabilities that it means:
    the mean of all distributions that keep it, as likely as each other. The j-th of k has (1/j + ... + 1/k) / k; those
    that tie share theirs (rank-order centroids, Barron and Barrett 1996).

    Raises UserError for more than four.

    >>> [(number.name, number.value) for number in ranking_numbers(("red", "blue"))]
    [('red = blue', 0.5), ('red > blue', 0.75), ('blue > red', 0.25)]
    """
    k = len(options)
    if k > MOST_RANKED:
        raise UserError(f"format 'ranking': ranks at most {MOST_RANKED} options, and here are {k}; take another format")
    centroid = [sum(1 / j for j in range(place, k + 1)) / k for place in range(1, k + 1)]
    rankings = []
    for ranks in product(range(k), repeat=k):
        if {*ranks} != {*range(max(ranks) + 1)}:
            continue
        tied = [[i for i in range(k) if ranks[i] == rank] for rank in range(max(ranks) + 1)]
        written = [[" = ".join(options[i] for i in order) for order in permutations(group)] for group in tied]
        forms = tuple(" > ".join(groups) for groups in product(*written))
        before = [sum(rank < ranks[i] for rank in ranks) for i in range(k)]
        shares = [centroid[start : start + ranks.count(rank)] for start, rank in zip(before, ranks, strict=True)]
        each = tuple(sum(share) / len(share) for share in shares)
        rankings.append(WrittenNumber(forms[0], each[0], forms, each if k > 2 else ()))
    return tuple(rankings)


RANKING = NumberFormat(
    "ranking",
    'Which is likelier to be the answer, "{yes}" or "{no}"? Reply with one of these lines and nothing else: '
    '"{yes} > {no}", "{no} > {yes}", or, if they are as likely as each other, "{yes} = {no}".',
    ranking_numbers(("{yes}", "{no}")),
    several=AMONG
    + "Rank all of them, the likeliest first. Reply with one line and nothing else: the options as they are "
    'written here, with " > " between two of which the first is likelier, and " = " between two that are as likely as '
    "each other.",
    ranked=True,
)
"""`red > blue = green`: who ranks has said an order, and no distance."""
_EVERY = (UNIT, INTEGER, PERCENT, JSON, LINES, UNIT_LINES, POINTS, count_format(), RANKING)
FORMATS = {form.name: form for form in _EVERY}


def _known(name: str) -> str:
    if name not in FORMATS:
        raise ValueError(f"format {name!r} is not one of {', '.join(FORMATS)}")
    return name


FormatName = Annotated[str, AfterValidator(_known)]
"""In settings, the name of a format."""


# A strict parser of written answers: an answer follows its format from the first character, or it is no number.
#
# The event is that of the exact read-out (the answer begins with the format's labels and forms and a terminator), with
# two differences that only a whole text can have: blanks around a number do not count, and an answer that is given
# again with other numbers on a later line is ambiguous.

REFUSAL = re.compile(
    r"\b(can(no|')t|could ?n[o']t|unable to|not able to|won't|will not|refuse|decline|sorry|apologi[sz]e"
    r"|as an ai|(as|i am|i'm) an? (ai|artificial|language model)|don't have (an|any|personal) (opinion|belief)s?)\b",
    re.IGNORECASE,
)
"""English alone; a refusal in another language is `unparsed`."""


@dataclass(frozen=True)
class Parsed:
    """The numbers in an answer, or why it has none."""

    values: tuple[float, ...]
    """Probabilities, one for each number of the format; empty unless the status is `ok`. The last is the belief."""
    status: str
    """`ok`; `refused`; `truncated`: cut off before it said a number; `ambiguous`: several admitted numbers;
    `out_of_range`: a number beyond the scale; `unparsed`: anything else."""


def parse_answer(text: str, number_format: NumberFormat, *, ended: bool = True) -> Parsed:
    """Read an answer.

    Nothing is repaired: fractions, words, exponents, decimal commas, digits of other scripts, numbers finer than the
    format and sentences around a number are `unparsed`.

    Args:
        text: the assistant's turn, with its prefill.
        number_format: the format that the question asked for.
        ended: whether the turn ended by itself, or by a stop text that is part of `text`.

    >>> parse_answer("0.30", UNIT).values
    (0.3,)
    >>> [parse_answer(text, UNIT).status for text in ("0.3 or 0.7", "1.2", "about a third")]
    ['ambiguous', 'out_of_range', 'unparsed']
    """
    starts = [0, *(newline.end() for newline in re.finditer("\n", text))]
    first, *later = [_read(text[start:], number_format, ended) for start in starts]
    if first.status != "ok":
        return Parsed((), _failure(text, number_format, first.status, ended))
    again = {answer.values for answer in later if answer.status == "ok"} - {first.values}
    return Parsed((), "ambiguous") if again else first


def _read(text: str, number_format: NumberFormat, ended: bool) -> Parsed:
    """Read an answer from the first character of `text`."""
    values = []
    for line, label in enumerate(number_format.labels):
        ends = number_format.closers(line)
        rest = text.lstrip(" ")
        if not rest.startswith(label.strip(" ")):
            return Parsed((), "unparsed")
        rest = rest[len(label.strip(" ")) :]
        closed = [at for end in ends if end != END and (at := rest.find(end)) >= 0]
        written, text = (rest[: min(closed)], rest[min(closed) :]) if closed else (rest, "")
        if not closed and not (ended and END in ends):
            return Parsed((), "unparsed" if ended else "truncated")
        number = number_format.spelled.get(written.strip(" "))
        if number is None:
            return Parsed((), "out_of_range" if _beyond(written.strip(" "), number_format) else "unparsed")
        values += number.each or (number.value,)
    return Parsed(tuple(values), "ok")


def _beyond(written: str, number_format: NumberFormat) -> bool:
    numeral = NUMERAL.match(written)
    if number_format.ranked or numeral is None:
        return False
    low, high = number_format.scale
    return written[numeral.end() :] in number_format.signs and not low <= float(numeral[0]) <= high


def _failure(text: str, number_format: NumberFormat, status: str, ended: bool) -> str:
    """Why an answer is no number."""
    if REFUSAL.search(text.replace("\u2019", "'")):
        return "refused"
    if not ended:
        return "truncated"
    if status == "out_of_range":
        return status
    named = {
        number_format.spelled[form].value
        for form in re.findall(r"\d*\.?\d+%?", text, re.ASCII)
        if form in number_format.spelled
    }
    return "ambiguous" if len(named) > 1 else "unparsed"
