"""Which option a cell says is true: by its text, its label, its letter, or the number of its place.

One rule for questions that are asked and for logs of other tools: what may be meant is decided over the whole file, and
refused where it stays open.
"""

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...base.errors import UserError, nearest
from .cells import is_whole, label_text

Way = Literal["text", "label", "letter", "place"]
TEXT: Way = "text"
LABEL: Way = "label"
LETTER: Way = "letter"
PLACE: Way = "place"
LETTERS = string.ascii_uppercase


@dataclass(frozen=True)
class ToldTruth:
    """A truth as a cell has it, and the options that it may mean."""

    said: str
    places: Sequence[str]
    """The options; one that is empty keeps its place."""
    readings: Mapping[Way, int]
    """Way of reading it -> index among the places."""


def told_truth(
    cell: Any, places: Sequence[str], labels: Sequence[str], words: bool, first: int | None
) -> ToldTruth | None:
    """All that a cell may mean; None if it is empty. `words`: the options were given as texts, so that a number beside
    them may be a place; `first`: the number of the first place, where that is said.

    Raises UserError for what is no option in any way.
    """
    said = label_text(cell)
    if not said:
        return None
    readings: dict[Way, int] = {}
    if said in places:
        readings[TEXT] = places.index(said)
    elif len(same := [i for i, place in enumerate(places) if place.casefold() == said.casefold()]) == 1:
        readings[TEXT] = same[0]
    if said in labels:
        readings[LABEL] = labels.index(said)
    elif len(said) == 1 and said.upper() in LETTERS[: len(places)]:
        readings[LETTER] = LETTERS.index(said.upper())
    number = said.isdecimal() and not isinstance(cell, bool)
    beside_words = number and is_whole(cell) and words and said not in labels
    if number and (beside_words or first is not None) and 0 <= (place := int(said) - (first or 0)) < len(places):
        readings[PLACE] = place
    if not readings and number and not beside_words and first is None:
        raise UserError(
            f"truth {said!r}: is no option; if it is a place, say what the first has: `columns.first`, 0 or 1"
        )
    if not readings:
        raise UserError(f"truth {said!r} is no option; {nearest(said, filter(None, places))}")
    return ToldTruth(said, places, readings)


def ways_of(told: Iterable[ToldTruth | None]) -> frozenset[Way]:
    """The ways in which every truth of a table can be read: where options are numbers, or letters, one row alone does
    not say what is meant.
    """
    every = [frozenset(one.readings) for one in told if one]
    return frozenset.intersection(*every) if every else frozenset()


def true_option(told: ToldTruth, ways: frozenset[Way], chosen: Way | None = None, advice: str = "") -> int:
    """The index of the option that is meant, among its places.

    Args:
        told: the truth of a row.
        ways: in which every truth of the file can be read (`ways_of`).
        chosen: the way that is taken where several are left.
        advice: what a user can do where it stays open.

    Raises UserError where it stays open, and for a place that is empty.
    """
    readings = {way: at for way, at in told.readings.items() if way in ways} or told.readings
    at = readings[chosen] if chosen is not None and chosen in readings else next(iter(readings.values()))
    if chosen not in readings and len({*readings.values()}) > 1:
        both = ", and ".join(f"the {way} of {told.places[i] or 'nothing'!r}" for way, i in readings.items())
        raise UserError(f"truth {told.said!r} is {both}, and no row of the file says which is meant; {advice}")
    if not told.places[at]:
        raise UserError(f"truth {told.said!r}: the option at that place is empty")
    return at
