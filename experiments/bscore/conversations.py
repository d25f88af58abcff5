"""Conversations in which the same question is asked again and again: each turn's exact distribution, then an answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...hooks.errors import UserError
from ...hooks.exact.exact import ExactReading
from ...hooks.generation.sampling import random_generator
from ...hooks.lm import LanguageModel
from ...hooks.prompts.chat import Message
from ...hooks.prompts.query import PromptReader, Query
from ...hooks.tree.memory import Cost
from ..experiment import Item, Question
from ..reading.exact import compile_questions
from .asking import answered, choice_of, orders_of, single_questions, turn_question
from .config import BScoreConfig

SIDE_BY_SIDE = 4
"""Budgets of a pass that the whole conversations in one cache may take: a pass computes their newest turns alone, and
each attends to its own tokens, so that passes of several are cheaper than passes of one."""
Firsts = Mapping[tuple[str, int], ExactReading]
"""Method and number of the order -> the reading afresh, which a first turn is."""


@dataclass(frozen=True)
class Turn:
    """A turn that was held."""

    question: Question
    """Its variant names the `run`, the `turn` from 1, the `answer`, an option's index, and that `before` it."""
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
        held, own = _hold(config, item, name, runs[start : start + beside], firsts, lm)
        turns += held
        costs += own
    return turns, costs


def _hold(
    config: BScoreConfig, item: Item, name: str, runs: Sequence[int], firsts: Firsts, lm: LanguageModel
) -> tuple[list[list[Turn]], list[Cost]]:
    """Some of them, over one cache."""
    histories = lm.histories(config.budget)
    drawn = {run: turn_orders(config, item, run) for run in runs}
    said: dict[int, list[Message]] = {run: [] for run in runs}
    before: dict[int, int] = {}
    held: dict[int, list[Turn]] = {run: [] for run in runs}
    costs: list[Cost] = []
    kept: Sequence[object] = ()
    for turn in range(1, config.turns + 1):
        asked = [_asked(config, item, name, run, turn, drawn[run][turn - 1], said[run]) for run in runs]
        queries = compile_questions(lm.reader, asked)
        if turn == 1:
            found = [firsts[name, drawn[run][0]] for run in runs]
            readings = [replace(one, readout_id=q.readout_id) for one, q in zip(found, asked, strict=True)]
        else:
            grown = lm.read_grown(queries, histories, budget=config.budget, temperatures=config.temperatures)
            readings, kept = grown.readings, grown.held  # what is held stays in the cache until the next turn has it
            costs.append(grown.cost)
        for run, question, query, reading in zip(runs, asked, queries, readings, strict=True):
            answer, form = _draw(config, query, reading, lm)
            given = {"before": before[run]} if turn > 1 else {}
            told = replace(question, variant={**question.variant, **given, "answer": answer})
            held[run].append(Turn(told, reading, form))
            before[run] = answer
            said[run] += answered(config.methods[name], question, form)
    del kept
    return [held[run] for run in runs], costs


def _asked(
    config: BScoreConfig, item: Item, name: str, run: int, turn: int, order: int, said: Sequence[Message]
) -> Question:
    """A turn after what was said, or after the last of it."""
    seen = said if config.keep_turns is None else said[-2 * config.keep_turns :]
    return turn_question(config, item, name, order, seen, f"{item.id}/run-{run}/turn-{turn}/{name}", run=run, turn=turn)


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


def planned(config: BScoreConfig, item: Item) -> list[Question]:
    """What an item would be asked, with answers in turns where the model's own are not known yet."""
    return [*single_questions(config, item), *(one for name in config.held for one in _planned(config, item, name))]


def _planned(config: BScoreConfig, item: Item, name: str, runs: int | None = None) -> list[Question]:
    choice, method = choice_of(item), config.methods[name]
    if not method.can_ask(choice):
        return []
    found = []
    for run in range(config.runs if runs is None else runs):
        said: list[Message] = []
        for turn, order in enumerate(turn_orders(config, item, run), 1):
            question = _asked(config, item, name, run, turn, order, said)
            found += [question] if turn > 1 else []
            said += answered(method, question, question.options[(run + turn) % len(choice.options)].forms[0])
    return found


def _refuse_long(config: BScoreConfig, item: Item, name: str, reader: PromptReader) -> int:
    """The tokens that a whole conversation takes, more or less."""
    last = _planned(config, item, name, runs=1)[-1]
    try:
        (query,) = compile_questions(reader, [last])
    except UserError as error:
        raise UserError(f"{error}, by fewer `turns`, or by `keep_turns`, the past turns that one sees") from error
    return len(query.prompt.ids) + sum(len(path) for paths in query.paths.paths for path in paths)
