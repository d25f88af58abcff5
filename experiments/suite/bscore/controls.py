"""Histories of equal length in which nothing of what the model said is heard, or its last answer alone."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ....hooks.generation.sampling import random_generator
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Message
from ....hooks.tree.memory import Cost
from ...materials.choices.forms import Order, options_of, user_turn
from ...materials.choices.sources import Choice
from ...run.experiment import Item, Question
from ...run.readouts import read_packed_questions
from .config import BScoreConfig, Method
from .turns import CONTROL, choice_of, hold, orders_of, single_question, turn_orders, turn_question

OTHER, SHUFFLED, BALANCED = CONTROLS = ("other", "shuffled", "balanced")
"""Control histories: of another question, with the answers of a question of the same options, and with the last answer
as it was and those before it balanced."""
ALIKE = "alike"
"""Beside an item: the question whose options are the same."""


def alike(item: Item) -> Item | None:
    """The question of the same options whose conversations are a control, as an item of its own."""
    known = item.beside.get(ALIKE)
    return Item(known["id"], item.cluster, known["content"]) if known else None


def control_histories(
    config: BScoreConfig, item: Item, answers: Sequence[Sequence[int]], others: Sequence[Sequence[int]] = ()
) -> Iterator[tuple[int, int, str, list[int]]]:
    """Run, turn from 2 on, control, and the past answers as options: of the other question those of that question.

    Args:
        config: of the run.
        item: the question.
        answers: [R, N] the options that were drawn.
        others: [R, N] those of the question of the same options, as options of this one; empty: there is none.
    """
    choice = choice_of(item)
    if config.controls is None or choice.target:
        return
    k = len(choice.options)
    for run, drawn in enumerate(answers):
        rng = random_generator(config.seed, f"{item.id}/{CONTROL}", run)
        even = np.concatenate([rng.permutation(k) for _ in range(config.turns)]).tolist()
        elsewhere = rng.integers(len(config.controls.options), size=config.turns).tolist()
        for turn in range(2, config.turns + 1):
            yield run, turn, OTHER, elsewhere[: turn - 1]
            if others:
                yield run, turn, SHUFFLED, list(others[run][: turn - 1])
            yield run, turn, BALANCED, [*even[: turn - 2], drawn[turn - 2]]


def control_questions(
    config: BScoreConfig, item: Item, name: str, answers: Sequence[Sequence[int]], others: Sequence[Sequence[int]] = ()
) -> list[Question]:
    """Every turn but the first of every conversation once more, after each control history (arguments:
    `control_histories`).
    """
    choice, method, found = choice_of(item), config.methods[name], []
    for run, turn, control, said in control_histories(config, item, answers, others):
        about, orders = choice, [orders_of(choice)[number] for number in turn_orders(config, item, run)]
        if control == OTHER and config.controls is not None:
            about = replace(
                choice, text=config.controls.question, options=config.controls.options, truth="", listed=True
            )
            orders = [tuple(range(len(about.options)))] * config.turns
        history = [m for answer, order in zip(said, orders, strict=False) for m in _said(method, about, answer, order)]
        seen = history if config.keep_turns is None else history[-2 * config.keep_turns :]
        readout = f"{item.id}/run-{run}/turn-{turn}/{name}/{control}"
        number = turn_orders(config, item, run)[turn - 1]
        asked = turn_question(config, item, name, number, seen, readout, run=run, turn=turn, control=control)
        found.append(replace(asked, scenario=CONTROL))
    return found


def _said(method: Method, choice: Choice, answer: int, order: Order) -> tuple[Message, Message]:
    """A past turn."""
    form = options_of(choice, method, order)[answer].forms[0]
    return user_turn(choice, method, order), {"role": "assistant", "content": f"{method.prefill}{form}{method.close}"}


def answers_alike(config: BScoreConfig, item: Item, name: str, lm: LanguageModel) -> tuple[list[list[int]], list[Cost]]:
    """[R, N] what the question of the same options was answered in conversation, as options of this one."""
    other = alike(item)
    if config.controls is None or other is None or not config.methods[name].can_ask(choice_of(other)):
        return [], []
    numbers = sorted({turn_orders(config, other, run)[0] for run in range(config.runs)})
    asked = [single_question(config, other, name, number) for number in numbers]
    readings, cost, _ = read_packed_questions(bare(config), asked, lm)
    turns, costs = hold(config, other, name, dict(zip([(name, n) for n in numbers], readings, strict=True)), lm)
    own, of_other = choice_of(item).options, choice_of(other).options
    answers = [[own.index(of_other[turn.question.conditions["answer"]]) for turn in talk] for talk in turns]
    return answers, [cost, *costs]


def bare(config: BScoreConfig) -> BScoreConfig:
    """Without what is read inside."""
    return config.model_copy(update={"capture": None, "lens": None})
