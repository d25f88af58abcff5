"""What is said at the places where a belief is asked for: by the model (numbers exactly, the likeliest answer,
sampled answers), and by judges (the mean of the exact distribution of their numbers).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from ...base.errors import UserError
from ...hooks.exact.queries import PromptReader, Query
from ...hooks.generation.sampling import Sampling
from ...hooks.lm import LanguageModel, open_model
from ...hooks.model.spec import ModelSpec
from ...hooks.prompts.chat import Conversation, Message
from ...hooks.verbal.number_distributions import read_numbers
from ...hooks.verbal.stated_beliefs import Answer, Judge, NumberQuestion, answer_rows, ask_number, write_answers
from ..report.findings import Transcript
from .questions import RunConfig
from .readouts import number_transcript


@dataclass(frozen=True)
class BeliefPlace:
    """What stands before any question for a belief in one of two options."""

    name: str
    """Of its own: with what is asked there it names a read-out."""
    scenario: str
    step: int
    context: Conversation
    """It holds no question for the belief; each way of reading adds its own."""
    options: tuple[str, str]
    """The belief is in the first."""
    conditions: Mapping[str, Any] = field(default_factory=dict)
    """Columns of the belief table."""
    thought: tuple[int, ...] = ()
    """The tokens of a think block so far, which follow the question."""

    def columns(self, **condition: object) -> dict[str, Any]:
        """The columns of the belief table that say where a row was read, and under which further condition."""
        return {"scenario": self.scenario, "step": self.step, **self.conditions, **condition}


# What the model says at each place: numbers exactly, the likeliest answer, sampled answers.

ANSWER_TOKENS = 24
"""Room for the longest form of every format, and what closes it."""
Rows = list[dict[str, Any]]


class AskedNumbers(NamedTuple):
    """Questions for numbers, as a plan counts them."""

    queries: Sequence[Query]
    """Of one tree; empty: none are read."""
    written: int
    """Most tokens of the answers that are written besides."""


def planned_numbers(config: RunConfig, places: Sequence[BeliefPlace], reader: PromptReader) -> list[list[Query]]:
    """The queries of each tree in which `stated_rows` reads numbers exactly; of a format of several, the first ones."""
    return [
        [question.query(reader) for question in _asked(config, name, places, reader)] for name in config.stated.numbers
    ]


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
    transcripts: list[Transcript] = []
    for name in plan.formats:
        asked = _asked(config, name, places, lm.reader)
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
        transcripts += [
            number_transcript(lm.reader.chat, one, place.options, written)
            for place, one, written in zip(places, asked, answers, strict=True)
        ]
    return rows, transcripts


def _asked(config: RunConfig, name: str, places: Sequence[BeliefPlace], reader: PromptReader) -> list[NumberQuestion]:
    """The question for a number in a format, at each place."""
    worded = {
        options: config.number_format(name, *options) for options in dict.fromkeys(place.options for place in places)
    }
    return [
        ask_number(reader, f"{place.name}/{name}", place.context, worded[place.options], thought=place.thought)
        for place in places
    ]


def _halves(place: BeliefPlace, asked: NumberQuestion, answers: Sequence[Answer], low_coverage: float) -> Rows:
    """Two readings, each of half of the answers: their noise is independent."""
    middle = len(answers) // 2
    rows: Rows = []
    for reading, half in enumerate((answers[:middle], answers[middle:])):
        for row in answer_rows(asked, "sampled", half, place.options, low_coverage):
            rows.append(place.columns(reading=reading) | row | {"readout_id": f"{row['readout_id']}.{reading}"})
    return rows


# What judges say at each place: the mean of the exact distribution of their numbers, without the noise of sampling.


class Shown(NamedTuple):
    """What a judge is shown in order to believe something at a place."""

    place: BeliefPlace
    question: str
    steps: Sequence[str]
    """Those up to the place's own, or also later ones, if it sees the whole."""


