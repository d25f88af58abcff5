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
    label = label_text(cell)
    if not label:
        return None
    readings: dict[Way, int] = {}
    if label in places:
        readings[TEXT] = places.index(label)
    elif len(same := [i for i, place in enumerate(places) if place.casefold() == label.casefold()]) == 1:
        readings[TEXT] = same[0]
    if label in labels:
        readings[LABEL] = labels.index(label)
    elif len(label) == 1 and label.upper() in LETTERS[: len(places)]:
        readings[LETTER] = LETTERS.index(label.upper())
    number = label.isdecimal() and not isinstance(cell, bool)
    beside_words = number and is_whole(cell) and words and label not in labels
    if number and (beside_words or first is not None) and 0 <= (place := int(label) - (first or 0)) < len(places):
        readings[PLACE] = place
    if not readings and number and not beside_words and first is None:
        raise UserError(
            f"truth {label!r}: is no option; if it is a place, say what the first has: `columns.first`, 0 or 1"
        )
    if not readings:
        raise UserError(f"truth {label!r} is no option; {nearest(label, filter(None, places))}")
    return ToldTruth(label, places, readings)


def ways_of(truths: Iterable[ToldTruth | None]) -> frozenset[Way]:
    """The ways in which every truth of a table can be read, since one row alone does not say what is meant."""
    every = [frozenset(truth.readings) for truth in truths if truth]
    return frozenset.intersection(*every) if every else frozenset()


def true_option(truth: ToldTruth, ways: frozenset[Way], chosen: Way | None = None, advice: str = "") -> int:
    """The index of the option that is meant, among its places.

    Args:
        ways: in which every truth of the file can be read (`ways_of`).
        chosen: the way that is taken where several are left.
        advice: what a user can do where it stays open.

    Raises UserError where it stays open, and for a place that is empty.
    """
    readings = {way: at for way, at in truth.readings.items() if way in ways} or truth.readings
    at = readings[chosen] if chosen is not None and chosen in readings else next(iter(readings.values()))
    if chosen not in readings and len({*readings.values()}) > 1:
        both = ", and ".join(f"the {way} of {truth.places[i] or 'nothing'!r}" for way, i in readings.items())
        raise UserError(f"truth {truth.said!r} is {both}, and no row of the file says which is meant; {advice}")
    if not truth.places[at]:
        raise UserError(f"truth {truth.said!r}: the option at that place is empty")
    return at
