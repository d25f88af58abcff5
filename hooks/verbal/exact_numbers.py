"""Exact number distributions through the token tree."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UserError
from ..exact.exact import Competitor, ExactReading
from ..prompts.query import PromptReader, Query
from .asking import NumberQuestion
from .distribution import NumberDistribution

if TYPE_CHECKING:
    from ..lm import LanguageModel

BEAM = 8
"""Default beginnings of an answer that are followed to its next line. Each costs about as many tokens as the format has
forms."""


@dataclass(frozen=True)
class NumberReading:
    """The exact distribution of the answers to one question for a number."""

    question: NumberQuestion
    lines: tuple[NumberDistribution, ...]
    """One for each number of the format."""
    competitor: Competitor
    """The likeliest token with which no answer in the format begins."""

    @property
    def belief(self) -> NumberDistribution:
        """Of the number that is the belief in `{yes}`: the last."""
        return self.lines[-1]

    def rows(self, options: Sequence[str], low_coverage: float) -> list[dict[str, object]]:
        """The rows of the belief table for the options (yes, no), without the columns of an experiment.

        P(yes) is the mean of the distribution.
        """
        mean, coverage, status = self.belief.mean, self.belief.coverage, self.belief.status(low_coverage)
        return self.question.belief_rows("numbers", options, mean=mean, coverage=coverage, status=status)


@dataclass
class _Course:
    """A question whose lines are read one after the other."""

    question: NumberQuestion
    beginnings: tuple[str, ...]
    """Of answers, up to the number that is read next."""
    dropped: float = 0.0
    """Mass of the beginnings that were not followed."""
    lines: list[NumberDistribution] = field(default_factory=list)
    competitors: list[Competitor] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return len(self.lines) == len(self.question.format.labels)

    def query(self, reader: PromptReader) -> Query:
        return self.question.query(reader, self.beginnings)

    def take(self, query: Query, reading: ExactReading, beam: int) -> None:
        """Keep a line, and follow its likeliest forms to the next."""
        number_format = self.question.format
        self.lines.append(NumberDistribution(number_format.numbers, reading.logp, self.dropped))
        self.competitors.append(reading.competitor)
        if self.done:
            return
        forms = [form for option in query.paths.options for form in option.forms]
        logp = np.concatenate(reading.form_logp)
        ranked = np.argsort(-logp, kind="stable")
        self.beginnings = tuple(forms[i] + number_format.labels[len(self.lines)] for i in ranked[:beam])
        self.dropped += float(np.exp(logp[ranked[beam:]]).sum())


def read_numbers(
    lm: "LanguageModel", questions: Sequence[NumberQuestion], *, beam: int = BEAM, budget: int | None = None
) -> list[NumberReading]:
    """The exact distributions over the numbers in the answers.

    First numbers are read in one tree, whatever their formats. The second number of a format is read after the `beam`
    likeliest forms of the first, and so on, each in a further tree; what was left out is stated as `unread`.

    Args:
        lm: the model.
        questions: the questions, each in its format.
        beam: most beginnings of an answer that are followed.
        budget: most tokens of one forward pass; None: by the memory of the device.

    Raises UserError for a beam of nothing, and as `PromptReader.query` does.
    """
    if beam < 1:
        raise UserError(f"beam {beam}: follow at least one beginning")
    courses = [_Course(one, (one.opening,)) for one in questions]
    while running := [course for course in courses if not course.done]:
        queries = [course.query(lm.reader) for course in running]
        for course, query, reading in zip(running, queries, lm.read(queries, budget=budget)[0], strict=True):
            course.take(query, reading, beam)
    return [NumberReading(one.question, tuple(one.lines), one.competitors[0]) for one in courses]
