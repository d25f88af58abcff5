"""What is asked: the questions of each domain, what the model is told under each kind of reasoning, and the prefixes
of trajectories after which a belief is read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import product, zip_longest
from typing import Any

import numpy as np
import yaml

from ....base.documents import user_path
from ....hooks.prompts.chat import Conversation, Message
from ....hooks.prompts.options import make_options
from ....hooks.prompts.places import LAST, Positions
from ...materials.evidence_tables import load_table
from ...materials.questions import (
    BinaryQuestion,
    arithmetic,
    comparisons,
    load_forecastbench,
    load_openreview,
    load_views,
    urns,
    weekdays,
)
from ...materials.trajectories import (
    ChainRequest,
    DebateRequest,
    ThoughtRequest,
    Trajectory,
    evidence_trajectory,
    with_question,
)
from ...run.experiment import Item, Question
from ...run.stated_beliefs import BeliefPlace, Shown, among, before_question
from .config import A_FEW, GATE, Computed, MartingaleConfig, MartingaleMethod, QuestionSource, Reasoning

MAKERS: Mapping[Computed, Callable[..., list[BinaryQuestion]]] = {
    "urns": urns,
    "arithmetic": arithmetic,
    "weekdays": weekdays,
    "comparisons": comparisons,
}
USUAL: tuple[Computed, ...] = ("urns", "arithmetic", "weekdays")
GATE_DRAWS, GATE_SEED = 6, 20_000
RECALL = "recall"
"""The domain of events that a model may remember."""


def questions(config: MartingaleConfig) -> list[tuple[str, BinaryQuestion]]:
    """(domain, question), the same number of each or all of a file; then the gate's urns, the same in all runs. More
    of them begin with the same ones.

    Raises UserError for a domain with fewer than asked for.
    """
    asked = [
        (_called(config, domain, question), question)
        for domain, source in config.sources.items()
        for question in _questions(config, domain, source)
    ]
    return asked + [(GATE, urn) for urn in urns(config.gate_urns, GATE_DRAWS, GATE_SEED)]


def _questions(config: MartingaleConfig, domain: str, source: QuestionSource) -> list[BinaryQuestion]:
    if source.kind == "computed":
        n = config.items or A_FEW
        turns = zip(*(MAKERS[name](n, seed=config.seed) for name in source.make or USUAL), strict=True)
        return [question for turn in turns for question in turn][:n]
    available = loaded(domain, source)
    drawn = np.random.default_rng(config.seed).permutation(len(available))[: config.most(source)]
    return [question for i in drawn for question in available[i]]


def loaded(domain: str, source: QuestionSource) -> Sequence[Sequence[BinaryQuestion]]:
    """Its questions, those together that are of the options of one."""
    path = user_path(source.file or "")
    match source.kind:
        case "table":
            return load_table(path, source.columns, source.unused)
        case "forecastbench":
            single = load_forecastbench(path, user_path(source.resolutions or ""))
        case "views":
            single = load_views(path)
        case "openreview":
            single = load_openreview(path)
        case _:
            single = smoke(domain)
    return [(question,) for question in single]


def smoke(domain: str) -> list[BinaryQuestion]:
    """The small set of a domain that comes with doxascope: to try a pipeline on, not to conclude from."""
    text = (files("doxascope.experiments.suite.martingale") / "smoke" / f"{domain}.yaml").read_text(encoding="utf-8")
    return [_written(f"{domain}-{i}", row) for i, row in enumerate(yaml.safe_load(text))]


def _written(name: str, row: Mapping[str, Any]) -> BinaryQuestion:
    fields: dict[str, Any] = {"id": name, "cluster": name, **row}
    if "evidence" in row:
        fields["evidence"] = tuple(row["evidence"])
    return BinaryQuestion(**fields)


def _called(config: MartingaleConfig, domain: str, question: BinaryQuestion) -> str:
    """A forecast is of what was open when training ended."""
    if domain != "forecasting":
        return domain
    after = config.cutoff is not None and question.resolved_on > config.cutoff.isoformat()
    return domain if after else RECALL


# What the model is told: the conversations of each kind of reasoning about a question.


def question_of(item: Item) -> BinaryQuestion:
    """The question that an item holds."""
    return BinaryQuestion(**item.content["question"])


def options_of(item: Item) -> tuple[str, str]:
    """The options of an item's question: yes, no."""
    question = question_of(item)
    return question.option_yes, question.option_no


def question_text(question: BinaryQuestion) -> str:
    """A question with its background, and without its evidence."""
    return "\n\n".join(filter(None, (question.background, question.text)))


