"""What is said at the places where a belief is asked for: by the model (numbers exactly, the likeliest answer,
sampled answers), and by judges (the mean of the exact distribution of their numbers).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from ...base.errors import named
from ...hooks.backends.captures import Captured, CapturePlan, join_captures
from ...hooks.exact.queries import PromptReader
from ...hooks.generation.sampling import Sampling
from ...hooks.lm import LanguageModel, open_model
from ...hooks.model.spec import ModelSpec
from ...hooks.prompts.chat import Conversation, Message
from ...hooks.prompts.places import LAST, Position, Positions
from ...hooks.tree.memory import Cost, sum_costs
from ...hooks.verbal.number_distributions import NumberReading, read_numbers
from ...hooks.verbal.number_formats import FORMATS, NumberFormat
from ...hooks.verbal.stated_beliefs import (
    Answer,
    Judge,
    NumberQuestion,
    OptionNumbers,
    ask_number,
    ask_options,
    stated_by,
    write_answers,
)
from ..report.findings import Transcript
from .questions import Read, RunConfig
from .readouts import number_transcript

AMONG = "among"
"""The condition that names the question of whose options a belief is in one."""


def among(source: str, name: str) -> dict[str, str]:
    """The condition of a question by its name and where it is from; none where it is one of two options."""
    return {AMONG: f"{source} {name}"} if name else {}


@dataclass(frozen=True)
class BeliefPlace:
    """What stands before any question for a belief."""

    name: str
    """Of its own: with what is asked there it names a read-out."""
    scenario: str
    step: int
    context: Conversation
    """It holds no question for the belief; each way of reading adds its own."""
    options: tuple[str, ...]
    """Of two, the belief is in the first; of more, in each of them."""
    conditions: Mapping[str, Any] = field(default_factory=dict)
    """Columns of the belief table."""
    thought: tuple[int, ...] = ()
    """The tokens of a think block so far, which follow the question."""
    positions: Positions = field(default_factory=dict)
    """Where a capture reads besides `before-question` and `number`, where the number begins."""
    readings: int = 2
    """Into how many readings sampled answers are parted, whose noise is independent; 0: none are sampled here."""

    def columns(self, **condition: object) -> dict[str, Any]:
        """The columns of the belief table that say where a row was read, and under which further condition."""
        return {"scenario": self.scenario, "step": self.step, **self.conditions, **condition}


def before_question(context: Conversation, thought: Sequence[int] = ()) -> Position:
    """The end of what precedes an added question: of the last turn, if that is a user's, or of a thought."""
    if thought:
        return Position(at="thought")
    if context[-1]["role"] != "user":
        return Position(message=-2)
    return Position(message=-1, text=context[-1]["content"].strip(), occurrence=0)


ANSWER_TOKENS = 24
"""Room for the longest form of every format, and what closes it."""
Rows = list[dict[str, Any]]


class AskedNumbers(NamedTuple):
    """Questions for numbers, as a plan counts them."""

    together: Sequence[Sequence[NumberQuestion]]
    """Those that `read_numbers` reads at once."""
    written: int
    """Most tokens of the answers that are written besides."""


def planned_numbers(
    config: RunConfig, places: Sequence[BeliefPlace], reader: PromptReader
) -> list[list[NumberQuestion]]:
    """Those that `stated_rows` reads exactly, by format."""
    return [
        [question for asked in _asked(config, name, places, reader) for question in asked.questions]
        for name in config.stated.numbers
    ]


def planned_answers(config: RunConfig, places: Sequence[BeliefPlace]) -> int:
    """Most tokens of the answers that `stated_rows` has written."""
    plan = config.stated
    drawn = [(name, place) for name in plan.greedy for place in places]
    drawn += [(name, place) for name in plan.sampled for place in places if place.readings for _ in range(plan.draws)]
    return sum(_longest(form) for name, place in drawn for form in FORMATS[name].over(place.options))


def _longest(number_format: NumberFormat) -> int:
    """Most tokens of an answer."""
    return ANSWER_TOKENS * max(1, number_format.n_values - 1)