def judge_rows(
    config: RunConfig, show: Callable[[Judge], Sequence[Shown]], lm: LanguageModel
) -> tuple[Rows, list[Transcript]]:
    """The rows of the belief table for every judge of `config.stated`, without the columns of an experiment and an
    item, and what each was asked. A model that judges itself is loaded once.

    Args:
        config: of the run.
        show: what each judge is shown.
        lm: the model whose beliefs are read.

    Raises UserError for a judge that has no chat template.
    """
    judges = config.stated.judges
    others = [judge_plan.model for judge_plan in judges.values() if not _is_itself(judge_plan.model, config)]
    loaded = _loaded(tuple(dict.fromkeys(others))) if others else {}
    rows: Rows = []
    transcripts: list[Transcript] = []
    for i, (name, judge) in enumerate(judges.items()):
        reader = loaded.get(judge.model, lm)
        more, also = _one_judge(config, judge, f"judge {name}" if i else "judge", show(judge), reader)
        rows += [row | {"kind": "judge", "method": f"judge {name}", "judge": name} for row in more]
        transcripts += also
    return rows, transcripts


def _is_itself(judge: ModelSpec, config: RunConfig) -> bool:
    return judge.model_copy(update={"threads": config.model.threads}) == config.model


def _one_judge(
    config: RunConfig, judge: Judge, mark: str, shown: Sequence[Shown], lm: LanguageModel
) -> tuple[Rows, list[Transcript]]:
    if judge.query == "trajectory":
        return _whole_trajectories(config, judge, mark, shown, lm)
    asked = []
    for place, question, steps in shown:
        text = judge.prompt.format(question=question, steps=_numbered(steps), step=place.step)
        message: Message = {"role": "user", "content": text}
        asked.append(
            ask_number(lm.reader, f"{place.name}/{mark}", [message], config.number_format("unit", *place.options))
        )
    rows: Rows = []
    for (place, *_), one in zip(shown, read_numbers(lm, asked, budget=config.budget), strict=True):
        rows += [place.columns() | row for row in one.rows(place.options, config.low_coverage)]
    return rows, [
        number_transcript(lm.reader.chat, own, one.place.options) for one, own in zip(shown, asked, strict=True)
    ]


def _whole_trajectories(
    config: RunConfig, judge: Judge, mark: str, shown: Sequence[Shown], lm: LanguageModel
) -> tuple[Rows, list[Transcript]]:
    """One query for all places of a trajectory: those that share its name and draw, in their order."""
    of_one: dict[tuple[str, object], list[Shown]] = {}
    for one in shown:
        of_one.setdefault((one.place.name.rpartition("/")[0], one.place.conditions.get("draw")), []).append(one)
    asked = []
    for (name, draw), seen in of_one.items():
        place, question, steps = seen[0]
        text = judge.trajectory.format(question=question, steps=_numbered(steps))
        message: Message = {"role": "user", "content": text}
        form = judge.line_format(len(steps), *place.options)
        asked.append(ask_number(lm.reader, f"{name}/{'given' if draw is None else draw}/{mark}", [message], form))
    rows: Rows = []
    for seen, one in zip(of_one.values(), read_numbers(lm, asked, budget=config.budget), strict=True):
        for place, *_ in seen:
            line = one.lines[place.step]
            status = line.status(config.low_coverage)
            number = one.question.belief_rows(
                "numbers", place.options, mean=line.mean, coverage=line.coverage, status=status
            )
            rows += [place.columns() | row | {"readout_id": f"{place.name}/{mark}/numbers"} for row in number]
    places = (seen[0].place for seen in of_one.values())
    return rows, [
        number_transcript(lm.reader.chat, question, place.options)
        for place, question in zip(places, asked, strict=True)
    ]


@lru_cache(maxsize=1)
def _loaded(specs: tuple[ModelSpec, ...]) -> dict[ModelSpec, LanguageModel]:
    """The judges of a run, which stay in memory beside the model."""
    return {spec: _load(spec) for spec in specs}


def _load(spec: ModelSpec) -> LanguageModel:
    try:
        return open_model(spec)
    except UserError as error:
        raise UserError(f"judge {spec.name}: {error}") from error


def _numbered(steps: Sequence[str]) -> str:
    return "\n\n".join(f"[{i}] {step}" for i, step in enumerate(steps, 1)) or "(none yet)"
