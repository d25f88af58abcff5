"""A strict parser of written answers: an answer follows its format from the first character, or it is no number.

The event is that of the exact read-out (the answer begins with the format's labels and forms and a terminator), with
two differences that only a whole text can have: blanks around a number do not count, and an answer that is given
again with other numbers on a later line is ambiguous.
"""

import re
from dataclasses import dataclass

from ..prompts.options import END
from .formats import NUMERAL, NumberFormat

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

    >>> from .formats import UNIT
    >>> parse_answer("0.30", UNIT).values
    (0.3,)
    >>> [parse_answer(text, UNIT).status for text in ("0.3 or 0.7", "1.2", "about a third")]
    ['ambiguous', 'out_of_range', 'unparsed']
    """
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    first, *later = [_read(text[start:], number_format, ended) for start in starts]
    if first.status != "ok":
        return Parsed((), _failure(text, number_format, first.status, ended))
    again = {said.values for said in later if said.status == "ok"} - {first.values}
    return Parsed((), "ambiguous") if again else first


def _read(text: str, number_format: NumberFormat, ended: bool) -> Parsed:
    """Read an answer from the first character of `text`."""
    values = []
    for label in number_format.labels:
        rest = text.lstrip(" ")
        if not rest.startswith(label.strip(" ")):
            return Parsed((), "unparsed")
        rest = rest[len(label.strip(" ")) :]
        closed = [at for end in number_format.terminators if end != END and (at := rest.find(end)) >= 0]
        written, text = (rest[: min(closed)], rest[min(closed) :]) if closed else (rest, "")
        if not closed and not (ended and END in number_format.terminators):
            return Parsed((), "unparsed" if ended else "truncated")
        number = number_format.spelled.get(written.strip(" "))
        if number is None:
            return Parsed((), "out_of_range" if _beyond(written.strip(" "), number_format) else "unparsed")
        values.append(number.value)
    return Parsed(tuple(values), "ok")


def _beyond(written: str, number_format: NumberFormat) -> bool:
    numeral = NUMERAL.match(written)
    low, high = number_format.scale
    return bool(numeral) and written[numeral.end() :] in number_format.signs and not low <= float(numeral[0]) <= high


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
