"""From a question, an order and a form of asking to a read-out, afresh or after the model's own answers."""

from collections.abc import Sequence
from typing import Any

from ...hooks.prompts.chat import Message
from ...hooks.prompts.places import LAST, Position
from ..experiment import Item, Question
from ..materials.choices.asking import options_of, user_turn
from ..materials.choices.choice import Choice
from ..materials.choices.orders import Order, orders
from .config import BScoreConfig, Method

SINGLE, MULTI, CONFIDENCE = "single", "multi", "confidence"
"""Scenarios."""


def choice_of(item: Item) -> Choice:
    """The question of an item."""
    content = {**item.content, "options": tuple(item.content["options"]), "target": tuple(item.content["target"])}
    return Choice(**content)


def orders_of(choice: Choice) -> list[Order]:
    """Those in which its options are read; one, if they are not shown."""
    return orders(len(choice.options)) if choice.listed else [tuple(range(len(choice.options)))]


def single_question(config: BScoreConfig, item: Item, name: str, number: int) -> Question:
    """The question afresh, in one of its orders."""
    return turn_question(config, item, name, number, (), f"{item.id}/single-{number}/{name}")


def turn_question(
    config: BScoreConfig,
    item: Item,
    name: str,
    number: int,
    history: Sequence[Message],
    readout_id: str,
    **variant: Any,
) -> Question:
    """A turn of a conversation: the options in the order of that number, after a history."""
    choice, method = choice_of(item), config.methods[name]
    order = orders_of(choice)[number]
    about = {
        "category": choice.category,
        "topic": choice.topic,
        "truth": choice.right,
        **({"target": choice.target} if choice.target else {}),
    }
    positions = {"question": Position(message=-1), "before-answer": Position(at="before_answer"), "answer": LAST}
    positions |= {"own-last-answer": Position(message=-2)} if history else {}
    about |= {} if method.conversations else {"alone": True}
    return Question(
        readout_id=readout_id,
        method=name,
        scenario=MULTI if variant else SINGLE,
        step=variant.get("turn", 0),
        variant={"order": number, **about, **variant},
        conversation=[*history, user_turn(choice, method, order)],
        prefill=method.prefill,
        options=options_of(choice, method, order),
        positions=positions,
        own_turns=True,
    )


def answered(method: Method, question: Question, form: str) -> tuple[Message, Message]:
    """A turn of the conversation as the next one sees it: what was asked, and the answer in the form that was drawn."""
    said: Message = {"role": "assistant", "content": f"{method.prefill}{form}{method.close}"}
    return question.conversation[-1], said


def single_questions(config: BScoreConfig, item: Item) -> list[Question]:
    """The question afresh, in all its orders, under every method that can ask it."""
    choice = choice_of(item)
    return [
        single_question(config, item, name, number)
        for number in range(len(orders_of(choice)))
        for name, method in config.methods.items()
        if method.can_ask(choice)
    ]
