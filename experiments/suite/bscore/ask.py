"""All that is asked and read of a question: afresh in every order, in conversations in which it comes again and
again, and how sure the model says it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....base.errors import UserError
from ....hooks.backends.captures import join_captures
from ....hooks.exact.option_beliefs import ExactReading
from ....hooks.exact.queries import PromptReader, Query
from ....hooks.generation.sampling import Sampling, random_generator
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Message
from ....hooks.prompts.places import LAST, Position
from ....hooks.tree.memory import Cost, sum_costs
from ....hooks.verbal.number_distributions import read_numbers
from ....hooks.verbal.number_formats import UNIT
from ....hooks.verbal.stated_beliefs import Answer, NumberQuestion, answer_rows, ask_number, write_answers
from ....metrics.contract import Floats
from ...materials.choices.forms import Order, options_of, orders, user_turn
from ...materials.choices.sources import Choice
from ...report.findings import Drawn, Transcript
from ...run.experiment import Item, Question, Read
from ...run.readouts import (
    compile_questions,
    number_transcript,
    question_transcript,
    read_packed_questions,
    reading_rows,
)
from ...run.stated_beliefs import AskedNumbers, BeliefPlace, stated_rows
from .config import BScoreConfig, Method

SINGLE, MULTI, CONFIDENCE, CONTROL = "single", "multi", "confidence", "control"
"""Scenarios."""
OTHER, SHUFFLED, BALANCED = CONTROLS = ("other", "shuffled", "balanced")
"""Control histories: of another question, with the answers of a question of the same options, and with the last answer
as it was and those before it balanced."""
ALIKE = "alike"
"""Beside an item: the question whose options are the same."""


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
    **conditions: Any,
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
        scenario=MULTI if conditions else SINGLE,
        step=conditions.get("turn", 0),
        conditions={"order": number, **about, **conditions},
        conversation=[*history, user_turn(choice, method, order)],
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


# Conversations in which the same question is asked again and again: each turn's exact distribution, then an answer.

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
    """A turn after what was said, or after the last of it."""
    seen = history if config.keep_turns is None else history[-2 * config.keep_turns :]
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


# Histories of equal length in which nothing of what the model said of this question is heard, or its last answer alone.


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


def _answers_alike(
    config: BScoreConfig, item: Item, name: str, lm: LanguageModel
) -> tuple[list[list[int]], list[Cost]]:
    """[R, N] what the question of the same options was answered in conversation, as options of this one."""
    other = alike(item)
    if config.controls is None or other is None or not config.methods[name].can_ask(choice_of(other)):
        return [], []
    numbers = sorted({turn_orders(config, other, run)[0] for run in range(config.runs)})
    asked = [single_question(config, other, name, number) for number in numbers]
    readings, cost, _ = read_packed_questions(_bare(config), asked, lm)
    turns, costs = hold(config, other, name, dict(zip([(name, n) for n in numbers], readings, strict=True)), lm)
    own, of_other = choice_of(item).options, choice_of(other).options
    answers = [[own.index(of_other[turn.question.conditions["answer"]]) for turn in talk] for talk in turns]
    return answers, [cost, *costs]


def _bare(config: BScoreConfig) -> BScoreConfig:
    """Without what is read inside."""
    return config.model_copy(update={"capture": None, "lens": None})


def planned(config: BScoreConfig, item: Item) -> list[Question]:
    """What an item would be asked, with answers in turns where the model's own are not known yet."""
    k, other = len(choice_of(item).options), alike(item)
    answers = [[(run + turn) % k for turn in range(1, config.turns + 1)] for run in range(config.runs)]
    asked = single_questions(config, item)
    for name in config.held:
        turns = _planned(config, item, name)
        asked += turns
        if turns:
            held_too = config.controls is not None and other is not None
            asked += _planned(config, other, name) if held_too and other is not None else []
            asked += control_questions(config, item, name, answers, answers if held_too else ())
    return asked


def _planned(config: BScoreConfig, item: Item, name: str, runs: int | None = None) -> list[Question]:
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
    last = _planned(config, item, name, runs=1)[-1]
    try:
        (query,) = compile_questions(reader, [last])
    except UserError as error:
        raise UserError(f"{error}, by fewer `turns`, or by `keep_turns`, the past turns that one sees") from error
    return len(query.prompt.ids) + sum(len(path) for paths in query.paths.paths for path in paths)


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


# All that is read of a question: afresh in every order, in conversations, and how sure the model says it is.

SAMPLED = "sampled"
"""What is added to the name of a method whose answers are counted."""
Rows = list[dict[str, Any]]


def read_item(name: str, config: BScoreConfig, item: Item, lm: LanguageModel) -> Read:
    """Read one question, for the experiment of that name."""
    singles = single_questions(config, item)
    readings, cost, captured = read_packed_questions(config, singles, lm)
    rows = [row for asked, one in zip(singles, readings, strict=True) for row in _rows(config, asked, one, lm)]
    transcripts = [question_transcript(lm.reader.chat, one) for one in singles]
    costs, captures = [cost], [captured] if captured else []
    inside = config.lens.methods or () if config.lens else ()
    first = next(iter(config.held))
    places = [_place(question) for question in singles if question.method == first]
    firsts = {(q.method, q.conditions["order"]): one for q, one in zip(singles, readings, strict=True)}
    for method in config.held:
        if not config.methods[method].can_ask(choice_of(item)):
            continue
        conversations, spent = hold(config, item, method, firsts, lm)
        costs += spent
        places += [_place(turn.question) for turns in conversations for turn in turns if method == first]
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
            transcripts.append(question_transcript(lm.reader.chat, turns[-1].question, answers=[last]))
        others, spent = _answers_alike(config, item, method, lm)
        drawn = [[turn.question.conditions["answer"] for turn in turns] for turns in conversations]
        controls = control_questions(config, item, method, drawn, others)
        costs += spent
        if controls:
            readings, cost, _ = read_packed_questions(_bare(config), controls, lm)
            costs.append(cost)
            for asked, reading in zip(controls, readings, strict=True):
                rows += _rows(config, asked, reading, lm)
        law = [firsts[method, number] for number in range(len(orders_of(choice_of(item))))]
        coverage = float(np.mean([one.coverage for one in law]))
        rows += counted_rows(config, item, method, np.array([one.prob for one in law]), coverage)
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
        positions={name: at for name, at in asked.positions.items() if name not in ("answer", "before-answer")},
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