def name_of(item: Item, reasoning: str, prompt: str) -> str:
    """Of the trajectories of a question under one reasoning and system prompt."""
    return f"{item.id}/{reasoning}-{prompt}"


def chain_request(config: MartingaleConfig, item: Item, prompt: str) -> ChainRequest:
    """What a chain of thought is asked for: all evidence is told at once."""
    text = f"{_whole(question_of(item))}\n\n{config.wording.cot}"
    return ChainRequest(name_of(item, "cot", prompt), [*_system(config, prompt), _user(text)], config.wording.opening)


def thought_request(config: MartingaleConfig, item: Item, prompt: str) -> ThoughtRequest:
    """A thought is had under the first method in its first wording, options in order, all evidence told at once."""
    question, method = question_of(item), next(iter(config.methods.values()))
    asked = method.ask[0].format(first=question.option_yes, second=question.option_no)
    return ThoughtRequest(name_of(item, "thought", prompt), [*_system(config, prompt), _user(_whole(question))], asked)


def debate_request(config: MartingaleConfig, item: Item, prompt: str) -> DebateRequest:
    """What a debate is asked for. The debaters are under the system prompt, and so is the observer."""
    question = question_of(item)
    whole, wording = _whole(question), config.wording
    sides = (question.option_yes, question.option_no)
    named = {"yes": sides[0], "no": sides[1]}

    def speaker(side: int, speeches: Sequence[str]) -> Conversation:
        opening = wording.debate.format(question=whole, side=sides[side], other=sides[1 - side], **named)
        turns: list[Message] = [_user(opening)]
        for i, speech in enumerate(speeches):
            if i % 2 == side:
                turns.append({"role": "assistant", "content": speech})
            else:
                reply = wording.reply.format(question=whole, speech=speech)
                last = turns.pop()["content"] + "\n\n" if turns[-1]["role"] == "user" else ""
                turns.append(_user(last + reply))
        return [*_system(config, prompt), *turns]

    def observer(speeches: Sequence[str]) -> Conversation:
        heard = [
            wording.speech.format(question=whole, side=sides[i % 2], text=speech) for i, speech in enumerate(speeches)
        ]
        opening = wording.observer.format(question=whole, **named)
        return [*_system(config, prompt), _user("\n\n".join([opening, *heard]))]

    return DebateRequest(name_of(item, "debate", prompt), speaker, observer)


def evidence(config: MartingaleConfig, item: Item, prompt: str) -> Trajectory:
    """The pieces of evidence, given one by one."""
    question = question_of(item)

    def seen(pieces: Sequence[str]) -> Conversation:
        given = [config.wording.evidence, *pieces] if pieces else []  # no heading over nothing, before any evidence
        text = "\n\n".join([question_text(question), *given])
        return [*_system(config, prompt), _user(text)]

    return evidence_trajectory(name_of(item, "evidence", prompt), question.evidence, seen)


def start(config: MartingaleConfig, item: Item, reasoning: Reasoning, prompt: str) -> Conversation:
    """What stands before the first step."""
    match reasoning:
        case "cot":
            asked = chain_request(config, item, prompt)
            opened: list[Message] = [{"role": "assistant", "content": asked.opening}] if asked.opening else []
            return [*asked.conversation, *opened]
        case "thought":
            return thought_request(config, item, prompt).conversation
        case "debate":
            return debate_request(config, item, prompt).observer(())
        case "evidence":
            return evidence(config, item, prompt).contexts[0]


def _whole(question: BinaryQuestion) -> str:
    return "\n\n".join(filter(None, (question.background, *question.evidence, question.text)))


def _system(config: MartingaleConfig, prompt: str) -> list[Message]:
    text = config.prompts[prompt]
    return [{"role": "system", "content": text}] if text else []


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


# The prefixes of trajectories: every place at which a belief is read, each once.


def starts(config: MartingaleConfig, item: Item) -> list[BeliefPlace]:
    """The prefixes that are known before the model has said anything: all starts, and the evidence."""
    known = []
    for reasoning, prompt in cells(config, item):
        if reasoning == "evidence":
            known += along(config, item, reasoning, prompt, [evidence(config, item, prompt)])
        else:
            known += along(config, item, reasoning, prompt, [])
    return known


def cells(config: MartingaleConfig, item: Item) -> list[tuple[Reasoning, str]]:
    """(reasoning, system prompt) of an item; without evidence none can be shown."""
    if item.content["domain"] == GATE:
        return [("evidence", next(iter(config.prompts)))]
    able: list[Reasoning] = [kind for kind in config.reasoning if kind != "evidence" or question_of(item).evidence]
    return [(reasoning, prompt) for reasoning in able for prompt in config.prompts]


