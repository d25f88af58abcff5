"""All that is read of a question: afresh in every order, in conversations, and how sure the model says it is."""

import json
from dataclasses import replace
from typing import Any

import numpy as np

from ...hooks.backends.captured import join_captures
from ...hooks.errors import UserError
from ...hooks.exact.exact import ExactReading
from ...hooks.generation.sampling import random_generator
from ...hooks.lm import LanguageModel
from ...hooks.tree.memory import sum_costs
from ...metrics.validation import Floats
from ..experiment import Drawn, Item, Question, Read
from ..reading.exact import read_packed_questions, reading_rows
from ..reading.transcripts import question_transcript
from .asking import SINGLE, choice_of, orders_of, single_questions
from .confidence import confidence_rows
from .config import BScoreConfig
from .conversations import hold

SAMPLED = "sampled"
"""What is added to the name of a method whose answers are counted."""
Rows = list[dict[str, Any]]


def read_item(name: str, config: BScoreConfig, item: Item, lm: LanguageModel) -> Read:
    """Read one question, for the experiment of that name."""
    singles = single_questions(config, item)
    readings, cost, captured = read_packed_questions(config, singles, lm)
    rows = [row for asked, one in zip(singles, readings, strict=True) for row in _rows(config, asked, one, lm)]
    said = [question_transcript(lm.reader.chat, one) for one in singles]
    costs, captures = [cost], [captured] if captured else []
    inside = config.lens.methods or () if config.lens else ()
    firsts = {(q.method, q.variant["order"]): one for q, one in zip(singles, readings, strict=True)}
    for method in config.held:
        if not config.methods[method].can_ask(choice_of(item)):
            continue
        conversations, own = hold(config, item, method, firsts, lm)
        costs += own
        for turns in conversations:
            readings = [one.reading for one in turns]
            if config.capture or method in inside:  # one pass over the whole of it, now that it is known
                again, cost, captured = read_packed_questions(config, [one.question for one in turns], lm)
                readings = [replace(one, inner=layers.inner) for one, layers in zip(readings, again, strict=True)]
                costs.append(cost)
                captures += [captured] if captured else []
            for one, reading in zip(turns, readings, strict=True):
                rows += _rows(config, one.question, reading, lm)
            last: Drawn = {"draw": 0, "text": turns[-1].form, "status": "ok"}
            said.append(question_transcript(lm.reader.chat, turns[-1].question, answers=[last]))
        law = [firsts[method, number] for number in range(len(orders_of(choice_of(item))))]
        coverage = float(np.mean([one.coverage for one in law]))
        rows += counted_rows(config, item, method, np.array([one.prob for one in law]), coverage)
    stated, heard = confidence_rows(config, item, lm)
    where = {"experiment": name, "item": item.id, "cluster": item.cluster}
    return Read(
        [{**where, **row} for row in (*rows, *stated)],
        [*said, *heard],
        sum_costs(costs),
        join_captures(captures) if captures else None,
    )


def _rows(config: BScoreConfig, asked: Question, reading: ExactReading, lm: LanguageModel) -> Rows:
    """The rows of a read-out, with its place."""
    place = {"scenario": asked.scenario, "step": asked.step}
    return [{**place, **row} for row in reading_rows(config, asked, reading, lm)]


def drawn_answers(config: BScoreConfig, item: Item, method: str, law: Floats, run: int) -> list[int]:
    """The options of the answers afresh that go with a conversation (arguments: `counted_rows`)."""
    rng, k = random_generator(config.seed, f"{item.id}/queries/{method}", run), law.shape[1]
    drawn = [(int(rng.integers(len(law))), float(rng.random())) for _ in range(config.queries)]
    bounds = law.cumsum(axis=1)
    return [min(int(np.searchsorted(bounds[order], u, side="right")), k - 1) for order, u in drawn]


def counted_rows(config: BScoreConfig, item: Item, method: str, law: Floats, coverage: float) -> Rows:
    """What `queries` answers afresh would say, each in an order that is drawn for it: for every conversation a set of
    its own.

    Args:
        config: says how many.
        item: the question.
        method: under which it is asked.
        law: [orders, k] the exact distributions afresh.
        coverage: of the read-outs that they are from.

    Raises UserError if an order leaves no option any probability.
    """
    choice = choice_of(item)
    if np.isnan(law).any():
        raise UserError(f"{item.id}: no option has any probability under {method}; change its forms")
    rows: Rows = []
    for run in range(config.runs):
        answers = drawn_answers(config, item, method, law, run)
        shares = np.bincount(answers, minlength=law.shape[1]) / len(answers)
        variant = {"run": run, "answers": answers, "category": choice.category, "truth": choice.right}
        rows += [
            {
                "readout_id": f"{item.id}/run-{run}/{method}/{SAMPLED}",
                "kind": "verbal",
                "method": f"{method} {SAMPLED}",
                "scenario": SINGLE,
                "variant": json.dumps(variant, sort_keys=True),
                "option": option,
                "option_index": i,
                "prob": shares[i],
                "coverage": coverage,
                "status": "ok" if coverage >= config.low_coverage else "low_coverage",
            }
            for i, option in enumerate(choice.options)
        ]
    return rows
