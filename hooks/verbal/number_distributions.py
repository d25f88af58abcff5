"""The exact distribution over the numbers that a format admits, read through the token tree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, logsumexp

from ...base.errors import UserError
from ..backends.captures import Captured, CapturePlan
from ..exact.option_beliefs import Competitor, ExactReading, normalised
from ..exact.queries import PromptReader, Query
from ..tree.memory import Cost
from .number_formats import WrittenNumber
from .stated_beliefs import NumberQuestion, Stated

TIE = 1e-12
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NumberDistribution:
    """How probable each number is as the next that the model says. Statistics are of the numbers that the format admits
    alone, and NaN if these have no mass.

    >>> low, high = WrittenNumber("30", 0.3, ("30",)), WrittenNumber("70", 0.7, ("70",))
    >>> half = NumberDistribution((low, high), np.log([0.4, 0.4]))
    >>> round(half.mean, 3), round(half.coverage, 3), round(half.entropy, 3)
    (0.5, 0.8, 1.0)
    """

    numbers: tuple[WrittenNumber, ...]
    logp: Floats
    """[numbers] natural log of the probability that the answer says the number."""
    unread: float = 0.0
    """The most that the numbers on earlier lines that were not followed can add to the sum of exp(logp)."""

    @property
    def coverage(self) -> float:
        """Total probability of the admitted numbers, in [0, 1]; the rest is outside the format."""
        return float(np.exp(logsumexp(self.logp)))

    @property
    def outside(self) -> float:
        """Probability of an answer that does not follow the format, too large by `unread` at most."""
        return 1 - self.coverage

    @property
    def prob(self) -> Floats:
        """[numbers], normalised over the admitted numbers."""
        return normalised(self.logp)

    @property
    def error(self) -> float:
        """Bound on the total-variation distance of `prob` from what it would be with nothing unread: with mass u left
        out of a mass c + u, u / (c + u). The mean is off by no more.
        """
        return self.unread / (self.coverage + self.unread) if self.unread else 0.0

    @property
    def values(self) -> Floats:
        """[numbers] the probability that each means."""
        return np.array([number.value for number in self.numbers])

    @property
    def mean(self) -> float:
        """The belief: the expected probability, which is what sampled answers average to."""
        return float(self.values @ self.prob)

    @property
    def sd(self) -> float:
        """Standard deviation: the noise of one sampled answer."""
        return float(np.sqrt((self.values - self.mean) ** 2 @ self.prob))

    @property
    def mode(self) -> float:
        """The likeliest value; the smallest of several."""
        prob = self.prob
        return self._at(prob >= prob.max() - TIE)

    @property
    def median(self) -> float:
        """The smallest value with at least half of the mass at or below it."""
        order = np.argsort(self.values, kind="stable")
        below = np.empty(len(order))
        below[order] = self.prob[order].cumsum()
        return self._at(below >= 0.5 - TIE)

    @property
    def entropy(self) -> float:
        """Bits."""
        return float(entr(self.prob).sum() / np.log(2))

    def _at(self, chosen: NDArray[np.bool_]) -> float:
        return float(self.values[chosen].min()) if chosen.any() else np.nan

    def status(self, low_coverage: float) -> str:
        """`nan` without any mass, `low_coverage` below that threshold, else `ok`."""
        return "nan" if np.isnan(self.mean) else "low_coverage" if self.coverage < low_coverage else "ok"


# Exact number distributions through the token tree.

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

    def stated(self, low_coverage: float) -> "Stated":
        """What the answers state in the mean, number by number. A later number is that of the answers that came so far;
        the last one's mass, without what was not followed, is the share of whole answers.
        """
        means = [line.mean for line in self.lines]
        if self.question.format.numbers[0].each:  # of a ranking
            means = (self.belief.prob @ np.array([number.each for number in self.belief.numbers])).tolist()
        return Stated(tuple(means), self.belief.coverage, self.belief.status(low_coverage))


def _forms(query: Query) -> list[str]:
    """Of all numbers of a line."""
    return [form for option in query.paths.options for form in option.forms]


def planned_trees(reader: PromptReader, questions: Sequence[NumberQuestion]) -> Iterator[list[Query]]:
    """The queries of each tree in which `read_numbers` reads these; of a later number after the first forms of the one
    before, in place of the likeliest.
    """
    running, line = [(question, (question.opening,)) for question in questions], 0
    while running:
        queries = [question.query(reader, beginnings, line) for question, beginnings in running]
        yield queries
        line += 1
        running = [
            (question, tuple(form + question.format.labels[line] for form in _forms(query)[:BEAM]))
            for (question, _), query in zip(running, queries, strict=True)
            if line < len(question.format.labels)
        ]


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
        return self.question.query(reader, self.beginnings, len(self.lines))

    def take(self, query: Query, reading: ExactReading, beam: int) -> None:
        """Keep a line, and follow its likeliest forms to the next."""
        number_format = self.question.format
        self.lines.append(NumberDistribution(number_format.numbers, reading.logp, self.dropped))
        self.competitors.append(reading.competitor)
        if self.done:
            return
        forms, logp = _forms(query), np.concatenate(reading.form_logp)
        ranked = np.argsort(-logp, kind="stable")
        self.beginnings = tuple(forms[i] + number_format.labels[len(self.lines)] for i in ranked[:beam])
        self.dropped += float(np.exp(logp[ranked[beam:]]).sum())


def read_numbers(
    lm: "LanguageModel",
    questions: Sequence[NumberQuestion],
    *,
    beam: int = BEAM,
    budget: int | None = None,
    capture: CapturePlan | None = None,
    captured: list[Captured] | None = None,
    costs: list[Cost] | None = None,
) -> list[NumberReading]:
    """The exact distributions over the numbers in the answers.

    First numbers are read in one tree, whatever their formats. The second number of a format is read after the `beam`
    likeliest forms of the first, and so on, each in a further tree; what was left out is stated as `unread`.

    Args:
        beam: most beginnings of an answer that are followed.
        budget: most tokens of one forward pass; None: by the memory of the device.
        capture: what to take of the residual stream at the `positions` of the questions, in the pass of first numbers.
        captured: takes what was captured.
        costs: takes what each tree cost.

    Raises UserError for a beam of nothing, and as `PromptReader.query` does.
    """
    if beam < 1:
        raise UserError(f"beam {beam}: follow at least one beginning")
    courses = [_Course(question, (question.opening,)) for question in questions]
    while running := [course for course in courses if not course.done]:
        queries = [course.query(lm.reader) for course in running]
        first = capture if not running[0].lines else None
        readings, cost, taken = lm.read(queries, budget=budget, capture=first)
        if costs is not None:
            costs.append(cost)
        if taken is not None and captured is not None:
            captured.append(taken)
        for course, query, reading in zip(running, queries, readings, strict=True):
            course.take(query, reading, beam)
    return [NumberReading(course.question, tuple(course.lines), course.competitors[0]) for course in courses]
