"""What is asked of a context: beliefs and actions, each in a context of its own on the trunk of one situation, and
what the model says in numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ....hooks.exact.option_beliefs import option_rows
from ....hooks.exact.queries import PromptReader
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Conversation
from ....hooks.prompts.options import Option, make_options
from ....hooks.prompts.places import LAST, Position, Positions
from ....hooks.verbal.number_distributions import NumberReading
from ....hooks.verbal.number_formats import line_format
from ....hooks.verbal.stated_beliefs import NumberQuestion, OptionNumbers, answer_rows, ask_number, write_answers
from ....metrics import indifference_point
from ....metrics.beliefs import VALUED, worst_status
from ...run.experiment import Item, Question
from ...run.readouts import number_transcript
from ...run.stated_beliefs import ANSWER_TOKENS, AskedNumbers, BeliefPlace, Rows, StatedRead
from .config import STANDARD, BeliefMethod, RationalityConfig

BELIEF, CASE, PRIOR = "belief", "case", "prior"
AUXILIARY, LINE_1, LINE_2, MENU, TICKET = "auxiliary", "line 1", "line 2", "menu", "ticket"
OPTIONS, TREE = "options", "tree"
"""Methods of what is no belief in the target."""
ACTED = "tickets"
"""Method of the belief that choices between tickets act on."""


class BeliefSite(NamedTuple):
    """Where a belief in the target is asked for."""

    name: str
    scenario: str
    situation: str
    prompt: str
    """By name."""
    conditions: Mapping[str, Any]


def places(config: RationalityConfig, item: Item) -> list[BeliefSite]:
    """The context under every prompt, with each state of the further covariate, and bare for inner layers."""
    content = item.content
    against = {}
    if config.lens and content["prior"] is not None:
        against = {"against": 0 if content["p_star"] < content["prior"] else 1}
    sites = [
        BeliefSite(
            f"{item.id}/{prompt}",
            BELIEF,
            content["situation"],
            prompt,
            {"prompt": prompt, "truth": content["p_star"]} | (against if prompt == STANDARD else {}),
        )
        for prompt in config.prompts
    ]
    if config.iterated and content["auxiliary"]:
        further = content["auxiliary"]
        sites += [
            BeliefSite(f"{item.id}/case-{i}", CASE, situation, STANDARD, {"case": i, "truth": chance})
            for i, (situation, chance) in enumerate(zip(further["situations"], further["chances"], strict=True))
        ]
    if against:
        sites.append(BeliefSite(f"{item.id}/prior", PRIOR, content["nothing"], STANDARD, {"truth": content["prior"]}))
    return sites


def questions(config: RationalityConfig, item: Item) -> list[Question]:
    """The exact read-outs of a context."""
    asked = [question for place in places(config, item) for question in _beliefs(config, item, place)]
    return [*asked, *_auxiliary(config, item), *_lines(config, item), *_menus(config, item), *_tickets(config, item)]


def user_turn(item: Item, place: BeliefSite, config: RationalityConfig, template: str, **words: str) -> Conversation:
    """A user's turn about a place."""
    content = item.content
    text = template.format(
        situation=place.situation,
        prompt=config.prompts[place.prompt],
        **{key: content[key] for key in ("ask", "chance", "event")},
        **words,
    )
    return [{"role": "user", "content": " ".join(text.split(" ")).strip()}]


def captured(turn: Conversation, situation: str, answer: str) -> dict[str, Position]:
    """The ends of the situation, which a context's beliefs and actions share, and of the question, and the `answer`."""
    text = situation.strip()
    there, at = bool(text) and text in turn[-1]["content"], Position(message=-1, text=text or " ", occurrence=0)
    shared = {"situation": at, "before-question": at} if there else {}
    return {**shared, "question": Position(message=-1), answer: LAST}


def written(names: Sequence[str], forms: Sequence[str]) -> tuple[Option, ...]:
    """The options as they are and in small letters."""
    both = zip(make_options(names, forms), make_options([name.lower() for name in names], forms), strict=True)
    return tuple(Option(option.name, tuple(dict.fromkeys((*option.forms, *small.forms)))) for option, small in both)


