"""All that is asked and read of a question: afresh in every order, in conversations in which it comes again and
again, how sure the model says it is, and the published way: answers that it writes out, at a stated temperature, and
what is parsed of them (b-score, B.2, C.4).
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....base.errors import UserError
from ....hooks.backends.captures import join_captures
from ....hooks.exact.option_beliefs import ExactReading
from ....hooks.exact.queries import PromptReader
from ....hooks.generation.generated_texts import Request
from ....hooks.generation.sampling import Sampling, random_generator
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Message
from ....hooks.prompts.options import Option
from ....hooks.tree.memory import sum_costs
from ....hooks.verbal.number_distributions import read_numbers
from ....hooks.verbal.number_formats import UNIT
from ....hooks.verbal.stated_beliefs import Answer, NumberQuestion, answer_rows, ask_number, write_answers
from ....metrics.contract import Floats
from ...materials.trajectories import before_control_token
from ...report.findings import Drawn, Transcript
from ...run.experiment import Item, Question, Read
from ...run.readouts import number_transcript, question_transcript, read_packed_questions, reading_rows
from ...run.stated_beliefs import AskedNumbers, BeliefPlace, stated_rows
from .config import BScoreConfig, Written
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
    turn_orders,
    turn_question,
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
        return {"scenario": CONFIDENCE, "step": 0, "asked": i, "of_method": name, "category": choice.category}

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
    return AskedNumbers([asked], ANSWER_TOKENS * len(asked) * greedy)


def _confidence_questions(config: BScoreConfig, item: Item, reader: PromptReader) -> list[NumberQuestion]:
    """How sure it is, after each option as the answer to the first order; none of a named distribution."""
    name = next(iter(config.methods))
    if config.confidence is None or choice_of(item).target:
        return []
    written = replace(UNIT, name=CONFIDENCE, instruction=config.confidence.ask)
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
        readings=1,
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
        law: [orders, k] the exact distributions afresh.

    Raises UserError if an order leaves no option any probability.
    """
    if np.isnan(law).any():
        raise UserError(f"{item.id}: no option has any probability under {method}; change its forms")
    rows: Rows = []
    for run in range(config.runs):
        answers, readout = drawn_answers(config, item, method, law, run), f"{item.id}/run-{run}/{method}/{SAMPLED}"
        rows += _counted(config, item, method, SAMPLED, readout, run, answers, coverage)
    return rows


WRITTEN, LIST = "written", "list"
"""What is added to the name of a method whose answers are written out, and whose lists are."""
UNPARSED = -1
"""The option of an answer that none can be read of."""


def parsed(text: str, options: Sequence[Option], written: Written) -> int:
    """The option between an answer's first marks, letter case and blanks aside; `UNPARSED` if there is none."""
    given, marked = text, True
    if written.open:
        _, begun, rest = text.partition(written.open)
        given, ended, _ = rest.partition(written.close)
        marked = bool(begun and ended)
    if not marked:
        return UNPARSED
    names = {_plain(form): i for i, option in enumerate(options) for form in (option.name, *option.forms)}
    return names.get(_plain(given), UNPARSED)


def _plain(text: str) -> str:
    return " ".join(text.split()).strip(".\"'").casefold()


def written_rows(config: BScoreConfig, item: Item, lm: LanguageModel) -> tuple[Rows, list[Transcript]]:
    """The rows of each method that holds conversations, and what was said: of each run, how often each option was the
    answer among those that could be parsed, with all of them in `answers` (afresh) and `answers_multi`.
    """
    if config.written is None:
        return [], []
    rows: Rows = []
    transcripts: list[Transcript] = []
    for name, method in config.held.items():
        if not method.can_ask(choice_of(item)):
            continue
        afresh = _afresh(config, config.written, item, name, lm)
        talks = _talks(config, config.written, item, name, lm)
        for run, (singles, (turns, last, written)) in enumerate(zip(afresh, talks, strict=True)):
            rows += _counted(config, item, name, WRITTEN, last.readout_id, run, singles, answers_multi=turns)
            drawn: Drawn = {"draw": 0, "text": written, "status": "ok" if turns[-1] != UNPARSED else "unparsed"}
            transcripts.append(question_transcript(lm.reader.chat, last, answers=[drawn]))
    more, also = _lists(config, config.written, item, lm)
    return rows + more, transcripts + also


def planned_tokens(config: BScoreConfig, item: Item) -> int:
    """Most tokens that it writes."""
    if config.written is None:
        return 0
    methods = sum(method.can_ask(choice_of(item)) for method in config.held.values())
    lists = config.written.lists * config.written.list_tokens * bool(choice_of(item).target)
    return config.runs * (config.queries + config.turns) * methods * config.written.max_new_tokens + lists


