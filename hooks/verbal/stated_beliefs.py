"""Stated beliefs: which are read beside the exact ones, the question for a number, and the answers that the model
writes, greedily or sampled.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, field_validator

from ...base.errors import UserError
from ...base.settings import Settings, placeholders
from ...metrics.beliefs import VALUED, worst_status
from ..exact.option_beliefs import option_rows
from ..exact.queries import PromptReader, Query
from ..generation.generated_texts import GeneratedText, Request
from ..generation.sampling import Sampling
from ..model.spec import ModelSpec, resolve_model
from ..prompts.chat import Conversation, Message, Prompt
from ..prompts.options import Option
from ..prompts.places import Positions
from .number_formats import FormatName, NumberFormat, line_format, parse_answer


class Judge(Settings):
    """A second model that reads the steps as an observer and gives a number."""

    model: ModelSpec
    """A name is looked up; if it is left out, the judge's own is."""
    sees: Literal["prefix", "whole"] = "prefix"
    """`whole`: the later steps too, as published. Then its prior knows the posterior (METRICS A5)."""
    prompt: Annotated[str, placeholders("question", "steps", "step")] = (
        "You observe somebody who thinks about a question, and form your own belief.\n\n{question}\n\n"
        "What has been said so far:\n\n{steps}\n\nState your belief as it is after part {step}."
    )
    """`{question}`, `{steps}` so far, or all of them numbered; `{step}` is the number of the last that counts."""
    query: Literal["step", "trajectory"] = "step"
    """`trajectory`: one query for a whole trajectory, as published: it sees all steps, and gives a number for the start
    and one after each, which are read line by line."""
    trajectory: Annotated[str, placeholders("question", "steps")] = (
        "You observe somebody who thinks about a question, and form your own belief.\n\n{question}\n\n"
        "What was said, part by part:\n\n{steps}\n\nState your belief before any part, and as it is after each of them."
    )
    """What such a query says, and then:"""
    lines: Annotated[str, placeholders("yes", "no", "n", "listed")] = (
        'A belief is the probability that the answer is "{yes}" and not "{no}", a number from 0 to 1 with at most two '
        "decimals. Reply with {n} lines and nothing else, in this order and each followed by its number: {listed}."
    )
    """`{listed}` is what begins each line."""

    @field_validator("model", mode="before")
    @classmethod
    def _by_name(cls, model: object) -> object:
        return resolve_model(model).model_dump() if isinstance(model, str) else model

    @property
    def sees_all(self) -> bool:
        """Whether it is shown the later steps, too."""
        return self.sees == "whole" or self.query == "trajectory"

    def line_format(self, steps: int, yes: str, no: str) -> NumberFormat:
        """Of a query for a whole trajectory: a line for the start, and one for each step."""
        return line_format("steps", self.lines, [f"Belief {i}" for i in range(steps + 1)], yes=yes, no=no)


class StatedPlan(Settings):
    """Which stated beliefs are read beside the exact ones, at every place."""

    numbers: tuple[FormatName, ...] = ()
    """Formats whose exact number distribution is read."""
    greedy: tuple[FormatName, ...] = ()
    """Formats in which the likeliest answer is written and parsed."""
    sampled: tuple[FormatName, ...] = ()
    """Formats in which answers are sampled by `sampling`, in two halves."""
    draws: int = Field(default=4, ge=2, multiple_of=2)
    """Sampled answers to each question."""
    judges: Mapping[str, Judge] = {}
    """By name, which is that of the model where none is given."""

    @field_validator("judges", mode="before")
    @classmethod
    def _judges_are_models(cls, judges: object) -> object:
        if not isinstance(judges, Mapping):
            return judges
        return {
            name: {"model": name, **judge} if isinstance(name, str) and isinstance(judge, Mapping) else judge
            for name, judge in judges.items()
        }

    @property
    def formats(self) -> tuple[str, ...]:
        """Every format that is asked for, once."""
        return tuple(dict.fromkeys((*self.numbers, *self.greedy, *self.sampled)))


# A question for a number, rendered for one model.


