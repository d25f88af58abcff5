"""The prefixes of trajectories: every place at which a belief is read, each once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product, zip_longest
from typing import Any

from ...hooks.prompts.chat import Conversation
from ...hooks.prompts.options import make_options
from ...hooks.prompts.places import LAST, Position, Positions
from ..experiment import Item, Question
from ..materials.trajectories.trajectory import Trajectory, after
from .config import MartingaleConfig, Method, Reasoning
from .prompts import evidence, name_of, question_of, start


@dataclass(frozen=True)
class Prefix:
    """What stands before a question for the belief."""

    name: str
    scenario: str
    step: int
    context: Conversation
    variant: Mapping[str, Any] = field(default_factory=dict)
    thought: tuple[int, ...] = ()
    """The tokens of a think block so far, which follow the question."""

    @property
    def positions(self) -> Positions:
        """Where a capture reads: the end of the last step with nothing appended, and where the answer begins."""
        if self.thought:
            return {"step": Position(at="thought"), "answer": LAST}
        step = {"step": Position(message=-2)} if self.context[-1]["role"] == "assistant" else {}
        return {**step, "answer": LAST}


def starts(config: MartingaleConfig, item: Item) -> list[Prefix]:
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
    able: list[Reasoning] = [one for one in config.reasoning if one != "evidence" or question_of(item).evidence]
    return [(reasoning, prompt) for reasoning in able for prompt in config.prompts]


def along(
    config: MartingaleConfig, item: Item, reasoning: Reasoning, prompt: str, trajectories: Sequence[Trajectory]
) -> list[Prefix]:
    """The start, which all trajectories of a question share, and the prefix after each step of each of them.

    The variant of the start holds the status of every trajectory; those of urns hold the true posterior.
    """
    name, domain = name_of(item, reasoning, prompt), item.content["domain"]
    scenario = f"{domain}, {reasoning}, {prompt}"
    cell = {"domain": domain, "reasoning": reasoning, "prompt": prompt}
    truth = question_of(item).posterior if reasoning == "evidence" else ()

    def known(step: int) -> dict[str, float]:
        return {"truth": truth[step]} if truth else {}

    statuses = [one.status for one in trajectories]
    first = start(config, item, reasoning, prompt)
    found = [Prefix(f"{name}/start", scenario, 0, first, cell | known(0) | {"statuses": statuses})]
    return found + [
        Prefix(f"{name}/{one.draw}.{step}", scenario, step, context, cell | known(step) | {"draw": one.draw}, thought)
        for one in trajectories
        for step, (context, thought) in enumerate(zip_longest(one.contexts[1:], one.thoughts, fillvalue=()), 1)
    ]


def exact_questions(config: MartingaleConfig, item: Item, prefixes: Sequence[Prefix]) -> list[Question]:
    """Every method in both orders of the options after each prefix; what shares most tokens lies together in the tree:
    the questions after a prefix, or the thoughts after a question.
    """
    question = question_of(item)
    options = (question.option_yes, question.option_no)
    forms = list(product(config.methods.items(), (0, 1)))
    asked = [(prefix, *form) for prefix, form in product((one for one in prefixes if not one.thought), forms)]
    asked += [(prefix, *form) for form, prefix in product(forms, (one for one in prefixes if one.thought))]
    return [_question(config, prefix, name, method, options, reading) for prefix, (name, method), reading in asked]


def _question(
    config: MartingaleConfig, prefix: Prefix, name: str, method: Method, options: tuple[str, str], reading: int
) -> Question:
    """One reading; reading 1 names the second option first. The options of the table are always (yes, no)."""
    turn = slice(None, None, -1 if reading else 1)
    first, second = options[turn]
    answers = method.labels or method.claim
    return Question(
        readout_id=f"{prefix.name}/{name}.{reading}",
        method=name,
        scenario=prefix.scenario,
        step=prefix.step,
        variant={**prefix.variant, "reading": reading},
        conversation=after(prefix.context, method.ask.format(first=first, second=second)),
        prefill="",
        options=make_options(options, [config.lead + form for form in method.forms], answers and answers[turn]),
        positions=prefix.positions,
        thought=prefix.thought,
        own_turns=True,
    )
