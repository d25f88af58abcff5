"""From a question with options, in one of their orders, to what is asked and what counts as an answer."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field, model_validator

from ....hooks.prompts.chat import Message
from ....hooks.prompts.options import Option, make_options
from ....hooks.settings import Settings, check_placeholders
from .benchmarks import LETTERS
from .choice import OPTIONS, Choice
from .orders import Order


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
    shown = form.between.join(
        form.option.format(option=choice.options[which], letter=LETTERS[place : place + 1])
        for place, which in enumerate(order)
    )
    text = choice.text.replace(OPTIONS, shown)
    whole = not choice.listed or OPTIONS in choice.text
    return {
        "role": "user",
        "content": form.inline.format(question=text) if whole else form.ask.format(question=text, options=shown),
    }


def labels_of(form: ChoiceForm, order: Order) -> Sequence[str] | None:
    """By option, the letter of its place in this order; None if its text says it."""
    return [LETTERS[order.index(i)] for i in range(len(order))] if form.letters else None


def options_of(choice: Choice, form: ChoiceForm, order: Order) -> tuple[Option, ...]:
    """The options, as the question has them, in the forms that say them when they are listed in this order."""
    return make_options(choice.options, form.forms, labels_of(form, order))
