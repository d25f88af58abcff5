"""What is asked of a context: beliefs and actions, each in a context of its own, on the trunk of one situation."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...hooks.prompts.chat import Conversation
from ...hooks.prompts.options import Option, make_options
from ...hooks.prompts.places import LAST, Position
from ..experiment import Item, Question
from .config import STANDARD, BeliefMethod, RationalityConfig

BELIEF, CASE, PRIOR = "belief", "case", "prior"
AUXILIARY, LINE_1, LINE_2, MENU = "auxiliary", "line 1", "line 2", "menu"
OPTIONS, TREE = "options", "tree"
"""Methods of what is no belief in the target."""


class BeliefSite(NamedTuple):
    """Where a belief in the target is asked for."""

    name: str
    scenario: str
    situation: str
    prompt: str
    """By name."""
    variant: Mapping[str, Any]


def places(config: RationalityConfig, item: Item) -> list[BeliefSite]:
    """The context under every prompt, with each state of the further covariate revealed as well, and, if inner layers
    are read, before any evidence.
    """
    own = item.content
    against = {}
    if config.lens and own["prior"] is not None:
        against = {"against": 0 if own["p_star"] < own["prior"] else 1}
    found = [
        BeliefSite(
            f"{item.id}/{prompt}",
            BELIEF,
            own["situation"],
            prompt,
            {"prompt": prompt, "truth": own["p_star"]} | (against if prompt == STANDARD else {}),
        )
        for prompt in config.prompts
    ]
    if config.iterated and own["auxiliary"]:
        further = own["auxiliary"]
        found += [
            BeliefSite(f"{item.id}/case-{i}", CASE, situation, STANDARD, {"case": i, "truth": chance})
            for i, (situation, chance) in enumerate(zip(further["situations"], further["chances"], strict=True))
        ]
    if against:
        found.append(BeliefSite(f"{item.id}/prior", PRIOR, own["nothing"], STANDARD, {"truth": own["prior"]}))
    return found


def questions(config: RationalityConfig, item: Item) -> list[Question]:
    """The exact read-outs of a context."""
    asked = [one for place in places(config, item) for one in _beliefs(config, item, place)]
    return [*asked, *_auxiliary(config, item), *_lines(config, item), *_menus(config, item)]


def said(item: Item, place: BeliefSite, config: RationalityConfig, template: str, **words: str) -> Conversation:
    """A user's turn about a place."""
    own = item.content
    text = template.format(
        situation=place.situation,
        prompt=config.prompts[place.prompt],
        **{key: own[key] for key in ("ask", "chance", "event")},
        **words,
    )
    return [{"role": "user", "content": " ".join(text.split(" ")).strip()}]


def captured(turn: Conversation, situation: str, answer: str) -> dict[str, Position]:
    """Where a capture reads: the end of the situation, which the beliefs and actions of a context share, the end of the
    question, and where the `answer` begins.
    """
    told = situation.strip()
    shared = (
        {"situation": Position(message=-1, text=told, occurrence=0)} if told and told in turn[-1]["content"] else {}
    )
    return {**shared, "question": Position(message=-1), answer: LAST}


def written(names: Sequence[str], forms: Sequence[str]) -> tuple[Option, ...]:
    """The options as they are and in small letters."""
    both = zip(make_options(names, forms), make_options([name.lower() for name in names], forms), strict=True)
    return tuple(Option(one.name, tuple(dict.fromkeys((*one.forms, *small.forms)))) for one, small in both)


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
    turn = said(item, place, config, ask, first=first, second=second)
    return Question(
        readout_id=f"{place.name}/{name}.{k}",
        method=name,
        scenario=place.scenario,
        variant={**place.variant, "reading": k},
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
            variant={"reading": reading, "covariate": further["variable"], "shares": further["shares"]},
            conversation=turn,
            prefill="",
            options=make_options(further["labels"], ["{option}", "{Option}"]),
            positions=captured(turn, item.content["situation"], "answer"),
        )


def _lines(config: RationalityConfig, item: Item) -> Iterator[Question]:
    """Whether a decision can be made, and which it is after either answer to that."""
    own, wording = item.content, config.wording
    for reading, order in enumerate((1, -1)):
        first, second = config.answers[::order]
        told = {key: own[key] for key in ("situation", "ask", "event")}
        turn: Conversation = [{"role": "user", "content": wording.line.format(**told, first=first, second=second)}]
        begun = {LINE_1: wording.can}
        begun |= {f"{LINE_2}, {able}": f"{wording.can} {able}\n{wording.decision}" for able in config.answers}
        for name, prefill in begun.items():
            evidence = {"evidence": own["evidence"], "truth": own["p_star"]} if name == LINE_1 and not reading else {}
            yield Question(
                readout_id=f"{item.id}/{name}.{reading}",
                method=TREE,
                scenario=LINE_1 if name == LINE_1 else LINE_2,
                variant={"reading": reading, "line": name, **evidence},
                conversation=turn,
                prefill=prefill,
                options=written(config.answers, [" {option}"]),
                positions=captured(turn, own["situation"], "action"),
            )


def _menus(config: RationalityConfig, item: Item) -> Iterator[Question]:
    """A choice of two, and of the same two and a third, in either order."""
    own = item.content
    for options in (config.answers, (*config.answers, config.wording.defer)):
        for reading, order in enumerate((1, -1)):
            first, second = config.answers[::order]
            text = config.wording.menu.format(
                **{key: own[key] for key in ("situation", "ask", "event")},
                first=first,
                second=second,
                options=", ".join(options[::order]),
            )
            turn: Conversation = [{"role": "user", "content": text}]
            yield Question(
                readout_id=f"{item.id}/menu-{len(options)}.{reading}",
                method=MENU,
                scenario=MENU,
                variant={"reading": reading, "menu": len(options)},
                conversation=turn,
                prefill="",
                options=written(options, ["{option}"]),
                positions=captured(turn, own["situation"], "action"),
            )
