"""What a written answer says, strictly: it follows its format from the first character, or it is no number.

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
    """What an answer says."""

    values: tuple[float, ...]
    """Probabilities, one for each number of the format; empty unless the status is `ok`. The last is the belief."""
    status: str
    """`ok`; `refused`; `truncated`: cut off before it said a number; `ambiguous`: several admitted numbers;
    `out_of_range`: a number beyond the scale; `unparsed`: anything else."""


def parse_answer(text: str, told: NumberFormat, *, ended: bool = True) -> Parsed:
    """Read an answer.

    Nothing is repaired: fractions, words, exponents, decimal commas, digits of other scripts, numbers finer than the
    format and sentences around a number are `unparsed`.

    Args:
        text: the assistant's turn, with what was put into its mouth.
        told: the format that was asked for.
        ended: whether the turn ended by itself, or by a stop text that is part of `text`.

    >>> from .formats import UNIT
    >>> parse_answer("0.30", UNIT).values
    (0.3,)
    >>> [parse_answer(text, UNIT).status for text in ("0.3 or 0.7", "1.2", "about a third")]
    ['ambiguous', 'out_of_range', 'unparsed']
    """
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    first, *later = [_read(text[start:], told, ended) for start in starts]
    if first.status != "ok":
        return Parsed((), _failure(text, told, first.status, ended))
    again = {said.values for said in later if said.status == "ok"} - {first.values}
    return Parsed((), "ambiguous") if again else first


def _read(text: str, told: NumberFormat, ended: bool) -> Parsed:
    """An answer that begins here."""
    values = []
    for label in told.labels:
        rest = text.lstrip(" ")
        if not rest.startswith(label.strip(" ")):
            return Parsed((), "unparsed")
        rest = rest[len(label.strip(" ")) :]
        closed = [at for end in told.terminators if end != END and (at := rest.find(end)) >= 0]
        written, text = (rest[: min(closed)], rest[min(closed) :]) if closed else (rest, "")
        if not closed and not (ended and END in told.terminators):
            return Parsed((), "unparsed" if ended else "truncated")
        number = told.spelled.get(written.strip(" "))
        if number is None:
            return Parsed((), "out_of_range" if _beyond(written.strip(" "), told) else "unparsed")
        values.append(number.value)
    return Parsed(tuple(values), "ok")


def _beyond(written: str, told: NumberFormat) -> bool:
    numeral = NUMERAL.match(written)
    low, high = told.scale
    return bool(numeral) and written[numeral.end() :] in told.signs and not low <= float(numeral[0]) <= high


def _failure(text: str, told: NumberFormat, status: str, ended: bool) -> str:
    """Why an answer is no number."""
    if REFUSAL.search(text.replace("\u2019", "'")):
        return "refused"
    if not ended:
        return "truncated"
    if status == "out_of_range":
        return status
    named = {told.spelled[form].value for form in re.findall(r"\d*\.?\d+%?", text, re.ASCII) if form in told.spelled}
    return "ambiguous" if len(named) > 1 else "unparsed"