class StatedRead(NamedTuple):
    """What was stated at some places."""

    rows: Rows
    """Of the belief table, without the columns of an experiment and an item."""
    transcripts: list[Transcript]
    captured: list[Captured]
    """At the questions whose numbers are read exactly."""
    costs: list[Cost]
    """Of those readings."""

    def read(self, config: RunConfig, lm: LanguageModel, questions: Sequence[NumberQuestion]) -> list[NumberReading]:
        """The exact distributions over the numbers in the answers; what they cost, and what was captured, is kept."""
        taken: dict[str, Any] = {"captured": self.captured, "costs": self.costs}
        return read_numbers(lm, questions, budget=config.budget, capture=config.capture, **taken)

    def beside(self, read: Read, where: Mapping[str, object]) -> Read:
        """What was read, and this with it: `where` names experiment, item and cluster of its rows."""
        captured = [*([read.captured] if read.captured else []), *self.captured]
        return read._replace(
            rows=[*read.rows, *(dict(where) | row for row in self.rows)],
            transcripts=[*read.transcripts, *self.transcripts],
            cost=sum_costs([read.cost, *self.costs]),
            captured=join_captures(captured) if captured else None,
        )


def stated_rows(
    config: RunConfig,
    places: Sequence[BeliefPlace],
    lm: LanguageModel,
    beside: Callable[[Sequence[NumberReading]], Mapping[str, object]] = lambda _: {},
) -> StatedRead:
    """What is stated at these places in all formats that `config.stated` asks for; `beside` gives further columns of a
    belief that is read exactly.
    """
    plan, result = config.stated, StatedRead([], [], [], [])
    answers: dict[str, list[Answer]] = {}

    def write(method: str, law: Sampling, asked: Sequence[tuple[BeliefPlace, OptionNumbers]], **how: int) -> None:
        questions = [question for _, asking in asked for question in asking.questions]
        longest = max(_longest(question.format) for question in questions)
        written = write_answers(lm, questions, law.model_copy(update={"max_new_tokens": longest}), **how)
        result.rows.extend(_answered(config, method, asked, written))
        for question, more in zip(questions, written, strict=True):
            answers.setdefault(question.readout_id, []).extend(more)

    for name in plan.formats if places else ():
        here = [place for place in places if place.readings or name in (*plan.numbers, *plan.greedy)]
        asked = list(zip(here, _asked(config, name, here, lm.reader, config.capture), strict=True))
        if name in plan.numbers:
            read = iter(result.read(config, lm, [question for _, asking in asked for question in asking.questions]))
            for place, asking in asked:
                readings = [next(read) for _ in asking.questions]
                stated = [reading.stated(config.low_coverage) for reading in readings]
                result.rows.extend(place.columns(**beside(readings)) | row for row in asking.rows("numbers", stated))
        if name in plan.greedy:
            write("greedy", Sampling(temperature=0), asked)
        if name in plan.sampled:
            some = [(place, asking) for place, asking in asked if place.readings]
            write("sampled", config.sampling, some, draws=plan.draws, seed=config.seed)
        result.transcripts.extend(
            number_transcript(lm.reader.chat, question, asking.options, answers.get(question.readout_id, ()))
            for _, asking in asked
            for question in asking.questions
        )
    return result


def _asked(
    config: RunConfig,
    name: str,
    places: Sequence[BeliefPlace],
    reader: PromptReader,
    capture: CapturePlan | None = None,
) -> list[OptionNumbers]:
    """The questions for numbers in a format, at each place, with the positions that are captured there."""

    def positions(place: BeliefPlace) -> Positions:
        if capture is None or capture.positions is not None:
            return {} if capture is None else capture.positions or {}
        before = {"before-question": before_question(place.context, place.thought)}
        return {**before, **place.positions, "number": LAST}

    return [
        ask_options(
            reader,
            f"{place.name}/{name}",
            place.context,
            config.unworded_format(name, place.options),
            place.options,
            thought=place.thought,
            positions=positions(place),
        )
        for place in places
    ]