def _afresh(config: BScoreConfig, written: Written, item: Item, name: str, lm: LanguageModel) -> list[list[int]]:
    """[runs, queries] answers, each to the question in an order that is drawn for it."""
    n = len(orders_of(choice_of(item)))
    rng = random_generator(config.seed, f"{item.id}/{WRITTEN}/{name}", 0)
    order = rng.integers(n, size=(config.runs, config.queries))
    asked = [_question(config, item, name, number, (), f"{item.id}/{WRITTEN}-{number}/{name}") for number in range(n)]
    requests = [
        Request(question.readout_id, lm.reader.chat.render(question.conversation), range(int((order == number).sum())))
        for number, question in enumerate(asked)
    ]
    texts = iter(lm.sample(requests, written, seed=config.seed))
    answers = np.full(order.shape, UNPARSED)
    for number, question in enumerate(asked):
        answers[order == number] = [
            parsed(next(texts).text, question.options, written) for _ in range(int((order == number).sum()))
        ]
    return answers.tolist()


def _talks(
    config: BScoreConfig, written: Written, item: Item, name: str, lm: LanguageModel
) -> list[tuple[list[int], Question, str]]:
    """Of each conversation the answers of its turns, the last question, and what was said to it. A turn sees what the
    model wrote at those before it, whether or not an option could be read of it.
    """
    histories: list[list[Message]] = [[] for _ in range(config.runs)]
    orders = [turn_orders(config, item, run) for run in range(config.runs)]
    answers: list[list[int]] = [[] for _ in range(config.runs)]
    asked: list[Question] = []
    texts: list[str] = []
    for turn in range(config.turns):
        asked = [
            _question(config, item, name, orders[run][turn], history, f"{item.id}/run-{run}/{name}/{WRITTEN}")
            for run, history in enumerate(histories)
        ]
        requests = [Request(each.readout_id, lm.reader.chat.render(each.conversation), [turn]) for each in asked]
        texts = [before_control_token(each.text, lm) for each in lm.sample(requests, written, seed=config.seed)]
        for run, (each, text) in enumerate(zip(asked, texts, strict=True)):
            answers[run].append(parsed(text, each.options, written))
            histories[run] += [each.conversation[-1], {"role": "assistant", "content": text}]
    return list(zip(answers, asked, texts, strict=True))


def _question(
    config: BScoreConfig, item: Item, name: str, order: int, history: Sequence[Message], readout_id: str
) -> Question:
    question = turn_question(config, item, name, order, history, readout_id)
    return Question(readout_id, name, question.scenario, question.conversation, "", question.options)


def _lists(config: BScoreConfig, written: Written, item: Item, lm: LanguageModel) -> tuple[Rows, list[Transcript]]:
    """Many draws of a named distribution in one answer (C.4): the whole numbers that it lists."""
    choice, name = choice_of(item), next(iter(config.methods))
    if not choice.target or not written.lists:
        return [], []
    law = choice.text
    turn: Message = {"role": "user", "content": written.list_ask.format(question=law, n=written.list_numbers)}
    asked = turn_question(config, item, name, 0, (), f"{item.id}/{LIST}/{name}")
    asked = Question(asked.readout_id, name, asked.scenario, [turn], "", asked.options)
    request = Request(asked.readout_id, lm.reader.chat.render([turn]), range(written.lists))
    law_of_lists = written.model_copy(update={"max_new_tokens": written.list_tokens})
    texts = lm.sample([request], law_of_lists, seed=config.seed)
    numbers = {option: i for i, option in enumerate(choice.options)}
    rows: Rows = []
    for run, sample in enumerate(texts):
        listed = [numbers.get(number, UNPARSED) for number in re.findall(r"(?<![\d.])-?\d+(?![\d.]*\d)", sample.text)]
        readout = f"{asked.readout_id}.{run}"
        rows += _counted(config, item, name, LIST, readout, run, listed[: written.list_numbers], target=choice.target)
    answers: list[Drawn] = [{"draw": sample.draw, "text": sample.text, "status": sample.status} for sample in texts]
    return rows, [question_transcript(lm.reader.chat, asked, answers=answers)]


def _counted(
    config: BScoreConfig,
    item: Item,
    name: str,
    way: str,
    readout_id: str,
    run: int,
    answers: list[int],
    coverage: float | None = None,
    **about: Any,
) -> Rows:
    """The rows of answers that were counted, of which those that are an option make the coverage unless it is known;
    without any there is no number.
    """
    choice = choice_of(item)
    valid = [answer for answer in answers if answer != UNPARSED]
    shares = np.bincount(valid, minlength=len(choice.options)) / (len(valid) or np.nan)
    coverage = len(valid) / max(1, len(answers)) if coverage is None else coverage
    status = "unparsed" if not valid else "ok" if coverage >= config.low_coverage else "low_coverage"
    place = {"readout_id": readout_id, "kind": "verbal", "method": f"{name} {way}", "estimate": way, "scenario": SINGLE}
    counted = {"run": run, "answers": answers, "category": choice.category, "truth": choice.right, **about}
    return [
        {**place, **counted, "option": option, "option_index": i}
        | {"prob": shares[i], "coverage": coverage, "status": status}
        for i, option in enumerate(choice.options)
    ]