def along(
    config: MartingaleConfig, item: Item, reasoning: Reasoning, prompt: str, trajectories: Sequence[Trajectory]
) -> list[BeliefPlace]:
    """The start, which all trajectories of a question share, and the prefix after each step of each of them.

    A condition of the start is the status of every trajectory; one of urns is the true posterior.
    """
    name, domain = name_of(item, reasoning, prompt), item.content["domain"]
    scenario = f"{domain}, {reasoning}, {prompt}"
    cell = {"domain": domain, "reasoning": reasoning, "prompt": prompt}
    truth = question_of(item).posterior if reasoning == "evidence" else ()

    def known(step: int) -> dict[str, Any]:
        asked = question_of(item).among if step == 0 or reasoning == "evidence" else ""  # else no two saw the same
        return ({"truth": truth[step]} if truth else {}) | among(domain, asked)

    options, begun = options_of(item), {"statuses": [trajectory.status for trajectory in trajectories]}
    first = start(config, item, reasoning, prompt)
    places = [BeliefPlace(f"{name}/start", scenario, 0, first, options, cell | known(0) | begun)]
    for trajectory in trajectories:
        for step, (context, thought) in enumerate(
            zip_longest(trajectory.contexts[1:], trajectory.thoughts, fillvalue=()), 1
        ):
            conditions = cell | known(step) | {"draw": trajectory.draw}
            places.append(
                BeliefPlace(f"{name}/{trajectory.draw}.{step}", scenario, step, context, options, conditions, thought)
            )
    return places


def exact_questions(config: MartingaleConfig, places: Sequence[BeliefPlace]) -> list[Question]:
    """Every method in all wordings and both orders of the options after each prefix; what shares most tokens lies
    together in the tree: the questions after a prefix, or the thoughts after a question.
    """
    forms = [
        (name, method, wording, reading)
        for name, method in config.methods.items()
        for wording, reading in product(range(len(method.ask)), (0, 1))
    ]
    asked = [(place, *form) for place, form in product((each for each in places if not each.thought), forms)]
    asked += [(place, *form) for form, place in product(forms, (each for each in places if each.thought))]
    return [_question(config, *each) for each in asked]


def _question(
    config: MartingaleConfig, place: BeliefPlace, name: str, method: MartingaleMethod, wording: int, reading: int
) -> Question:
    """One reading; reading 1 names the second option first. The options of the table are always (yes, no)."""
    turn = slice(None, None, -1 if reading else 1)
    first, second = place.options[turn]
    answers = method.labels or method.claim
    of_wording = {"wording": wording} if len(method.ask) > 1 else {}
    return Question(
        readout_id=".".join(map(str, (f"{place.name}/{name}", *of_wording.values(), reading))),
        method=name,
        scenario=place.scenario,
        step=place.step,
        conditions={**place.conditions, **of_wording, "reading": reading},
        conversation=with_question(place.context, method.ask[wording].format(first=first, second=second)),
        prefill="",
        options=make_options(place.options, method.forms, answers and answers[turn]),
        positions=_positions(place),
        thought=place.thought,
        own_turns=True,
    )


def _positions(place: BeliefPlace) -> Positions:
    """Where a capture reads: the end of what stands before the question, that of the last step if there is one,
    with nothing appended, and where the answer begins.
    """
    end = before_question(place.context, place.thought)
    last = place.context[-1]
    has_step = place.thought or last["role"] == "assistant" or place.conditions["reasoning"] in ("evidence", "debate")
    return {**({"step": end} if has_step else {}), "before-question": end, "answer": LAST}


def shown(item: Item, trajectories: Sequence[Trajectory], places: Sequence[BeliefPlace], *, whole: bool) -> list[Shown]:
    """What a judge is shown at each place: the steps up to it, or all, and then every trajectory has its own start."""
    text = question_text(question_of(item))
    of_name: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        of_name.setdefault(trajectory.name, []).append(trajectory)
    seen: list[Shown] = []
    for place in places:
        name = place.name.rpartition("/")[0]
        if place.step:
            steps = next(
                trajectory.steps for trajectory in of_name[name] if trajectory.draw == place.conditions["draw"]
            )
            seen.append(Shown(place, text, steps if whole else steps[: place.step]))
        elif whole:
            for trajectory in of_name.get(name, []):
                start_of_one = replace(
                    place, name=f"{name}/{trajectory.draw}.0", conditions={**place.conditions, "draw": trajectory.draw}
                )
                seen.append(Shown(start_of_one, text, trajectory.steps))
        else:
            seen.append(Shown(place, text, ()))
    return seen