def _answered(
    config: RunConfig,
    method: str,
    asked: Sequence[tuple[BeliefPlace, OptionNumbers]],
    answers: Sequence[Sequence[Answer]],
) -> Iterator[dict[str, Any]]:
    """The rows of written answers; several of a place in as many readings as it wants."""
    written = iter(answers)
    for place, asking in asked:
        texts = [(question.format, next(written)) for question in asking.questions]
        parts = place.readings if method == "sampled" else 1
        n = len(texts[0][1]) // parts
        for reading in range(parts):
            part = slice(reading * n, (reading + 1) * n)
            stated = [stated_by(each[part], form.n_values, config.low_coverage) for form, each in texts]
            for row in asking.rows(method, stated):
                apart = {"readout_id": f"{row['readout_id']}.{reading}", "reading": reading} if parts > 1 else {}
                yield place.columns() | row | apart


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

    Raises UserError for a judge that has no chat template.
    """
    judges = config.stated.judges
    alike = {"threads": config.model.threads}  # the model itself judges, too
    others = [plan.model for plan in judges.values() if plan.model.model_copy(update=alike) != config.model]
    loaded = _loaded(tuple(dict.fromkeys(others))) if others else {}
    rows: Rows = []
    transcripts: list[Transcript] = []
    for i, (name, judge) in enumerate(judges.items()):
        reader = loaded.get(judge.model, lm)
        more, also = _one_judge(config, judge, f"judge {name}" if i else "judge", show(judge), reader)
        rows += [row | {"kind": "judge", "method": f"judge {name}", "judge": name} for row in more]
        transcripts += also
    return rows, transcripts


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
    for (place, *_), judgement in zip(shown, read_numbers(lm, asked, budget=config.budget), strict=True):
        rows += [place.columns() | row for row in judgement.rows(place.options, config.low_coverage)]
    return rows, [
        number_transcript(lm.reader.chat, query, place.options) for (place, *_), query in zip(shown, asked, strict=True)
    ]


def _whole_trajectories(
    config: RunConfig, judge: Judge, mark: str, shown: Sequence[Shown], lm: LanguageModel
) -> tuple[Rows, list[Transcript]]:
    """One query for all places of a trajectory: those that share its name and draw, in their order."""
    of_chain: dict[tuple[str, object], list[Shown]] = {}
    for judgement in shown:
        of_chain.setdefault(
            (judgement.place.name.rpartition("/")[0], judgement.place.conditions.get("draw")), []
        ).append(judgement)
    asked = []
    for (name, draw), seen in of_chain.items():
        place, question, steps = seen[0]
        text = judge.trajectory.format(question=question, steps=_numbered(steps))
        message: Message = {"role": "user", "content": text}
        form = judge.line_format(len(steps), *place.options)
        asked.append(ask_number(lm.reader, f"{name}/{'given' if draw is None else draw}/{mark}", [message], form))
    rows: Rows = []
    for seen, judgement in zip(of_chain.values(), read_numbers(lm, asked, budget=config.budget), strict=True):
        for place, *_ in seen:
            line = judgement.lines[place.step]
            status = line.status(config.low_coverage)
            number = judgement.question.belief_rows(
                "numbers", place.options, mean=line.mean, coverage=line.coverage, status=status
            )
            rows += [place.columns() | row | {"readout_id": f"{place.name}/{mark}/numbers"} for row in number]
    places = (seen[0].place for seen in of_chain.values())
    return rows, [
        number_transcript(lm.reader.chat, question, place.options)
        for place, question in zip(places, asked, strict=True)
    ]


@lru_cache(maxsize=1)
def _loaded(specs: tuple[ModelSpec, ...]) -> dict[ModelSpec, LanguageModel]:
    """The judges of a run, which stay in memory beside the model."""
    loaded = {}
    for spec in specs:
        with named(f"judge {spec.name}"):
            loaded[spec] = open_model(spec)
    return loaded


def _numbered(steps: Sequence[str]) -> str:
    return "\n\n".join(f"[{i}] {step}" for i, step in enumerate(steps, 1)) or "(none yet)"
