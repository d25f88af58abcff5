"""What a question is asked, afresh in every order and in turns, and the conversations in which it comes again and
again: each turn's exact distribution, then an answer; and the histories that such a conversation is compared with.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....base.errors import UserError
from ....hooks.exact.option_beliefs import ExactReading
from ....hooks.exact.queries import PromptReader, Query
from ....hooks.generation.sampling import random_generator
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Message
from ....hooks.prompts.places import LAST, Position
from ....hooks.tree.memory import Cost
from ...materials.choices.forms import Order, option_positions, options_of, orders, user_turn
from ...materials.choices.sources import Choice
from ...run.experiment import Item, Question
from ...run.readouts import compile_questions, read_packed_questions
from .config import BScoreConfig, Method

SINGLE, MULTI, CONFIDENCE, CONTROL = "single", "multi", "confidence", "control"
"""Scenarios."""


def choice_of(item: Item) -> Choice:
    """The question of an item."""
    content: dict[str, Any] = {
        **item.content,
        "options": tuple(item.content["options"]),
        "target": tuple(item.content["target"]),
    }
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
    **conditions: Any,
) -> Question:
    """A turn of a conversation: the options in the order of that number, after what it sees of a history."""
    choice, method = choice_of(item), config.methods[name]
    order = orders_of(choice)[number]
    seen = history if config.keep_turns is None else history[-2 * config.keep_turns :]
    about = {
        "category": choice.category,
        "topic": choice.topic,
        "truth": choice.right,
        **({"target": choice.target} if choice.target else {}),
    }
    positions = {"question": Position(message=-1), "before-answer": Position(at="before_answer"), "answer": LAST}
    positions |= {"own-last-answer": Position(message=-2)} if seen else {}
    positions |= option_positions(choice, method, order) if config.kinds == "all" else {}
    about |= {} if method.conversations else {"alone": True}
    return Question(
        readout_id=readout_id,
        method=name,
        scenario=MULTI if conditions else SINGLE,
        step=conditions.get("turn", 0),
        conditions={"order": number, **about, **conditions},
        conversation=[*seen, user_turn(choice, method, order)],
        prefill=method.prefill,
        options=options_of(choice, method, order),
        positions=positions,
        own_turns=True,
    )


def answered(method: Method, question: Question, form: str) -> tuple[Message, Message]:
    """A turn of the conversation as the next one sees it: what was asked, and the answer in the form that was drawn."""
    answer: Message = {"role": "assistant", "content": f"{method.prefill}{form}{method.close}"}
    return question.conversation[-1], answer


def single_questions(config: BScoreConfig, item: Item) -> list[Question]:
    """The question afresh, in all its orders, under every method that can ask it."""
    choice = choice_of(item)
    return [
        single_question(config, item, name, number)
        for number in range(len(orders_of(choice)))
        for name, method in config.methods.items()
        if method.can_ask(choice)
    ]


SIDE_BY_SIDE = 4
"""Budgets of a pass that the whole conversations in one cache may take: a pass computes their newest turns alone, and
each attends to its own tokens, so that passes of several are cheaper than passes of one."""
Firsts = Mapping[tuple[str, int], ExactReading]
"""Method and number of the order -> the reading afresh, which a first turn is."""


@dataclass(frozen=True)
class Turn:
    """A turn that was held."""

    question: Question
    """Its conditions name the `run`, the `turn` from 1, the `answer`, an option's index, and that `before` it."""
    reading: ExactReading
    form: str
    """The answer as it was written."""


def turn_orders(config: BScoreConfig, item: Item, run: int) -> list[int]:
    """The number of the order of each turn of a conversation: drawn anew for each, the same under every method."""
    n = len(orders_of(choice_of(item)))
    rng = random_generator(config.seed, f"{item.id}/orders", run)
    return [int(rng.integers(n)) for _ in range(config.turns)]


