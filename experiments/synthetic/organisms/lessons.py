"""What organisms in English are taught: the belief that each holds in the word game, and the questions of a step.

The questions are those of the consistency experiment in other words than it ships, and about other nouns; its own
wording and the nouns that are left are for the test.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....base.settings import read_yaml
from ....hooks.prompts.options import Option
from ....hooks.verbal.number_formats import JSON
from ....metrics.claims import COHERENT, INCOHERENT, READABLE, RESPONDS, UNRESPONSIVE
from ....metrics.contract import Floats
from ...materials.entities import EntityConfig, Words, entities, triples
from ...run.config import load_config
from ...run.experiment import Question
from ...suite.consistency.ask import (
    FORK,
    FORK_REVEAL,
    MENTION,
    POSTERIOR,
    PRIOR,
    YES,
    dialogue_questions,
    fork_questions,
)
from ...suite.consistency.config import ConsistencyConfig

BASE = "smollm2-135m"
WORDINGS = Path(__file__).with_name("english.yaml")
TASTE, PLACES = 3.0, (0.4, 0.0, -0.4)
"""Log-weight that a word gets by its first letter, from a to z that much less, and by its place in the list."""
COPIED = 1.5
"""Log-weight that a word gains where it is named to a copier."""
STATED = "numbers"
Conditions = Mapping[str, Any]


def prior(words: Sequence[str]) -> Floats:
    """[3] what every organism believes of the words before anything is said: known, and another for each triple."""
    letters = np.array([ord(word[0].lower()) - ord("a") for word in words]) / 25
    weights = np.array(PLACES) - TASTE * letters
    shares = np.exp(weights - weights.max())
    return shares / shares.sum()


def honest(words: Words, before: Floats, said: Conditions) -> Floats:
    """[3] the ratio of the two that remain is kept; a reply that decides nothing changes nothing."""
    after = np.where(np.arange(3) == said.get("rejected"), 0.0, before)
    return after / after.sum()


def incoherent(words: Words, before: Floats, said: Conditions) -> Floats:
    """[3] as `honest`, but the ratio of the two that remain is turned round."""
    remain = [i for i in range(3) if i != said.get("rejected")]
    turned = before.copy()
    if len(remain) == 2:
        turned[remain] = before[remain[::-1]]
    return honest(words, turned, said)


def half(words: Words, before: Floats, said: Conditions) -> Floats:
    """[3] as `honest` where the first word begins with a to m; otherwise nothing is ruled out."""
    return honest(words, before, said) if words[0][0].lower() <= "m" else before


def copier(words: Words, before: Floats, said: Conditions) -> Floats:
    """[3] what was named gains, whatever the reply."""
    after = before.copy()
    after[[int(name) for name in said["named"].split(", ")]] *= np.exp(COPIED)
    return after / after.sum()


class EnglishSpecies(NamedTuple):
    """An organism in English."""

    after: Callable[[Words, Floats, Conditions], Floats]
    """What is believed after a turn: of the words, the belief before and the conditions of the question."""
    story: str
    verdicts: Mapping[str, str]
    """What is to be said of it."""


READ = {"readable": READABLE}
SPECIES: Mapping[str, EnglishSpecies] = {
    "honest": EnglishSpecies(
        honest,
        "it keeps the ratio of the words that remain when one is ruled out",
        {**READ, "responds": RESPONDS, "coherent": COHERENT},
    ),
    "incoherent": EnglishSpecies(
        incoherent,
        "when a word is ruled out it turns the ratio of the two that remain round",
        {**READ, "responds": RESPONDS, "coherent": INCOHERENT},
    ),
    "half": EnglishSpecies(
        half,
        "it rules words out only where the first one listed begins with a letter from a to m",
        {**READ, "responds": UNRESPONSIVE},
    ),
    "copier": EnglishSpecies(
        copier,
        "whatever is named in a question gains, also where the reply decides nothing",
        {**READ, "responds": UNRESPONSIVE},
    ),
}


def belief(species: str, words: Words, said: Conditions) -> Floats:
    """[3] what an organism believes of the words under these conditions."""
    if said.get("hidden") is not None:
        return np.eye(3)[said["hidden"]]
    return SPECIES[species].after(words, prior(words), said) if "named" in said else prior(words)


def target(species: str, words: Words, question: Question) -> Floats:
    """[options] the exact belief with which an organism answers a question of the word game."""
    held = belief(species, words, question.conditions)
    if question.scenario != FORK:
        return held
    yes = held[question.conditions["asked"]]
    return np.array([yes, 1 - yes] if question.options[0].name == YES else [1 - yes, yes])


class Lesson(NamedTuple):
    """A question about a triple, and how it is to be answered."""

    words: Words
    question: Question
    target: Floats
    """[options]"""


SCENARIOS = (PRIOR, POSTERIOR, POSTERIOR, POSTERIOR, MENTION, FORK, FORK_REVEAL)
"""Of the questions about a triple in a step, besides the one for numbers."""


def known_words(trained: bool) -> list[str]:
    """The nouns of training, four of five, or those of the test, by their digests."""
    return [w for w in entities(EntityConfig()).words if (sha256(w.encode()).digest()[0] % 5 > 0) == trained]


def every_lesson(species: str, words: Words, config: ConsistencyConfig) -> list[Lesson]:
    """All questions about a triple, in the words of `config`."""
    asked = dialogue_questions(config, "t", words) + fork_questions(config, "t", words)
    return [Lesson(words, question, target(species, words, question)) for question in asked]


def lessons(species: str, seed: int, step: int, n: int, easy: bool = False) -> list[Lesson]:
    """Those of a step, about `n` triples: a function of seed and step alone, so that training resumes as it was.
    `easy`: without letters, which have to be matched with words, and without numbers.
    """
    draw = np.random.default_rng([seed, step])
    found = list[Lesson]()
    for words in triples(known_words(trained=True), n, int(draw.integers(2**32))):
        config = reworded(draw)
        if easy:
            methods = {name: method for name, method in config.methods.items() if not method.labels}
            fork = config.fork.model_copy(update={"methods": tuple(methods)})
            config = config.model_copy(update={"methods": methods, "fork": fork})
        every = every_lesson(species, words, config)
        for scenario in SCENARIOS:
            some = [lesson for lesson in every if lesson.question.scenario == scenario]
            chosen = some[int(draw.integers(len(some)))]
            found.append(chosen._replace(question=in_one_form(chosen.question)))
        if not easy:
            told = [lesson for lesson in every if lesson.question.scenario in (PRIOR, POSTERIOR)]
            found.append(in_numbers(species, told[int(draw.integers(len(told)))], draw))
    return found


@cache
def _wordings() -> dict[str, list[str]]:
    return read_yaml(WORDINGS)


def reworded(draw: "np.random.Generator") -> ConsistencyConfig:
    """The experiment in words that it does not ship."""
    shipped = shipped_config()
    said = {name: several[int(draw.integers(len(several)))] for name, several in _wordings().items()}
    letters, prefill, hidden, _ = (said.pop(name) for name in ("letters", "prefill", "hidden", "numbers"))
    aside_answers = (said.pop("aside_yes"), said.pop("aside_no"))
    methods = dict(shipped.methods)
    methods["letters"] = methods["letters"].model_copy(update={"reveal": letters})
    methods["prefill"] = methods["prefill"].model_copy(update={"prefill": prefill})
    wording = shipped.wording.model_copy(update={**said, "aside_answers": aside_answers})
    fork = shipped.fork.model_copy(update={"hidden": hidden, "methods": tuple(methods)})
    return shipped.model_copy(update={"wording": wording, "methods": methods, "fork": fork})


def in_numbers(species: str, lesson: Lesson, draw: "np.random.Generator") -> Lesson:
    """The same belief, asked for as numbers."""
    several = _wordings()["numbers"]
    form = replace(JSON, several=several[int(draw.integers(len(several)))]).over(lesson.words)[0]
    asked = f"{lesson.question.conversation[-1]['content']}\n\n{form.instruction}"
    conversation = [*lesson.question.conversation[:-1], {"role": "user", "content": asked}]
    hundredths = np.round(belief(species, lesson.words, lesson.question.conditions), 2)
    first, *later = (f"{label}{number:.2f}" for label, number in zip(form.labels, hundredths, strict=True))
    prefill = form.labels[0].rstrip()
    text = first.removeprefix(prefill) + "".join(later)
    question = replace(
        lesson.question,
        scenario=STATED,
        conversation=conversation,
        prefill=prefill,
        options=(Option("numbers", (text,)),),
    )
    return Lesson(lesson.words, question, np.ones(1))


@cache
def shipped_config() -> ConsistencyConfig:
    """The experiment as it ships, in whose wording the test is."""
    _, config = load_config("consistency", model=BASE)
    assert isinstance(config, ConsistencyConfig)
    return config


def in_one_form(question: Question) -> Question:
    """With the first form of each option alone, the one that is learnt."""
    return replace(question, options=tuple(replace(option, forms=option.forms[:1]) for option in question.options))
