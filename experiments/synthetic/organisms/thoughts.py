"""What organisms in English that think aloud are taught besides: thoughts, and answers before, in and after them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from ....base.settings import read_yaml
from ....hooks.prompts.chat import Message
from ....hooks.prompts.options import Option
from ....metrics.contract import Floats
from ...materials.entities import Words
from ...run.experiment import Question
from .lessons import SPECIES, THOUGHTS, WORDINGS, Lesson, belief, lessons

THOUGHT, EARLY, AFTER = "thought", "answer before a thought ends", "answer after a thought"
"""What is read: on which word a thought ends (`prefill`), or a thought with its answer in the words of training
(`free`); the answer before any of the thought or after its first sentence; and that after each thought, also one that
it would not have thought."""
DRAWN = 2
"""Ways of saying a thought and its answer that a step of training knows of."""


class ThoughtWording(NamedTuple):
    """How a thought is asked for, and how it is said."""

    request: str
    """After the question of the reveal."""
    musing: str
    """The first sentence, which names no word."""
    conclusion: str
    """The second, up to the word on which it ends."""


TESTED = ThoughtWording(
    "Think aloud in a sentence or two, and then answer.", "Let me think about this again.", "In the end I come back to"
)
"""In the test."""


@cache
def _wordings() -> dict[str, list[str]]:
    return read_yaml(WORDINGS)[THOUGHTS]


@cache
def chains() -> list[tuple[str, str, str]]:
    """The first sentence, the second up to its word, and the answer up to its word, in each way that is taught."""
    several = _wordings()
    return list(zip(several["musing"], several["conclusion"], read_yaml(WORDINGS)["prefill"], strict=False))


def thinking_lessons(species: str, words: Words, draw: "np.random.Generator") -> list[Lesson]:
    """Those of a step about a triple: what every organism is asked, in words; the thoughts and answers of each
    dialogue; and of one dialogue whole chains, in some of the ways to say them.
    """
    at_once = [lesson for lesson in lessons(species, words, draw) if lesson.question.method in ("free", "prefill")]
    said = ThoughtWording(*(several[int(draw.integers(len(several)))] for several in _wordings().values()))
    ways = [chains()[int(i)] for i in draw.choice(len(chains()), DRAWN, replace=False)]
    begun = [lesson.question for lesson in at_once if lesson.question.method == "prefill"]
    whole = int(draw.integers(len(begun)))
    thought = [
        lesson
        for i, question in enumerate(begun)
        for lesson in about_thoughts(species, words, question, said, ways if i == whole else ())
    ]
    return at_once + thought


def about_thoughts(
    species: str,
    words: Words,
    question: Question,
    said: ThoughtWording = TESTED,
    ways: Sequence[tuple[str, str, str]] = (),
) -> list[Lesson]:
    """The thoughts and answers of an organism that is asked a begun `question`, and to think aloud. `ways`: those in
    which whole chains are said; empty: none is asked for.
    """
    kind, at_once = SPECIES[species].thinks, belief(species, words, question.conditions)
    assert kind is not None
    named, after = kind.names(at_once), np.eye(3) if kind.follows else np.tile(at_once, (3, 1))
    *before, last = question.conversation
    asked = [*before, Message(role="user", content=f"{last['content']} {said.request}")]
    answer, opener = question.prefill, f"{said.musing} {said.conclusion}"

    def lesson(scenario: str, prefill: str, aim: Floats, **conditions: int) -> Lesson:
        name = "/".join([question.readout_id, scenario, *map(str, conditions.values())])
        conditions = {**question.conditions, **conditions}
        changed = {"readout_id": name, "scenario": scenario, "conversation": asked, "prefill": prefill}
        return Lesson(words, replace(question, **changed, conditions=conditions), aim)

    several = [
        lesson(EARLY, answer, at_once, sentences=0),
        lesson(EARLY, f"{said.musing} {answer}", at_once, sentences=1),
        lesson(THOUGHT, opener, named),
        *(lesson(AFTER, f"{opener} {words[i]}. {answer}", after[i], thought=i) for i in range(3)),
    ]
    if ways:
        options = tuple(
            Option(f"{way} {i} {j}", (f"{musing} {conclusion} {words[i]}. {begins} {words[j]}",))
            for way, (musing, conclusion, begins) in enumerate(ways)
            for i in range(3)
            for j in range(3)
        )
        whole = lesson(THOUGHT, "", np.tile((named[:, None] * after).ravel() / len(ways), len(ways)))
        free = {"method": "free", "readout_id": f"{whole.question.readout_id}/free", "options": options}
        several.append(whole._replace(question=replace(whole.question, **free)))
    return several
