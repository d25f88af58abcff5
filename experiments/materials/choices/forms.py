"""How a question with options is asked: in which orders they are listed, in what form, and what counts as an answer."""

import math
from collections.abc import Sequence
from itertools import permutations
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from ....base.errors import UserError
from ....base.settings import Settings, check_placeholders
from ....hooks.prompts.chat import Message
from ....hooks.prompts.options import Option, make_options
from ....hooks.prompts.places import Position
from ....hooks.store.header import OF_OPTION
from .sources import LETTERS, OPTIONS, Choice

ALL_UP_TO = 4
"""Options of which every order is read; of more, those of a balanced Latin square."""
MOST_ORDERS = 120
"""Of `all`: those of five options."""
Order = tuple[int, ...]
Rotation = Literal["none", "latin", "all"]
"""Which orders a question is read in."""


def orders(k: int) -> list[Order]:
    """The orders of k options, the given one first; each option stands in each place equally often.

    Beyond four options they are the rows of a Williams design, in which each option also follows each other equally
    often: k orders if k is even, 2 k if it is odd.

    >>> orders(2)
    [(0, 1), (1, 0)]
    >>> len(orders(4)), len(orders(5)), len(orders(10))
    (24, 10, 10)
    """
    if k <= ALL_UP_TO:
        return list(permutations(range(k)))
    rows = _williams(k)
    return _renamed([*rows, *(row[::-1] for row in rows)] if k % 2 else rows)


def rotated(k: int, rotation: Rotation) -> list[Order]:
    """The orders of k options by the name of their design, the given one first: that alone, the k rows of a Latin
    square (each option once in each place), or every one.

    Raises UserError for `all` of more than five options.

    >>> rotated(3, "latin")
    [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    """
    if rotation == "none":
        return [tuple(range(k))]
    if rotation == "latin":
        return _renamed(_williams(k))
    if math.factorial(k) > MOST_ORDERS:
        raise UserError(f"orders 'all': {k} options have {math.factorial(k):,} orders; take `latin`, which has {k}")
    return list(permutations(range(k)))


def _williams(k: int) -> list[Order]:
    zigzag = [(i + 1) // 2 if i % 2 else -(i // 2) for i in range(k)]
    return [tuple((place + shift) % k for place in zigzag) for shift in range(k)]


def _renamed(rows: list[Order]) -> list[Order]:
    """The design with the options renamed so that the given order is its first."""
    first = rows[0]
    return [tuple(first.index(option) for option in row) for row in rows]


# From a question with options, in one of their orders, to what is asked and what counts as an answer.


class ChoiceForm(Settings):
    """A form of asking a question with options, and of reading the answer."""

    placeholders: ClassVar[tuple[str, ...]] = ("question", "options")
    """Of `ask`."""
    ask: str
    """`{question}` and `{options}`, the options as `option` writes them with `between` them."""
    inline: str = "{question}"
    """For a question that lists its options itself, or lists none."""
    option: str = "{option}"
    """How one is listed; `{letter}` is that of its place."""
    between: str = ", "
    forms: tuple[str, ...] = Field(min_length=1)
    letters: bool = False
    """Whether the letter of its place, not its text, is what says an option."""
    prefill: str = ""
    """How an answer begins."""

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> "ChoiceForm":
        check_placeholders("ask", self.ask, self.placeholders)
        check_placeholders("inline", self.inline, ("question",))
        check_placeholders("option", self.option, ("option", "letter"))
        if self.letters and "{letter}" not in self.option:
            raise ValueError("letters: write {letter} into `option`, so that the model knows them")
        return self

    def can_ask(self, choice: Choice) -> bool:
        """Whether it can ask the question: letters stand for options that are listed, as many as there are."""
        return not self.letters or (choice.listed and len(choice.options) <= len(LETTERS))


def user_turn(choice: Choice, form: ChoiceForm, order: Order) -> Message:
    """What is asked, with the options in this order."""
    shown = form.between.join(_listed(choice, form, order))
    text = choice.text.replace(OPTIONS, shown)
    whole = not choice.listed or OPTIONS in choice.text
    return {
        "role": "user",
        "content": form.inline.format(question=text) if whole else form.ask.format(question=text, options=shown),
    }


def _listed(choice: Choice, form: ChoiceForm, order: Order) -> list[str]:
    """Each option as it is listed."""
    return [
        form.option.format(option=choice.options[which], letter=LETTERS[place : place + 1])
        for place, which in enumerate(order)
    ]


def option_positions(choice: Choice, form: ChoiceForm, order: Order) -> dict[str, Position]:
    """Option number -> where its own text ends in the turn that lists them; none where none are listed."""
    content = user_turn(choice, form, order)["content"]
    shown = _listed(choice, form, order)
    start, positions = content.find(form.between.join(shown)), {}
    for piece, which in zip(shown, order, strict=True) if start >= 0 else ():
        text = choice.options[which]
        at = start + piece.rfind(text)
        before = sum(content.startswith(text, i) for i in range(at))
        positions[f"{OF_OPTION}-{which}"] = Position(message=-1, text=text, occurrence=before)
        start += len(piece) + len(form.between)
    return positions


def labels_of(form: ChoiceForm, order: Order) -> Sequence[str] | None:
    """By option, the letter of its place in this order; None if its text says it."""
    return [LETTERS[order.index(i)] for i in range(len(order))] if form.letters else None


def options_of(choice: Choice, form: ChoiceForm, order: Order) -> tuple[Option, ...]:
    """The options, as the question has them, in the forms that say them when they are listed in this order."""
    return make_options(choice.options, form.forms, labels_of(form, order))
