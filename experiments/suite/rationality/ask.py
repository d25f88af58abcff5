"""What is asked of a context: beliefs and actions, each in a context of its own on the trunk of one situation, and
what the model says in numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ....hooks.exact.option_beliefs import option_rows
from ....hooks.exact.queries import PromptReader
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Conversation
from ....hooks.prompts.options import Option, make_options
from ....hooks.prompts.places import LAST, Position
from ....hooks.verbal.number_distributions import NumberReading
from ....hooks.verbal.number_formats import line_format
from ....hooks.verbal.stated_beliefs import NumberQuestion, OptionNumbers, ask_number
from ....metrics import indifference_point
from ....metrics.beliefs import VALUED, worst_status
from ...run.experiment import Item, Question
from ...run.readouts import number_transcript
from ...run.stated_beliefs import (
    AskedNumbers,
    BeliefPlace,
    Rows,
    StatedRead,
    planned_answers,
    planned_numbers,
    stated_rows,
)
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


def _about_situation(
    item: Item,
    name: str,
    method: str,
    scenario: str,
    text: str,
    options: tuple[Option, ...],
    conditions: Mapping[str, Any],
    prefill: str = "",
    answer: str = "action",
) -> Question:
    """A question about the situation, in a context of its own."""
    turn: Conversation = [{"role": "user", "content": text}]
    at = captured(turn, item.content["situation"], answer)
    return Question(f"{item.id}/{name}", method, scenario, turn, prefill, options, conditions=conditions, positions=at)


def _words(item: Item) -> dict[str, str]:
    return {key: item.content[key] for key in ("situation", "ask", "event")}


def _auxiliary(config: RationalityConfig, item: Item) -> Iterator[Question]:
    """The covariate that was not revealed, its states named in either order."""
    further = item.content["auxiliary"]
    if not (config.iterated and further):
        return
    options = make_options(further["labels"], ["{option}", "{Option}"])
    for reading, order in enumerate((1, -1)):
        listed = ", ".join(further["labels"][::order])
        situation, noun = item.content["situation"], further["noun"]
        text = config.wording.auxiliary.format(situation=situation, noun=noun, options=listed)
        about = {"reading": reading, "covariate": further["variable"], "shares": further["shares"]}
        name = f"auxiliary.{reading}"
        yield _about_situation(item, name, OPTIONS, AUXILIARY, text, options, about, answer="answer")


def _lines(config: RationalityConfig, item: Item) -> Iterator[Question]:
    """Whether a decision can be made, and which it is after either answer to that."""
    content, wording = item.content, config.wording
    options = written(config.answers, [" {option}"])
    for reading, order in enumerate((1, -1)):
        first, second = config.answers[::order]
        text = wording.line.format(**_words(item), first=first, second=second)
        begun = {LINE_1: wording.can}
        begun |= {f"{LINE_2}, {able}": f"{wording.can} {able}\n{wording.decision}" for able in config.answers}
        for name, prefill in begun.items():
            about = {"reading": reading, "line": name}
            if name == LINE_1 and not reading:
                about |= {"evidence": content["evidence"], "truth": content["p_star"]}
            scenario = LINE_1 if name == LINE_1 else LINE_2
            yield _about_situation(item, f"{name}.{reading}", TREE, scenario, text, options, about, prefill)


def _menus(config: RationalityConfig, item: Item) -> Iterator[Question]:
    """A choice of two, and of the same two and a third, in either order."""
    for names in (config.answers, (*config.answers, config.wording.defer)):
        options, size = written(names, ["{option}"]), len(names)
        for reading, order in enumerate((1, -1)):
            first, second = config.answers[::order]
            words = {"first": first, "second": second, "options": ", ".join(names[::order])}
            text, about = config.wording.menu.format(**_words(item), **words), {"reading": reading, "menu": size}
            yield _about_situation(item, f"menu-{size}.{reading}", MENU, MENU, text, options, about)


def _tickets(config: RationalityConfig, item: Item) -> Iterator[Question]:
    """A bet on the target, or one of a known chance for the same prize, the bets named in either order at the end."""
    case, urn = config.wording.tickets
    words = _words(item) | {"yes": config.answers[0], "case": case, "urn": urn}
    for percent, (reading, order) in product(config.stakes, enumerate((1, -1))):
        first, second = (case, urn)[::order]
        text = config.wording.ticket.format(**words, percent=f"{percent:g}", first=first, second=second)
        name, about = f"ticket-{percent:g}.{reading}", {"reading": reading, "percent": percent}
        yield _about_situation(item, name, TICKET, TICKET, text, written((case, urn), ["{option}"]), about)


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


def stated(config: RationalityConfig, item: Item, lm: LanguageModel) -> StatedRead:
    """What is stated in all formats, and a number for each state of the covariate that was not revealed."""
    result = stated_rows(_stating(config), _stated_places(config, item), lm, _spread)
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


def asked_numbers(config: RationalityConfig, item: Item, reader: PromptReader) -> AskedNumbers:
    """The same, before anything is read."""
    plan, places = _stating(config), _stated_places(config, item)
    together = [*planned_numbers(plan, places, reader), _states_asked(config, item, reader)]
    return AskedNumbers(together, planned_answers(plan, places))


def _stating(config: RationalityConfig) -> RationalityConfig:
    """With what is said as the plan of what is stated."""
    said = config.said
    plan = {"numbers": said.numbers, "sampled": said.sampled, "draws": said.repetitions}
    return config.model_copy(update={"stated": config.stated.model_copy(update=plan)})


def _stated_places(config: RationalityConfig, item: Item) -> list[BeliefPlace]:
    """Numbers are read under every prompt and in every case. Answers are sampled under every prompt, each a reading of
    its own; in a case their mean is the number distribution's.
    """
    asked = []
    for site in places(config, item):
        if site.scenario != PRIOR:
            turn, n = user_turn(item, site, config, config.wording.number), config.said.repetitions
            at, readings = captured(turn, site.situation, "number"), n if site.scenario == BELIEF else 0
            place = BeliefPlace(site.name, site.scenario, 0, turn, config.answers, site.conditions)
            asked.append(replace(place, positions=at, readings=readings))
    return asked


def _spread(readings: Sequence[NumberReading]) -> dict[str, object]:
    """How widely a number spreads, and by how much several lines do not add up to 1."""
    (read,) = readings
    excess = {"excess": sum(line.mean for line in read.lines) - 1} if len(read.lines) > 1 else {}
    return {"sd": read.belief.sd, **excess}


def _states_asked(config: RationalityConfig, item: Item, reader: PromptReader) -> list[NumberQuestion]:
    """The question for the states of the covariate that was not revealed; none if there is no such covariate."""
    further: Any = item.content["auxiliary"]
    if not (config.said.auxiliary and config.iterated and further):
        return []
    text = config.wording.auxiliary_number.format(situation=item.content["situation"], noun=further["noun"])
    turn: Conversation = [{"role": "user", "content": text}]
    at = {} if config.capture is None else config.capture.positions
    at = captured(turn, item.content["situation"], "number") if at is None else at
    form = line_format("states", config.wording.states, further["labels"])
    return [ask_number(reader, f"{item.id}/auxiliary", turn, form, positions=at)]
