"""The prefixes of trajectories: every place at which a belief is read, each once."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product, zip_longest

from ...hooks.prompts.options import make_options
from ...hooks.prompts.places import LAST, Position, Positions
from ..experiment import Item, Question
from ..materials.trajectories.trajectory import Trajectory, with_question
from ..reading.judge import Shown
from ..reading.place import BeliefPlace
from .config import MartingaleConfig, MartingaleMethod, Reasoning
from .prompts import evidence, name_of, options_of, question_of, question_text, start
from .table import GATE


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
    able: list[Reasoning] = [one for one in config.reasoning if one != "evidence" or question_of(item).evidence]
    return [(reasoning, prompt) for reasoning in able for prompt in config.prompts]


def along(
    config: MartingaleConfig, item: Item, reasoning: Reasoning, prompt: str, trajectories: Sequence[Trajectory]
) -> list[BeliefPlace]:
    """The start, which all trajectories of a question share, and the prefix after each step of each of them.

    The variant of the start holds the status of every trajectory; those of urns hold the true posterior.
    """
    name, domain = name_of(item, reasoning, prompt), item.content["domain"]
    scenario = f"{domain}, {reasoning}, {prompt}"
    cell = {"domain": domain, "reasoning": reasoning, "prompt": prompt}
    truth = question_of(item).posterior if reasoning == "evidence" else ()

    def known(step: int) -> dict[str, float]:
        return {"truth": truth[step]} if truth else {}

    options, begun = options_of(item), {"statuses": [one.status for one in trajectories]}
    first = start(config, item, reasoning, prompt)
    found = [BeliefPlace(f"{name}/start", scenario, 0, first, options, cell | known(0) | begun)]
    for one in trajectories:
        for step, (context, thought) in enumerate(zip_longest(one.contexts[1:], one.thoughts, fillvalue=()), 1):
            variant = cell | known(step) | {"draw": one.draw}
            found.append(BeliefPlace(f"{name}/{one.draw}.{step}", scenario, step, context, options, variant, thought))
    return found


def exact_questions(config: MartingaleConfig, places: Sequence[BeliefPlace]) -> list[Question]:
    """Every method in all wordings and both orders of the options after each prefix; what shares most tokens lies
    together in the tree: the questions after a prefix, or the thoughts after a question.
    """
    forms = [
        (name, method, wording, reading)
        for name, method in config.methods.items()
        for wording, reading in product(range(len(method.ask)), (0, 1))
    ]
    asked = [(place, *form) for place, form in product((one for one in places if not one.thought), forms)]
    asked += [(place, *form) for form, place in product(forms, (one for one in places if one.thought))]
    return [_question(config, *one) for one in asked]


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
        variant={**place.variant, **of_wording, "reading": reading},
        conversation=with_question(place.context, method.ask[wording].format(first=first, second=second)),
        prefill="",
        options=make_options(place.options, method.forms, answers and answers[turn]),
        positions=_positions(place),
        thought=place.thought,
        own_turns=True,
    )


def _positions(place: BeliefPlace) -> Positions:
    """Where a capture reads: the end of the last step with nothing appended, and where the answer begins."""
    if place.thought:
        return {"step": Position(at="thought"), "answer": LAST}
    last = place.context[-1]
    if last["role"] == "assistant":
        return {"step": Position(message=-2), "answer": LAST}
    if place.variant["reasoning"] in ("evidence", "debate"):  # told in the message that then asks
        return {"step": Position(message=-1, text=last["content"].strip(), occurrence=0), "answer": LAST}
    return {"answer": LAST}


def shown(item: Item, trajectories: Sequence[Trajectory], places: Sequence[BeliefPlace], *, whole: bool) -> list[Shown]:
    """What a judge is shown at each place: the steps up to it, or all. With the whole in view even the start is of one
    trajectory, and so a place for each.
    """
    text = question_text(question_of(item))
    of_name: dict[str, list[Trajectory]] = {}
    for one in trajectories:
        of_name.setdefault(one.name, []).append(one)
    found: list[Shown] = []
    for place in places:
        name = place.name.rpartition("/")[0]
        if place.step:
            steps = next(one.steps for one in of_name[name] if one.draw == place.variant["draw"])
            found.append(Shown(place, text, steps if whole else steps[: place.step]))
        elif whole:
            for one in of_name.get(name, []):
                start_of_one = replace(place, name=f"{name}/{one.draw}.0", variant={**place.variant, "draw": one.draw})
                found.append(Shown(start_of_one, text, one.steps))
        else:
            found.append(Shown(place, text, ()))
    return found
