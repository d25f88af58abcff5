"""All that is asked and read of a question: afresh in every order, in conversations in which it comes again and
again, and how sure the model says it is.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ....base.errors import UserError
from ....hooks.backends.captures import join_captures
from ....hooks.exact.option_beliefs import ExactReading
from ....hooks.exact.queries import PromptReader
from ....hooks.generation.sampling import Sampling, random_generator
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Message
from ....hooks.tree.memory import sum_costs
from ....hooks.verbal.number_distributions import read_numbers
from ....hooks.verbal.number_formats import UNIT
from ....hooks.verbal.stated_beliefs import Answer, NumberQuestion, answer_rows, ask_number, write_answers
from ....metrics.contract import Floats
from ...report.findings import Drawn, Transcript
from ...run.experiment import Item, Question, Read
from ...run.readouts import number_transcript, question_transcript, read_packed_questions, reading_rows
from ...run.stated_beliefs import AskedNumbers, BeliefPlace, stated_rows
from .config import BScoreConfig
from .turns import (
    CONFIDENCE,
    SINGLE,
    alike,
    answered,
    answers_alike,
    bare,
    choice_of,
    control_questions,
    hold,
    orders_of,
    planned_turns,
    single_question,
    single_questions,
)


def planned(config: BScoreConfig, item: Item) -> list[Question]:
    """What an item would be asked, with answers in turns where the model's own are not known yet."""
    k, other = len(choice_of(item).options), alike(item)
    answers = [[(run + turn) % k for turn in range(1, config.turns + 1)] for run in range(config.runs)]
    asked = single_questions(config, item)
    for name in config.held:
        turns = planned_turns(config, item, name)
        asked += turns
        if turns:
            held_too = config.controls is not None and other is not None
            asked += planned_turns(config, other, name) if held_too and other is not None else []
            asked += control_questions(config, item, name, answers, answers if held_too else ())
    return asked


# How sure the model says it is of each option, once it has given it as its answer.

ANSWER_TOKENS = 8
"""Room for the longest number, and what closes it."""
FORMAT = "confidence"


def confidence_rows(
    config: BScoreConfig, item: Item, lm: LanguageModel
) -> tuple[list[dict[str, Any]], list[Transcript]]:
    """The rows of the first method, and what was asked and said: of each option, the mean of the exact distribution
    over the numbers that the model may write, and the likeliest number.
    """
    choice, name, asked = choice_of(item), next(iter(config.methods)), _confidence_questions(config, item, lm.reader)
    if config.confidence is None or not asked:
        return [], []
    rows: list[dict[str, Any]] = []
    answers: list[list[Answer]] = [[] for _ in asked]

    def about_option(i: int) -> dict[str, Any]:
        about = {"asked": i, "of_method": name, "category": choice.category}
        return {"scenario": CONFIDENCE, "step": 0, **about}

    for i, number in enumerate(read_numbers(lm, asked, budget=config.budget)):
        rows += [about_option(i) | row for row in number.rows(_pair(choice.options[i]), config.low_coverage)]
    if config.confidence.greedy:
        law = Sampling(temperature=0, max_new_tokens=ANSWER_TOKENS)
        for i, written in enumerate(write_answers(lm, asked, law)):
            of_answers = answer_rows(asked[i], "greedy", written, _pair(choice.options[i]), config.low_coverage)
            rows += [about_option(i) | row for row in of_answers]
            answers[i] += written
    return rows, [
        number_transcript(lm.reader.chat, number, _pair(option), of_option)
        for number, option, of_option in zip(asked, choice.options, answers, strict=True)
    ]


def planned_confidence(config: BScoreConfig, item: Item, reader: PromptReader) -> AskedNumbers:
    """The same, before anything is read."""
    asked = _confidence_questions(config, item, reader)
    greedy = config.confidence is not None and config.confidence.greedy
    return AskedNumbers([question.query(reader) for question in asked], ANSWER_TOKENS * len(asked) * greedy)


def _confidence_questions(config: BScoreConfig, item: Item, reader: PromptReader) -> list[NumberQuestion]:
    """The question how sure it is, after each option as the answer to the first order; none of a named distribution: a
    draw is nothing to be sure of.
    """
    name = next(iter(config.methods))
    if config.confidence is None or choice_of(item).target:
        return []
    written = replace(UNIT, name=FORMAT, instruction=config.confidence.ask)
    first, asked = single_question(config, item, name, 0), []
    for i, option in enumerate(first.options):
        talk: list[Message] = [*answered(config.methods[name], first, option.forms[0])]
        asked.append(ask_number(reader, f"{item.id}/{CONFIDENCE}-{i}/{name}", talk, written))
    return asked