def _beliefs(config: RationalityConfig, item: Item, place: BeliefSite) -> Iterator[Question]:
    for name, method in config.methods.items():
        for k, (ask, order) in enumerate((ask, order) for ask in method.ask for order in (1, -1)):
            yield _belief(config, item, place, name, method, k, ask, order)


def _belief(
    config: RationalityConfig,
    item: Item,
    place: BeliefSite,
    name: str,
    method: BeliefMethod,
    k: int,
    ask: str,
    order: int,
) -> Question:
    """One reading. The options of the table are always (yes, no)."""
    first, second = config.answers[::order]
    labels = method.labels and method.labels[::order]
    turn = user_turn(item, place, config, ask, first=first, second=second)
    return Question(
        readout_id=f"{place.name}/{name}.{k}",
        method=name,
        scenario=place.scenario,
        conditions={**place.conditions, "reading": k},
        conversation=turn,
        prefill="",
        options=make_options(config.answers, method.forms, labels) if labels else written(config.answers, method.forms),
        positions=captured(turn, place.situation, "answer"),
    )


def _auxiliary(config: RationalityConfig, item: Item) -> Iterator[Question]:
    """The covariate that was not revealed, its states named in either order."""
    further = item.content["auxiliary"]
    if not (config.iterated and further):
        return
    for reading, order in enumerate((1, -1)):
        text = config.wording.auxiliary.format(
            situation=item.content["situation"], noun=further["noun"], options=", ".join(further["labels"][::order])
        )
        turn: Conversation = [{"role": "user", "content": text}]
        yield Question(
            readout_id=f"{item.id}/auxiliary.{reading}",
            method=OPTIONS,
            scenario=AUXILIARY,
            conditions={"reading": reading, "covariate": further["variable"], "shares": further["shares"]},
            conversation=turn,
            prefill="",
            options=make_options(further["labels"], ["{option}", "{Option}"]),
            positions=captured(turn, item.content["situation"], "answer"),
        )


def _lines(config: RationalityConfig, item: Item) -> Iterator[Question]:
    """Whether a decision can be made, and which it is after either answer to that."""
    content, wording = item.content, config.wording
    for reading, order in enumerate((1, -1)):
        first, second = config.answers[::order]
        words = {key: content[key] for key in ("situation", "ask", "event")}
        turn: Conversation = [{"role": "user", "content": wording.line.format(**words, first=first, second=second)}]
        begun = {LINE_1: wording.can}
        begun |= {f"{LINE_2}, {able}": f"{wording.can} {able}\n{wording.decision}" for able in config.answers}
        for name, prefill in begun.items():
            evidence = (
                {"evidence": content["evidence"], "truth": content["p_star"]} if name == LINE_1 and not reading else {}
            )
            yield Question(
                readout_id=f"{item.id}/{name}.{reading}",
                method=TREE,
                scenario=LINE_1 if name == LINE_1 else LINE_2,
                conditions={"reading": reading, "line": name, **evidence},
                conversation=turn,
                prefill=prefill,
                options=written(config.answers, [" {option}"]),
                positions=captured(turn, content["situation"], "action"),
            )


def _menus(config: RationalityConfig, item: Item) -> Iterator[Question]:
    """A choice of two, and of the same two and a third, in either order."""
    content = item.content
    for options in (config.answers, (*config.answers, config.wording.defer)):
        for reading, order in enumerate((1, -1)):
            first, second = config.answers[::order]
            text = config.wording.menu.format(
                **{key: content[key] for key in ("situation", "ask", "event")},
                first=first,
                second=second,
                options=", ".join(options[::order]),
            )
            turn: Conversation = [{"role": "user", "content": text}]
            yield Question(
                readout_id=f"{item.id}/menu-{len(options)}.{reading}",
                method=MENU,
                scenario=MENU,
                conditions={"reading": reading, "menu": len(options)},
                conversation=turn,
                prefill="",
                options=written(options, ["{option}"]),
                positions=captured(turn, content["situation"], "action"),
            )


