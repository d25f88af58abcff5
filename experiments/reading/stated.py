"""What the model says at each place: numbers exactly, the likeliest answer, sampled answers."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ...hooks.generation.sampling import Sampling
from ...hooks.lm import LanguageModel
from ...hooks.prompts.query import PromptReader, Query
from ...hooks.verbal.answers import Answer, answer_rows, write_answers
from ...hooks.verbal.asking import NumberQuestion, ask_number
from ...hooks.verbal.exact_numbers import read_numbers
from ...hooks.verbal.formats import FORMATS
from ..experiment import Item, RunConfig, Transcript
from .place import BeliefPlace
from .transcripts import number_transcript

ANSWER_TOKENS = 24
"""Room for the longest form of every format, and what closes it."""
Rows = list[dict[str, Any]]


@runtime_checkable
class StatesBeliefs(Protocol):
    """An experiment whose stated beliefs a plan can count."""

    def places(self, config: Any, item: Item) -> Sequence[BeliefPlace]:
        """Where they are asked for, as far as it is known before the model has said anything."""
        ...


class AskedNumbers(NamedTuple):
    """Questions for numbers, as a plan counts them."""

    queries: Sequence[Query]
    """Of one tree; empty: none are read."""
    written: int
    """Most tokens of the answers that are written besides."""


@runtime_checkable
class AsksNumbers(Protocol):
    """An experiment that asks for numbers in ways of its own."""

    def numbers(self, config: Any, item: Item, reader: PromptReader) -> AskedNumbers:
        """What it asks about an item, as far as it is known before the model has said anything."""
        ...


def planned_numbers(config: RunConfig, places: Sequence[BeliefPlace], reader: PromptReader) -> list[list[Query]]:
    """The queries of each tree in which `stated_rows` reads numbers exactly; of a format of several, the first ones."""
    return [[one.query(reader) for one in _asked(name, places, reader)] for name in config.stated.numbers]


def planned_answers(config: RunConfig, places: Sequence[BeliefPlace]) -> int:
    """Most tokens of the answers that `stated_rows` has written."""
    plan = config.stated
    return ANSWER_TOKENS * len(places) * (len(plan.greedy) + plan.draws * len(plan.sampled))


def stated_rows(config: RunConfig, places: Sequence[BeliefPlace], lm: LanguageModel) -> tuple[Rows, list[Transcript]]:
    """The rows of the belief table for all formats that `config.stated` asks for, without the columns of an experiment
    and an item, and what was asked and said.
    """
    plan, low = config.stated, config.low_coverage
    rows: Rows = []
    said: list[Transcript] = []
    for name in plan.formats:
        asked = _asked(name, places, lm.reader)
        answers: list[list[Answer]] = [[] for _ in asked]
        if name in plan.numbers:
            for place, one in zip(places, read_numbers(lm, asked, budget=config.budget), strict=True):
                rows += [place.columns() | row for row in one.rows(place.options, low)]
        if name in plan.greedy:
            greedy = Sampling(temperature=0, max_new_tokens=ANSWER_TOKENS)
            for i, (place, one) in enumerate(zip(places, write_answers(lm, asked, greedy), strict=True)):
                rows += [place.columns() | row for row in answer_rows(asked[i], "greedy", one, place.options, low)]
                answers[i] += one
        if name in plan.sampled:
            sampling = config.sampling.model_copy(update={"max_new_tokens": ANSWER_TOKENS})
            for i, one in enumerate(write_answers(lm, asked, sampling, draws=plan.draws, seed=config.seed)):
                rows += _halves(places[i], asked[i], one, low)
                answers[i] += one
        said += [
            number_transcript(lm.reader.chat, one, place.options, own)
            for place, one, own in zip(places, asked, answers, strict=True)
        ]
    return rows, said


def _asked(name: str, places: Sequence[BeliefPlace], reader: PromptReader) -> list[NumberQuestion]:
    """The question for a number in a format, at each place."""
    worded = {options: FORMATS[name].worded(*options) for options in dict.fromkeys(one.options for one in places)}
    return [
        ask_number(reader, f"{one.name}/{name}", one.context, worded[one.options], thought=one.thought)
        for one in places
    ]


def _halves(place: BeliefPlace, asked: NumberQuestion, answers: Sequence[Answer], low_coverage: float) -> Rows:
    """Two readings, each of half of the answers: their noise is independent."""
    middle = len(answers) // 2
    rows: Rows = []
    for reading, half in enumerate((answers[:middle], answers[middle:])):
        for row in answer_rows(asked, "sampled", half, place.options, low_coverage):
            rows.append(place.columns(reading=reading) | row | {"readout_id": f"{row['readout_id']}.{reading}"})
    return rows