@dataclass(frozen=True)
class NumberQuestion:
    """A question for a number in some format."""

    readout_id: str
    format: NumberFormat
    messages: tuple[Message, ...]
    """With the instruction of the format."""
    prefill: str
    """How the assistant's turn already begins."""
    opening: str
    """What the model must still write before the first number."""
    thought: tuple[int, ...] = ()
    """What a model that thinks wrote before its answer, in tokens; empty: an empty thought."""
    positions: Positions = field(default_factory=dict)
    """Where a capture reads."""

    def prompt(self, reader: PromptReader) -> Prompt:
        """The prompt, rendered."""
        return reader.chat.render_answer(self.messages, self.prefill, self.thought or None)

    def query(self, reader: PromptReader, beginnings: Sequence[str] | None = None, line: int = 0) -> Query:
        """The read-out of the number of a place, from 0, after any of these beginnings of an answer; None: of none.

        Raises UserError, naming the read-out, as `PromptReader.query` does.
        """
        begin = [self.opening] if beginnings is None else beginnings
        options = tuple(
            Option(number.name, tuple(start + form for start in begin for form in number.forms))
            for number in self.format.numbers
        )
        return reader.query(
            self.readout_id,
            self.messages,
            options,
            self.prefill,
            thought=self.thought or None,
            positions=None if line else self.positions,
            terminators=self.format.closers(line),
        )

    def belief_rows(
        self, method: str, options: Sequence[str], *, mean: float, coverage: float, status: str
    ) -> list[dict[str, object]]:
        """The two rows of the belief table, without the columns of an experiment. A mean is no event: no `logp`.

        Args:
            method: `numbers`, `greedy` or `sampled`, added to the name of the format.
            options: (yes, no).
            mean: P(yes), the mean of the stated numbers; NaN under a status of failure.
            coverage: the share of answers that state a number.
            status: of the read-out.
        """
        names = {
            "readout_id": f"{self.readout_id}/{method}",
            "method": f"{self.format.name} {method}",
            "estimate": method,
        }
        return option_rows(options, (mean, 1 - mean), kind="verbal", coverage=coverage, status=status, **names)


def ask_number(
    reader: PromptReader,
    readout_id: str,
    messages: Conversation,
    number_format: NumberFormat,
    *,
    prefilled: bool = True,
    thought: tuple[int, ...] = (),
    positions: Positions | None = None,
) -> NumberQuestion:
    """Ask for a number after a conversation.

    The instruction goes to the end of the last user turn, or into a turn of its own after an assistant's. An answer
    begins with a space where the prompt does not end in white space, as in `Assistant: 0.3`.

    Args:
        messages: the conversation, with the question.
        number_format: how the number is to be written, worded for its options.
        prefilled: whether the prompt prefills the first label of the format; if not, the model writes it.
        thought: what a model that thinks wrote before its answer, in tokens; empty: an empty thought.
        positions: where a capture reads.

    Raises UserError, naming the read-out, for a conversation without messages.
    """
    if not messages:
        raise UserError(f"read-out {readout_id}: no messages; give at least one")
    *before, last = messages
    turns: list[Message] = [*before, last]
    if last["role"] == "user":
        turns[-1] = {"role": "user", "content": f"{last['content']}\n\n{number_format.instruction}"}
    else:
        turns.append({"role": "user", "content": number_format.instruction})
    tail = reader.chat.render_answer(turns).boundary.tail
    opening = number_format.labels[0] if not tail or tail[-1].isspace() else f" {number_format.labels[0]}"
    prefill = opening.rstrip() if prefilled else ""
    rest = opening[len(prefill) :]
    return NumberQuestion(readout_id, number_format, tuple(turns), prefill, rest, thought, positions or {})


class Stated(NamedTuple):
    """What the answers to one question state."""

    means: tuple[float, ...]
    """Of each number of the format, a probability; NaN under a status of failure."""
    coverage: float
    """Share of the answers that follow the format."""
    status: str


@dataclass(frozen=True)
class OptionNumbers:
    """The questions by which one format asks for the probabilities of all options of a belief."""

    readout_id: str
    options: tuple[str, ...]
    questions: tuple[NumberQuestion, ...]
    """See `NumberFormat.over`."""

    def rows(self, method: str, stated: Sequence[Stated]) -> list[dict[str, object]]:
        """The rows of the belief table, without the columns of an experiment.

        Of two options the second has what the first leaves. Of more, `stated` is what was said of each, whatever it
        sums to; `prob` alone is normalised, and has no number where nothing but 0 was said.

        Args:
            method: `numbers`, `greedy` or `sampled`, added to the name of the format.
            stated: of each question.
        """
        first = self.questions[0]
        if len(self.options) == 2:
            ((means, coverage, status),) = stated
            return replace(first, readout_id=self.readout_id).belief_rows(
                method, self.options, mean=means[-1], coverage=coverage, status=status
            )
        return self.rows_of_each(method, stated)

    def rows_of_each(self, method: str, stated: Sequence[Stated]) -> list[dict[str, object]]:
        """As `rows`, where every option was asked for, also of two."""
        first = self.questions[0]
        numbers = np.array([mean for number in stated for mean in number.means], dtype=np.float64)
        coverage, status = min(number.coverage for number in stated), worst_status(number.status for number in stated)
        total = float(numbers.sum())
        prob = numbers / total if total > 0 else np.full(len(numbers), np.nan)
        status = status if np.isfinite(prob).all() or status not in VALUED else "nan"
        names = {
            "readout_id": f"{self.readout_id}/{method}",
            "method": f"{first.format.name} {method}",
            "estimate": method,
        }
        prob = prob if status in VALUED else np.full(len(numbers), np.nan)
        rows = option_rows(self.options, prob.tolist(), kind="verbal", coverage=coverage, status=status, **names)
        return [row | {"stated": number} for row, number in zip(rows, numbers.tolist(), strict=True)]