def _tickets(config: RationalityConfig, item: Item) -> Iterator[Question]:
    """A bet on the target, or one of a known chance for the same prize, the bets named in either order at the end."""
    case, urn = config.wording.tickets
    words = {key: item.content[key] for key in ("situation", "ask", "event")}
    words |= {"yes": config.answers[0], "case": case, "urn": urn}
    for percent, (reading, order) in product(config.stakes, enumerate((1, -1))):
        first, second = (case, urn)[::order]
        text = config.wording.ticket.format(**words, percent=f"{percent:g}", first=first, second=second)
        turn: Conversation = [{"role": "user", "content": text}]
        yield Question(
            readout_id=f"{item.id}/ticket-{percent:g}.{reading}",
            method=TICKET,
            scenario=TICKET,
            conditions={"reading": reading, "percent": percent},
            conversation=turn,
            prefill="",
            options=written((case, urn), ["{option}"]),
            positions=captured(turn, item.content["situation"], "action"),
        )


def acted_rows(config: RationalityConfig, item: Item, rows: Sequence[Mapping[str, Any]]) -> Rows:
    """The belief that the exact choices between tickets, among these rows of the belief table, act on (METRICS E17).
    The log-odds of both orders of the bets are averaged: a taste for the first, or the last, is left out.
    """
    bets = [row for row in rows if row["scenario"] == TICKET and row["kind"] == "exact"]
    if not bets:
        return []
    logp = {(row["percent"], row["reading"], row["option_index"]): float(row.get("logp", np.nan)) for row in bets}
    taste = [[logp[percent, k, 0] - logp[percent, k, 1] for k in (0, 1)] for percent in config.stakes]
    status = worst_status(row["status"] for row in bets)
    belief = np.nan
    if status in VALUED:
        belief, fault = indifference_point(np.array(config.stakes) / 100, np.mean(taste, axis=1))
        status = fault if fault != "ok" else status
    coverage = float(np.mean([row["coverage"] for row in bets]))
    names = {"readout_id": f"{item.id}/{STANDARD}/{ACTED}", "method": ACTED, "estimate": "indifference"}
    place = {key: bets[0][key] for key in ("experiment", "item", "cluster")}
    place |= {"scenario": BELIEF, "step": 0, "prompt": STANDARD, "truth": item.content["p_star"]}
    of_belief = option_rows(
        config.answers, (belief, 1 - belief), kind="acted", coverage=coverage, status=status, **names
    )
    return [place | row for row in of_belief]


# What the model says at each place: the exact distribution of its numbers, and sampled answers.

NUMBERS = "numbers"


def stated_rows(config: RationalityConfig, item: Item, lm: LanguageModel) -> StatedRead:
    """What is stated in all formats.

    Numbers are read under every prompt and in every case. Answers are sampled under every prompt, each a reading of
    its own; in a case their mean is the number distribution's.
    """
    result = StatedRead([], [], [], [])
    rows, transcripts = result.rows, result.transcripts
    asked = [question for question in places(config, item) if question.scenario != PRIOR]
    for name in dict.fromkeys((*config.said.numbers, *config.said.sampled)):
        pairs = [(_place(config, question), _question(config, item, question, name, lm.reader)) for question in asked]
        if name in config.said.numbers:
            numbers = [question for _, question in pairs]
            read = result.read(config, lm, numbers)
            for (place, _), question in zip(pairs, read, strict=True):
                rows.extend(_numbers(place, question, config))
        if name in config.said.sampled:
            here = [(place, question) for place, question in pairs if place.scenario == BELIEF]
            sampling = config.sampling.model_copy(update={"max_new_tokens": ANSWER_TOKENS})
            written = write_answers(
                lm, [question for _, question in here], sampling, draws=config.said.repetitions, seed=config.seed
            )
            for (place, question), answers in zip(here, written, strict=True):
                for answer in answers:
                    for row in answer_rows(question, "sampled", [answer], place.options, config.low_coverage):
                        where = place.columns(reading=answer.draw)
                        rows.append(where | row | {"readout_id": f"{row['readout_id']}.{answer.draw}"})
            transcripts.extend(
                number_transcript(lm.reader.chat, question, place.options, answers)
                for (place, question), answers in zip(here, written, strict=True)
            )
            pairs = [pair for pair in pairs if pair not in here]
        if name in config.said.numbers:
            transcripts.extend(number_transcript(lm.reader.chat, question, place.options) for place, question in pairs)
    return _with_auxiliary(config, item, lm, result)