def _pair(option: str) -> tuple[str, str]:
    """The number is P(it); the rest is not."""
    return option, f"not {option}"


SAMPLED = "sampled"
"""What is added to the name of a method whose answers are counted."""
Rows = list[dict[str, Any]]


def read_item(name: str, config: BScoreConfig, item: Item, lm: LanguageModel) -> Read:
    """Read one question, for the experiment of that name."""
    singles = single_questions(config, item)
    readings, cost, captured = read_packed_questions(config, singles, lm)
    rows = [row for asked, each in zip(singles, readings, strict=True) for row in _rows(config, asked, each, lm)]
    transcripts = [question_transcript(lm.reader.chat, each) for each in singles]
    costs, captures = [cost], [captured] if captured else []
    inside = config.lens.methods or () if config.lens else ()
    first = next(iter(config.held))
    places = [_place(question) for question in singles if question.method == first]
    firsts = {(q.method, q.conditions["order"]): each for q, each in zip(singles, readings, strict=True)}
    for method in config.held:
        if not config.methods[method].can_ask(choice_of(item)):
            continue
        conversations, spent = hold(config, item, method, firsts, lm)
        costs += spent
        places += [_place(turn.question) for turns in conversations for turn in turns if method == first]
        for turns in conversations:
            readings = [each.reading for each in turns]
            if config.capture or method in inside:  # one pass over the whole of it, now that it is known
                again, cost, captured = read_packed_questions(config, [each.question for each in turns], lm)
                readings = [replace(each, inner=layers.inner) for each, layers in zip(readings, again, strict=True)]
                costs.append(cost)
                captures += [captured] if captured else []
            for each, reading in zip(turns, readings, strict=True):
                rows += _rows(config, each.question, reading, lm)
            last: Drawn = {"draw": 0, "text": turns[-1].form, "status": "ok"}
            transcripts.append(question_transcript(lm.reader.chat, turns[-1].question, answers=[last]))
        others, spent = answers_alike(config, item, method, lm)
        drawn = [[turn.question.conditions["answer"] for turn in turns] for turns in conversations]
        controls = control_questions(config, item, method, drawn, others)
        costs += spent
        if controls:
            readings, cost, _ = read_packed_questions(bare(config), controls, lm)
            costs.append(cost)
            for asked, reading in zip(controls, readings, strict=True):
                rows += _rows(config, asked, reading, lm)
        law = [firsts[method, number] for number in range(len(orders_of(choice_of(item))))]
        coverage = float(np.mean([each.coverage for each in law]))
        rows += counted_rows(config, item, method, np.array([each.prob for each in law]), coverage)
    stated, heard = confidence_rows(config, item, lm)
    where = {"experiment": name, "item": item.id, "cluster": item.cluster}
    read = Read(
        [{**where, **row} for row in (*rows, *stated)],
        [*transcripts, *heard],
        sum_costs(costs),
        join_captures(captures) if captures else None,
    )
    return stated_rows(config, places, lm).beside(read, where)


def _place(asked: Question) -> BeliefPlace:
    """A turn of the first method, where the probabilities of its options are asked for in place of an answer."""
    return BeliefPlace(
        name=asked.readout_id.rpartition("/")[0],
        scenario=asked.scenario,
        step=asked.step,
        context=asked.conversation,
        options=tuple(option.name for option in asked.options),
        conditions=asked.conditions,
        positions={name: at for name, at in asked.positions.items() if name in ("question", "own-last-answer")},
        halves=False,
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
        about = {"run": run, "answers": answers, "category": choice.category, "truth": choice.right}
        rows += [
            {
                "readout_id": f"{item.id}/run-{run}/{method}/{SAMPLED}",
                "kind": "verbal",
                "method": f"{method} {SAMPLED}",
                "estimate": SAMPLED,
                "scenario": SINGLE,
                **about,
                "option": option,
                "option_index": i,
                "prob": shares[i],
                "coverage": coverage,
                "status": "ok" if coverage >= config.low_coverage else "low_coverage",
            }
            for i, option in enumerate(choice.options)
        ]
    return rows
