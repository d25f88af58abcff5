"""Which option a cell says is true: by its text, its label, its letter, or the number of its place."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....hooks.errors import UserError, nearest
from ...tables.cells import is_whole, label_text
from .benchmarks import LETTERS

TEXT, LABEL, LETTER, PLACE = "text", "label", "letter", "place"


@dataclass(frozen=True)
class ToldTruth:
    """A truth as a cell has it, and the options that it may mean."""

    said: str
    places: Sequence[str]
    """The options; one that is empty keeps its place."""
    readings: Mapping[str, int]
    """Way of reading it -> index among the places."""

    @property
    def exact(self) -> bool:
        """Whether it is an option letter by letter."""
        return self.said in self.places


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
    readings: dict[str, int] = {}
    if said in places:
        readings[TEXT] = places.index(said)
    elif len(same := [i for i, one in enumerate(places) if one.casefold() == said.casefold()]) == 1:
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


def ways_of(told: Iterable[ToldTruth | None]) -> frozenset[str]:
    """The ways in which every truth of a table can be read: where options are numbers, or letters, one row alone does
    not say what is meant.
    """
    every = [frozenset(one.readings) for one in told if one]
    return frozenset.intersection(*every) if every else frozenset()


def true_option(told: ToldTruth, ways: frozenset[str], first: int | None) -> str:
    """The option that is meant, in the ways in which the whole table can be read. The text of an option goes before a
    letter, and a place before both where the settings say what the first has.

    Raises UserError where it stays open, and for a place that is empty.
    """
    readings = {way: at for way, at in told.readings.items() if way in ways} or told.readings
    at = next(iter(readings.values()))
    if len({*readings.values()}) > 1:
        if first is not None and PLACE in readings:
            at = readings[PLACE]
        elif not (told.exact and readings.keys() == {TEXT, LETTER}):
            told_apart = ", and ".join(f"the {way} of {told.places[i] or 'nothing'!r}" for way, i in readings.items())
            raise UserError(
                f"truth {told.said!r} is {told_apart}; say `columns.first`, 0 or 1, where truths are the numbers of "
                "places, or give texts as text"
            )
    if not told.places[at]:
        raise UserError(f"truth {told.said!r}: the option at that place is empty")
    return told.places[at]