def _place(config: RationalityConfig, place: BeliefSite) -> BeliefPlace:
    return BeliefPlace(place.name, place.scenario, 0, [], config.answers, place.conditions)


def planned_numbers(config: RationalityConfig, item: Item, reader: PromptReader) -> AskedNumbers:
    """The same, before anything is read."""
    asked = [question for question in places(config, item) if question.scenario != PRIOR]
    together = [[_question(config, item, place, name, reader) for place in asked] for name in config.said.numbers]
    answers = sum(place.scenario == BELIEF for place in asked) * len(config.said.sampled) * config.said.repetitions
    return AskedNumbers([*together, _states_asked(config, item, reader)], ANSWER_TOKENS * answers)


def _question(
    config: RationalityConfig, item: Item, place: BeliefSite, name: str, reader: PromptReader
) -> NumberQuestion:
    turn = user_turn(item, place, config, config.wording.number)
    here = _captured_number(config, turn, place.situation)
    form = config.number_format(name, *config.answers)
    return ask_number(reader, f"{place.name}/{name}", turn, form, positions=here)


def _captured_number(config: RationalityConfig, turn: Conversation, situation: str) -> Positions:
    """Where a capture reads a question for a number."""
    if config.capture is None:
        return {}
    return captured(turn, situation, "number") if config.capture.positions is None else config.capture.positions


def _numbers(place: BeliefPlace, read: NumberReading, config: RationalityConfig) -> Rows:
    """The mean of the distribution, its spread, and by how much several lines do not add up to 1."""
    beside = {"sd": read.belief.sd}
    if len(read.lines) > 1:
        beside["excess"] = sum(line.mean for line in read.lines) - 1
    return [place.columns(**beside) | row for row in read.rows(place.options, config.low_coverage)]


def _with_auxiliary(config: RationalityConfig, item: Item, lm: LanguageModel, result: StatedRead) -> StatedRead:
    """Beside that, a number for each state of the covariate that was not revealed."""
    further: Any = item.content["auxiliary"]
    asked = _states_asked(config, item, lm.reader)
    if not asked:
        return result
    (question,), (read,) = asked, result.read(config, lm, asked)
    states = OptionNumbers(question.readout_id, tuple(further["labels"]), (question,))
    where = {"scenario": AUXILIARY, "step": 0, "covariate": further["variable"], "shares": further["shares"]}
    rows = states.rows_of_each(NUMBERS, [read.stated(config.low_coverage)])
    return result._replace(
        rows=[*result.rows, *(where | row for row in rows)],
        transcripts=[*result.transcripts, number_transcript(lm.reader.chat, question, further["labels"])],
    )


def _states_asked(config: RationalityConfig, item: Item, reader: PromptReader) -> list[NumberQuestion]:
    """The question for the states of the covariate that was not revealed; none if there is no such covariate."""
    further: Any = item.content["auxiliary"]
    if not (config.said.auxiliary and config.iterated and further):
        return []
    text = config.wording.auxiliary_number.format(situation=item.content["situation"], noun=further["noun"])
    turn: Conversation = [{"role": "user", "content": text}]
    here = _captured_number(config, turn, item.content["situation"])
    form = line_format("states", config.wording.states, further["labels"])
    return [ask_number(reader, f"{item.id}/auxiliary", turn, form, positions=here)]