def ask_options(
    reader: PromptReader,
    readout_id: str,
    messages: Conversation,
    number_format: NumberFormat,
    options: Sequence[str],
    **how: Any,
) -> OptionNumbers:
    """Ask for the probabilities of options after a conversation (`how`: as of `ask_number`). Of several questions each
    is called by the number of its option.

    Raises UserError as `ask_number` and `NumberFormat.over` do.
    """
    worded = number_format.over(options)
    names = [readout_id] if len(worded) == 1 else [f"{readout_id}.{i}" for i in range(len(worded))]
    asked = [ask_number(reader, name, messages, form, **how) for name, form in zip(names, worded, strict=True)]
    return OptionNumbers(readout_id, tuple(options), tuple(asked))


# Answers that the model writes, greedily or sampled, and the belief that they state.

if TYPE_CHECKING:
    from ..lm import LanguageModel

SAMPLING = Sampling(max_new_tokens=32)
"""The default sampling distribution: the model's own. `Sampling(temperature=0)` is greedy."""


@dataclass(frozen=True)
class Answer:
    """One written answer. All fields are plain values: a line of a transcript."""

    readout_id: str
    draw: int
    text: str
    """The whole turn, with its prefill."""
    values: tuple[float, ...]
    """Probabilities, one for each number of the format; empty unless the status is `ok`."""
    status: str
    """See `Parsed`."""


def write_answers(
    lm: "LanguageModel",
    questions: Sequence[NumberQuestion],
    sampling: Sampling = SAMPLING,
    *,
    draws: int = 1,
    seed: int = 0,
) -> list[list[Answer]]:
    """Let the model answer each question `draws` times, and parse its answers.

    An answer is stopped at the first text that ends the format wherever it stands, as nothing later is read.
    """
    written: list[list[Answer]] = [[] for _ in questions]
    for stop in dict.fromkeys(question.format.stop for question in questions):
        group = [i for i, question in enumerate(questions) if question.format.stop == stop]
        requests = [Request(questions[i].readout_id, questions[i].prompt(lm.reader), range(draws)) for i in group]
        samples = lm.sample(requests, sampling.model_copy(update={"stop": stop}), seed=seed)
        for place, sample in enumerate(samples):
            written[group[place // draws]].append(_answer(questions[group[place // draws]], sample))
    return written


def _answer(question: NumberQuestion, sample: GeneratedText) -> Answer:
    text = question.prefill + sample.text + sample.stop
    parsed = parse_answer(text, question.format, ended=sample.status == "ok")
    return Answer(sample.readout_id, sample.draw, text, parsed.values, parsed.status)


def answer_rows(
    question: NumberQuestion, method: str, answers: Sequence[Answer], options: Sequence[str], low_coverage: float
) -> list[dict[str, object]]:
    """The rows of the belief table for the options (yes, no), without the columns of an experiment.

    P(yes) is the mean of the answers that state a number, and `coverage` their share. Where none does, the status is
    that of most answers, and there is no number.

    Args:
        method: `greedy` or `sampled`, added to the name of the format.
        answers: to the question; one alone is a reading of its own.
        low_coverage: a smaller share is flagged.
    """
    means, coverage, status = stated_by(answers, question.format.n_values, low_coverage)
    return question.belief_rows(method, options, mean=means[-1], coverage=coverage, status=status)


def stated_by(answers: Sequence[Answer], n: int, low_coverage: float) -> Stated:
    """What answers with `n` numbers each state in the mean; `answer_rows` says what becomes of failures."""
    stated = [answer.values for answer in answers if answer.status == "ok"]
    coverage = len(stated) / len(answers) if answers else np.nan
    if stated:
        means = tuple(np.mean(stated, axis=0).tolist())
        return Stated(means, coverage, "low_coverage" if coverage < low_coverage else "ok")
    status = next((name for name, _ in Counter(answer.status for answer in answers).most_common(1)), "nan")
    return Stated((np.nan,) * n, coverage, status)
