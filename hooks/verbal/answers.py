"""Answers that the model writes, greedily or sampled, and the belief that they state."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..generation.generation import GeneratedText, Request
from ..generation.sampling import Sampling
from ..prompts.options import END
from .asking import NumberQuestion
from .parsing import parse_answer

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

    An answer to a format of one number is stopped at its first terminator, as nothing later is read.
    """
    written: list[list[Answer]] = [[] for _ in questions]
    for stop in dict.fromkeys(map(_stop, questions)):
        group = [i for i, one in enumerate(questions) if _stop(one) == stop]
        requests = [Request(questions[i].readout_id, questions[i].prompt(lm.reader), range(draws)) for i in group]
        samples = lm.sample(requests, sampling.model_copy(update={"stop": stop}), seed=seed)
        for place, sample in enumerate(samples):
            written[group[place // draws]].append(_answer(questions[group[place // draws]], sample))
    return written


def _answer(question: NumberQuestion, sample: GeneratedText) -> Answer:
    text = question.prefill + sample.text + sample.stop
    parsed = parse_answer(text, question.format, ended=sample.status == "ok")
    return Answer(sample.readout_id, sample.draw, text, parsed.values, parsed.status)


def _stop(question: NumberQuestion) -> tuple[str, ...]:
    """The terminators as stop texts, if the first of them ends the answer."""
    ends = question.format.terminators if len(question.format.labels) == 1 else ()
    return tuple(text for text in ends if text != END)


def answer_rows(
    question: NumberQuestion, method: str, answers: Sequence[Answer], options: Sequence[str], low_coverage: float
) -> list[dict[str, object]]:
    """The rows of the belief table for the options (yes, no), without the columns of an experiment.

    P(yes) is the mean of the answers that state a number, and `coverage` their share. Where none does, the status is
    that of most answers, and there is no number.

    Args:
        question: the question.
        method: `greedy` or `sampled`, added to the name of the format.
        answers: to the question; one alone is a reading of its own.
        options: (yes, no).
        low_coverage: a smaller share is flagged.
    """
    stated = [answer.values[-1] for answer in answers if answer.status == "ok"]
    coverage = len(stated) / len(answers) if answers else np.nan
    if stated:
        mean, status = float(np.mean(stated)), "low_coverage" if coverage < low_coverage else "ok"
    else:
        mean, status = np.nan, next((name for name, _ in Counter(a.status for a in answers).most_common(1)), "nan")
    return question.belief_rows(method, options, mean=mean, coverage=coverage, status=status)
