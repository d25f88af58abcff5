"""From an item to its read-outs: the question in each order of its options, under each method."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ...hooks.errors import UserError
from ...hooks.prompts.chat import Message
from ...hooks.prompts.options import Option, make_options
from ...hooks.prompts.places import LAST, Position
from ..experiment import Item, Question
from ..materials.choices.asked import AskedChoice
from ..materials.choices.asking import labels_of, options_of, user_turn
from ..materials.choices.choice import Choice, alike
from ..materials.choices.orders import Order, rotated
from .config import AskConfig, AskForm

CHOICE, PROPOSED = "choice", "proposed"
"""Scenarios: one of the options is asked for; whether one of them is right is."""
ENDINGS = ".,!?;:"
"""What an answer need not say at its end: it is what closes it."""


def item_of(one: AskedChoice) -> Item:
    """A question as an item."""
    return Item(one.choice.id, one.choice.cluster, asdict(one))


def asked_of(item: Item) -> AskedChoice:
    """The question of an item."""
    held = item.content
    examples = tuple(_choice(one) for one in held["examples"])
    return AskedChoice(_choice(held["choice"]), held["system"], examples, held["more"])


def _choice(held: dict[str, Any]) -> Choice:
    return Choice(**{**held, "options": tuple(held["options"]), "target": tuple(held["target"])})


def questions(config: AskConfig, item: Item) -> list[Question]:
    """All read-outs of an item."""
    return [one for name in config.answers for one in method_questions(config, item, name)]


def method_questions(config: AskConfig, item: Item, name: str) -> list[Question]:
    """Those under one method; none, if it cannot ask the question: letters stand for options that are listed."""
    one, form = asked_of(item), config.methods[name]
    if not form.can_ask(one.choice):
        return []
    return [*(_proposed if form.yes_no else _chosen)(config, item.id, one, name, form)]


def _chosen(config: AskConfig, item: str, one: AskedChoice, name: str, form: AskForm) -> Iterator[Question]:
    """Which option, in each order."""
    choice = one.choice
    given: Order = tuple(range(len(choice.options)))
    try:
        design = rotated(len(given), config.orders) if choice.listed else [given]
    except UserError as error:
        raise UserError(f"question {item}: {error}") from None
    shots = [turn for shot in one.examples for turn in _solved(shot, form)]
    for number, order in enumerate(design):
        yield Question(
            readout_id=f"{item}/{name}/order-{number}",
            method=name,
            scenario=CHOICE,
            conversation=_conversation(config, one, [*shots, user_turn(choice, form, order)]),
            prefill=form.prefill,
            options=spoken_options(choice, form, order),
            variant={"order": list(order), **about(one)},
            positions=_positions(),
            own_turns=True,
        )


def spoken_options(choice: Choice, form: AskForm, order: Order) -> tuple[Option, ...]:
    """The options in the forms that say them. An option that ends a sentence is said without its full stop."""
    plain = [text.rstrip(ENDINGS) or text for text in choice.options]
    if form.letters or plain == list(choice.options):
        return options_of(choice, form, order)
    if same := alike(plain):
        own = [one for one, said in zip(choice.options, plain, strict=True) if said in same]
        raise UserError(f"options {own[0]!r} and {own[1]!r} are the same but for what closes them; change one")
    return make_options(choice.options, form.forms, labels_of(form, order) or plain)


def _proposed(config: AskConfig, item: str, one: AskedChoice, name: str, form: AskForm) -> Iterator[Question]:
    """Of each option, whether it is right."""
    assert form.yes_no is not None
    # Of solved questions the true option is proposed, then another one, in turn: yes is no habit.
    shots = [
        turn
        for number, shot in enumerate(one.examples)
        for turn in _judged(shot, form, right=number % 2 == 0, yes_no=form.yes_no)
    ]
    for place, option in enumerate(one.choice.options):
        yield Question(
            readout_id=f"{item}/{name}/option-{place}",
            method=name,
            scenario=PROPOSED,
            conversation=_conversation(config, one, [*shots, _proposal(one.choice, form, option)]),
            prefill=form.prefill,
            options=make_options(form.yes_no, form.forms),
            variant={"proposed": place, **about(one)},
            positions=_positions(),
            own_turns=True,
        )


def about(one: AskedChoice) -> dict[str, Any]:
    """What every read-out of a question says of it."""
    return {"options": list(one.choice.options), "truth": one.choice.right, "topic": one.choice.topic, "more": one.more}


def _positions() -> dict[str, Position]:
    return {"question": Position(message=-1), "before-answer": Position(at="before_answer"), "answer": LAST}


def _conversation(config: AskConfig, one: AskedChoice, turns: Sequence[Message]) -> list[Message]:
    system = one.system or config.system
    return [*([Message(role="system", content=system)] if system else []), *turns]


def _solved(shot: Choice, form: AskForm) -> list[Message]:
    """A solved question and its answer, in the first form that says it."""
    assert shot.right is not None
    order = tuple(range(len(shot.options)))
    said = spoken_options(shot, form, order)[shot.right].forms[0]
    return [user_turn(shot, form, order), {"role": "assistant", "content": f"{form.prefill}{said}"}]


def _proposal(choice: Choice, form: AskForm, option: str) -> Message:
    shown = form.between.join(choice.options)
    return {"role": "user", "content": form.ask.format(question=choice.text, options=shown, option=option)}


def _judged(shot: Choice, form: AskForm, *, right: bool, yes_no: tuple[str, str]) -> list[Message]:
    assert shot.right is not None
    place = shot.right if right else (shot.right + 1) % len(shot.options)
    said = make_options(yes_no, form.forms)[0 if right else 1].forms[0]
    return [_proposal(shot, form, shot.options[place]), {"role": "assistant", "content": f"{form.prefill}{said}"}]