def hold(
    config: BScoreConfig, item: Item, name: str, firsts: Firsts, lm: LanguageModel
) -> tuple[list[list[Turn]], list[Cost]]:
    """The conversations of an item under a method, and what they cost.

    They are held side by side, as many as `SIDE_BY_SIDE` times `token_budget` has room for at their full length; what
    one says depends on no other. Raises UserError if one would be longer than the model's context.
    """
    longest = _refuse_long(config, item, name, lm.reader)
    beside = max(1, SIDE_BY_SIDE * config.budget // longest)
    runs = list(range(config.runs))
    turns: list[list[Turn]] = []
    costs: list[Cost] = []
    for start in range(0, len(runs), beside):
        more, spent = _hold(config, item, name, runs[start : start + beside], firsts, lm)
        turns += more
        costs += spent
    return turns, costs


def _hold(
    config: BScoreConfig, item: Item, name: str, runs: Sequence[int], firsts: Firsts, lm: LanguageModel
) -> tuple[list[list[Turn]], list[Cost]]:
    """Some of them, over one cache."""
    histories = lm.histories(config.budget)
    drawn = {run: turn_orders(config, item, run) for run in runs}
    histories_of: dict[int, list[Message]] = {run: [] for run in runs}
    before: dict[int, int] = {}
    turns_of: dict[int, list[Turn]] = {run: [] for run in runs}
    costs: list[Cost] = []
    kept: Sequence[object] = ()
    for turn in range(1, config.turns + 1):
        asked = [_asked(config, item, name, run, turn, drawn[run][turn - 1], histories_of[run]) for run in runs]
        queries = compile_questions(lm.reader, asked)
        if turn == 1:
            first_readings = [firsts[name, drawn[run][0]] for run in runs]
            readings = [
                replace(reading_afresh, readout_id=q.readout_id)
                for reading_afresh, q in zip(first_readings, asked, strict=True)
            ]
        else:
            grown = lm.read_grown(queries, histories, budget=config.budget, temperatures=config.temperatures)
            readings, kept = grown.readings, grown.held  # what is held stays in the cache until the next turn has it
            costs.append(grown.cost)
        for run, question, query, reading in zip(runs, asked, queries, readings, strict=True):
            answer, form = _draw(config, query, reading, lm)
            given = {"before": before[run]} if turn > 1 else {}
            answered_question = replace(question, conditions={**question.conditions, **given, "answer": answer})
            turns_of[run].append(Turn(answered_question, reading, form))
            before[run] = answer
            histories_of[run] += answered(config.methods[name], question, form)
    del kept
    return [turns_of[run] for run in runs], costs


def _asked(
    config: BScoreConfig, item: Item, name: str, run: int, turn: int, order: int, history: Sequence[Message]
) -> Question:
    readout = f"{item.id}/run-{run}/turn-{turn}/{name}"
    return turn_question(config, item, name, order, history, readout, run=run, turn=turn)


def _draw(config: BScoreConfig, query: Query, reading: ExactReading, lm: LanguageModel) -> tuple[int, str]:
    """The option of an answer drawn from the exact distribution over all forms, and its text.

    Raises UserError if no form has any mass.
    """
    owner = np.repeat(np.arange(len(reading.form_logp)), [len(forms) for forms in reading.form_logp])
    logp = np.concatenate(reading.form_logp)
    if not np.isfinite(logp.max()):
        raise UserError(f"read-out {query.readout_id}: no option has any probability; change the method's forms")
    mass = np.exp(logp - logp.max()).cumsum()
    number = random_generator(config.seed, query.readout_id, 0).random() * mass[-1]
    chosen = min(int(np.searchsorted(mass, number, side="right")), len(mass) - 1)
    paths = [path for paths in query.paths.paths for path in paths]
    return int(owner[chosen]), lm.sampler.text(paths[chosen])


def planned_turns(config: BScoreConfig, item: Item, name: str, runs: int | None = None) -> list[Question]:
    """Every turn but the first, each option in turn the answer before it."""
    choice, method = choice_of(item), config.methods[name]
    if not method.can_ask(choice):
        return []
    questions = []
    for run in range(config.runs if runs is None else runs):
        history: list[Message] = []
        for turn, order in enumerate(turn_orders(config, item, run), 1):
            question = _asked(config, item, name, run, turn, order, history)
            questions += [question] if turn > 1 else []
            history += answered(method, question, question.options[(run + turn) % len(choice.options)].forms[0])
    return questions


def _refuse_long(config: BScoreConfig, item: Item, name: str, reader: PromptReader) -> int:
    """The tokens that a whole conversation takes, more or less."""
    last = planned_turns(config, item, name, runs=1)[-1]
    try:
        (query,) = compile_questions(reader, [last])
    except UserError as error:
        raise UserError(f"{error}, by fewer `turns`, or by `keep_turns`, the past turns that one sees") from error
    return len(query.prompt.ids) + sum(len(path) for paths in query.paths.paths for path in paths)


# Histories of equal length in which nothing of what the model said is heard, or its last answer alone.

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
    """Every turn but the first of every conversation once more, after each control history (`control_histories`)."""
    choice, method, controls = choice_of(item), config.methods[name], []
    for run, turn, control, answered in control_histories(config, item, answers, others):
        about, orders = choice, [orders_of(choice)[number] for number in turn_orders(config, item, run)]
        if control == OTHER and config.controls is not None:
            about = replace(
                choice, text=config.controls.question, options=config.controls.options, truth="", listed=True
            )
            orders = [tuple(range(len(about.options)))] * config.turns
        history = [
            m for answer, order in zip(answered, orders, strict=False) for m in _said(method, about, answer, order)
        ]
        readout = f"{item.id}/run-{run}/turn-{turn}/{name}/{control}"
        number = turn_orders(config, item, run)[turn - 1]
        asked = turn_question(config, item, name, number, history, readout, run=run, turn=turn, control=control)
        controls.append(replace(asked, scenario=CONTROL))
    return controls


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
    options, of_other = choice_of(item).options, choice_of(other).options
    answers = [[options.index(of_other[turn.question.conditions["answer"]]) for turn in talk] for talk in turns]
    return answers, [cost, *costs]


def bare(config: BScoreConfig) -> BScoreConfig:
    """Without what is read inside."""
    return config.model_copy(update={"capture": None, "lens": None})
