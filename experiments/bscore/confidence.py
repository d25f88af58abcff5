"""How sure the model says it is of each option, once it has given it as its answer."""

import json
from dataclasses import replace
from typing import Any

from ...hooks.generation.sampling import Sampling
from ...hooks.lm import LanguageModel
from ...hooks.prompts.chat import Message
from ...hooks.prompts.query import PromptReader
from ...hooks.verbal.answers import Answer, answer_rows, write_answers
from ...hooks.verbal.asking import NumberQuestion, ask_number
from ...hooks.verbal.exact_numbers import read_numbers
from ...hooks.verbal.formats import UNIT
from ..experiment import Item, Transcript
from ..reading.stated import AskedNumbers
from ..reading.transcripts import number_transcript
from .asking import CONFIDENCE, answered, choice_of, single_question
from .config import BScoreConfig

ANSWER_TOKENS = 8
"""Room for the longest number, and what closes it."""
FORMAT = "confidence"


def confidence_rows(
    config: BScoreConfig, item: Item, lm: LanguageModel
) -> tuple[list[dict[str, Any]], list[Transcript]]:
    """The rows of the first method, and what was asked and said: of each option, the mean of the exact distribution
    over the numbers that the model may write, and the likeliest number.
    """
    choice, name, asked = choice_of(item), next(iter(config.methods)), _asked(config, item, lm.reader)
    if config.confidence is None or not asked:
        return [], []
    rows: list[dict[str, Any]] = []
    answers: list[list[Answer]] = [[] for _ in asked]

    def told(i: int) -> dict[str, Any]:
        variant = {"asked": i, "of": name, "category": choice.category}
        return {"scenario": CONFIDENCE, "step": 0, "variant": json.dumps(variant, sort_keys=True)}

    for i, one in enumerate(read_numbers(lm, asked, budget=config.budget)):
        rows += [told(i) | row for row in one.rows(_pair(choice.options[i]), config.low_coverage)]
    if config.confidence.greedy:
        law = Sampling(temperature=0, max_new_tokens=ANSWER_TOKENS)
        for i, said in enumerate(write_answers(lm, asked, law)):
            found = answer_rows(asked[i], "greedy", said, _pair(choice.options[i]), config.low_coverage)
            rows += [told(i) | row for row in found]
            answers[i] += said
    return rows, [
        number_transcript(lm.reader.chat, one, _pair(option), own)
        for one, option, own in zip(asked, choice.options, answers, strict=True)
    ]


def planned_confidence(config: BScoreConfig, item: Item, reader: PromptReader) -> AskedNumbers:
    """The same, before anything is read."""
    asked = _asked(config, item, reader)
    greedy = config.confidence is not None and config.confidence.greedy
    return AskedNumbers([one.query(reader) for one in asked], ANSWER_TOKENS * len(asked) * greedy)


def _asked(config: BScoreConfig, item: Item, reader: PromptReader) -> list[NumberQuestion]:
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
