"""What organisms in English that think aloud are taught besides: thoughts, and answers before, in and after them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from ....base.settings import read_yaml
from ....hooks.chains import read_chain
from ....hooks.lm import LanguageModel
from ....hooks.prompts.chat import Message
from ....hooks.prompts.options import Option
from ....metrics.contract import Floats
from ...materials.entities import Words, triples
from ...run.experiment import Question
from ...suite.consistency.ask import POSTERIOR, PRIOR, dialogue_questions
from .lessons import SPECIES, THOUGHTS, WORDINGS, Lesson, belief, known_words, lessons, shipped_config

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


def read_chains(lm: LanguageModel, n: int, seed: int) -> pd.DataFrame:
    """Chains about `n` triples of unseen nouns in the wording of the test, as `doxascope score` takes them: before
    anything is ruled out and after each word was, a thought that is drawn as the model thinks it, and the two others
    put in its place. The words are called a, b and c; a triple is a cluster.
    """
    config, draw, chains = shipped_config(), np.random.default_rng(seed), list[pd.DataFrame]()
    for number, words in enumerate(triples(known_words(trained=False), n, seed)):
        named = dict(zip(words, "abc", strict=True))
        for question in dialogue_questions(config, f"{number}", words):
            if question.method != "prefill" or question.scenario not in (PRIOR, POSTERIOR):
                continue
            if question.conditions and question.conditions["template"] != "reject":
                continue
            *before, last = question.conversation
            messages = [*before, Message(role="user", content=f"{last['content']} {TESTED.request}")]
            begun = lm.reader.query("thought", messages, question.options, f"{TESTED.musing} {TESTED.conclusion}")
            shares = np.exp(lm.read([begun]).readings[0].logp)
            ends = {word: f"{TESTED.conclusion} {word}." for word in words}
            thought = words[int(draw.choice(3, p=shares / shares.sum()))]
            chain = read_chain(
                lm,
                messages,
                (TESTED.musing, ends[thought]),
                question.prefill,
                words,
                names=thought,
                replaced={word: end for word, end in ends.items() if word != thought},
            )
            columns = {
                f"{of}_{word}": f"{of}_{letter}" for of in ("belief", "thought") for word, letter in named.items()
            }
            chain = chain.replace({"names": named, "replaced": named}).rename(columns=columns)
            chains.append(chain.assign(chain=question.readout_id, cluster=number))
    return pd.concat(chains, ignore_index=True)
