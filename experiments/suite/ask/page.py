"""What the report of a run shows beside the numbers: questions, the reliability diagram, and what helps where the
options hold little.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from textwrap import shorten

import numpy as np
import pandas as pd

from ....base.text import commonest
from ....metrics import CalibrationError
from ....metrics.consistency.competence import LEAST_ORDERED
from ....metrics.decision.forecast_metrics import CHANCE, UNBINNED
from ....metrics.number import Number
from ....metrics.tables.samples import ALL
from ...report.figures import chart
from ...report.findings import Column, Figure, Findings, Gallery, Instance, Table, Transcript
from ...report.marks import band, diagonal, points, unit
from ...report.plotting import INK
from ...run.experiment import Transcripts
from ...run.galleries import gallery
from .config import AskConfig
from .samples import Answered, answered


def reliability_figure(numbers: Sequence[Number]) -> list[Figure]:
    """One panel for each method whose questions have a truth."""
    errors = [
        (number.method, number.score)
        for number in numbers
        if isinstance(number.score, CalibrationError) and number.score.bins and number.subset == ALL
    ]
    if not errors:
        return []
    caption = (
        "All dots stand for equal numbers of questions. A dot shows the mean probability of the likeliest option, and "
        "the share of these questions in which it is true. The dashed line is perfect calibration; the dots of a "
        "calibrated model lie in the band (95%, wider where questions of a cluster are alike)."
    )
    panels = []
    for method, error in errors:
        columns = zip(*((bin.confidence, bin.lo, bin.hi, bin.frequency) for bin in error.bins), strict=True)
        places, lo, hi, frequencies = columns
        calibrated = band(places, lo, hi, "band of a calibrated model", color=INK, alpha=0.12)
        dots = points(places, frequencies, "questions", size=14)
        panels.append((method, [diagonal("calibrated"), calibrated, dots]))
    title = "Is it right as often as it is sure?"
    return [chart(title, panels, caption, x=unit("probability"), y=unit("share right"))]


LONGEST = 300
"""Characters of a question that are shown before it is unfolded."""
ORDERS = {
    "none": "with their options as they are listed",
    "latin": "so often that each option stands once in each place (`orders: latin`)",
    "all": "in every order of their options (`orders: all`)",
}
COLUMNS = (
    Column("accuracy", "accuracy", "share of questions whose likeliest option is the true one",
           percent=True, beside=CHANCE),
    Column("brier_multiclass", "Brier", "squared distance of the belief from the truth, summed over all options, in "
           "[0, 2]", beside=CHANCE),
    Column("log_loss", "log-loss", "-log of the probability of the true option, nats", beside=CHANCE),
    Column("calibration_error", "calibration error", "RMS distance of confidence and frequency over bins, minus the "
           "part that chance adds", beside=UNBINNED),
    Column("calibration_error", "ECE", "expected calibration error, as published; few questions in a bin make it large",
           field="ece"),
    Column("confidence", "confidence", "mean probability of the likeliest option", percent=True),
    Column("coverage", "mean coverage", "probability that the answer is one of the options, mean over questions",
           percent=True),
    Column("by_place", "by place", "share of questions whose belief follows the place of the options", percent=True),
    Column("order_effect", "order effect", "how far the order of the options moves the belief (total variation)"),
)  # fmt: skip
TOO_FEW = (
    f"With fewer than {LEAST_ORDERED} questions of different content nothing is called readable, since so few cannot "
    "show whether the answers follow the place of the options."
)
PROPOSED = Table(
    "Is this the right answer?",
    "Each option is proposed by itself; the scores compare P(yes) with whether the option is right.",
    (
        Column("brier", "Brier", "squared distance of P(yes) from the truth"),
        Column(
            "calibration",
            "calibration slope",
            "slope of the outcome on the belief, in log-odds; a calibrated model has 1",
        ),
        Column("p_yes", "P(yes)", "mean P(yes) over all options"),
    ),
    (ALL,),
)


def findings(config: AskConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts) -> Findings:
    """The scores, also by topic, the reliability diagram, and the questions."""
    asked = dict(answered(beliefs))
    had = {number.metric for number in numbers}
    columns = [column for column in COLUMNS if column.metric in had]
    subsets = list(dict.fromkeys(number.subset for number in numbers if number.subset != ALL))
    by = [Table(f"By {config.by}", "Intervals are over questions.", columns, subsets)] if subsets else []
    first = next(iter(asked.values()))
    question = (
        f"{len(first)} questions, each with its own options, are asked {ORDERS[config.orders]}; the exact probability "
        "of every option is read in each order, and the belief is the mean over orders."
    )
    few = len({answer.cluster for answer in first}) < LEAST_ORDERED and config.orders != "none"
    advice = [*([TOO_FEW] if few else []), *low_coverage(config, asked)]
    return Findings(
        question=" ".join([question, *advice]),
        columns=columns,
        tables=[*by, PROPOSED],
        figures=reliability_figure(numbers),
        gallery=_gallery(config, asked, transcripts),
        advice=advice,
    )


def low_coverage(config: AskConfig, asked: dict[str, list[Answered]]) -> Iterator[str]:
    """Of each method whose options hold little, what the model would rather begin with, and what may help."""
    for method, questions in asked.items():
        masses = [mass for question in questions if np.isfinite(mass := question.coverage.mean())]
        if method not in config.methods or not masses or not (mass := np.median(masses)) < config.low_coverage:
            continue
        tokens = Counter(question.rather[0] for question in questions if question.rather[0])
        shares = [f"{token!r} (in {n / len(questions):.0%} of the questions)" for token, n in commonest(tokens)]
        yield (
            f"Under {method} the options have a probability of {mass:.2g} together (median question). The likeliest "
            f"other beginning of the answer is {', '.join(shares) or 'not known'}. `fit`, or `lm.fit_forms`, finds "
            "words before the answer after which the options are more probable."
        )


def _gallery(config: AskConfig, asked: dict[str, list[Answered]], transcripts: Transcripts) -> Gallery | None:
    """The questions as asked in the given order, with what was read; the most surprising comes first."""
    every = [
        (method, answer)
        for method, answers in asked.items()
        if method in config.methods
        for answer in answers
        if np.isfinite(answer.belief).all()
    ]
    if not every:
        return None
    names = [f"{a.item}/{method}/{'option' if a.yes is not None else 'order'}-0" for method, a in every]

    def instance(i: int, texts: Mapping[str, Transcript]) -> Instance:
        (method, answer), transcript = every[i], texts[names[i]]
        question = shorten(transcript["messages"][-1]["content"], LONGEST, placeholder=" ...")
        read = _read(answer)
        right = "unknown" if answer.truth is None else "yes" if answer.value == answer.options[answer.truth] else "no"
        facets = [method, answer.topic, right]
        conversations = [(f"belief from all readings: {read}; the first reading", transcript)]
        return Instance(facets, answer.value_of_truth, f"{question}\n{read}", conversations)

    return gallery(
        [-answer.value_of_truth for _, answer in every],
        lambda i: [names[i]],
        instance,
        transcripts,
        facets=["method", "topic", "right"],
        score="P(true option)",
        ranking=f"questions{' by method' * (len(asked) > 1)}; those whose true option is least probable come",
        seed=config.seed,
    )


def _read(answer: Answered) -> str:
    """Every option with its probability, and which of them is true."""
    each = enumerate(zip(answer.options, answer.belief, strict=True))
    return ", ".join(f"{option}{' (true)' * (i == answer.truth)}: {p:.3f}" for i, (option, p) in each)
