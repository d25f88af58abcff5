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
from .rows import Stated, belief_rows

if TYPE_CHECKING:
    from ..lm import LanguageModel

SAMPLING = Sampling(max_new_tokens=32)
"""The default law: the model's own. `Sampling(temperature=0)` is greedy."""


@dataclass(frozen=True)
class Answer:
    """One written answer. All fields are plain values: a line of a transcript."""

    readout_id: str
    draw: int
    text: str
    """The whole turn, with what was put into the model's mouth."""
    values: tuple[float, ...]
    """Probabilities, one for each number of the format; empty unless the status is `ok`."""
    status: str
    """See `Parsed`."""


def write_answers(
    lm: "LanguageModel", asked: Sequence[NumberQuestion], law: Sampling = SAMPLING, *, draws: int = 1, seed: int = 0
) -> list[list[Answer]]:
    """Let the model answer each question `draws` times, and parse what it writes.

    An answer to a format of one number is stopped at its first terminator, as nothing later is read.
    """
    written: list[list[Answer]] = [[] for _ in asked]
    for stop in dict.fromkeys(map(_stop, asked)):
        group = [i for i, one in enumerate(asked) if _stop(one) == stop]
        requests = [Request(asked[i].readout_id, asked[i].prompt(lm.reader), range(draws)) for i in group]
        samples = lm.sample(requests, law.model_copy(update={"stop": stop}), seed=seed)
        for place, sample in enumerate(samples):
            written[group[place // draws]].append(_answer(asked[group[place // draws]], sample))
    return written


def _answer(asked: NumberQuestion, sample: GeneratedText) -> Answer:
    text = asked.prefill + sample.text + sample.stop
    parsed = parse_answer(text, asked.format, ended=sample.status == "ok")
    return Answer(sample.readout_id, sample.draw, text, parsed.values, parsed.status)


def _stop(asked: NumberQuestion) -> tuple[str, ...]:
    """The terminators as stop texts, if the first of them ends the answer."""
    ends = asked.format.terminators if len(asked.format.labels) == 1 else ()
    return tuple(text for text in ends if text != END)


def answer_rows(
    asked: NumberQuestion, method: str, answers: Sequence[Answer], options: Sequence[str], low_coverage: float
) -> list[dict[str, object]]:
    """The rows of the belief table for the options (yes, no), without the columns of an experiment.

    P(yes) is the mean of the answers that state a number, and `coverage` their share. Where none does, the status is
    that of most answers, and there is no number.

    Args:
        asked: the question.
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
    return belief_rows(asked, method, Stated(mean, coverage, status), options)
