"""What the report of a run shows beside the numbers, and what helps where the options hold little."""

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import shorten

import numpy as np
import pandas as pd

from ..experiment import Column, Findings, Gallery, Instance, Table, Transcript, Transcripts
from ..scoring.families.multiclass import EVEN, GUESS, UNBINNED
from ..scoring.number import Number
from ..tables.samples import ALL
from .config import AskConfig
from .figures import reliability_figure
from .table import Answered, answered

MOST = 300
"""Questions on a page; of more, so many are drawn."""
LONGEST = 300
"""Characters of a question that are shown before it is unfolded."""
ORDERS = {
    "none": "with their options as they are listed",
    "latin": "so often that each option stands once in each place (`orders: latin`)",
    "all": "in every order of their options (`orders: all`)",
}
COLUMNS = (
    Column(
        "accuracy", "accuracy", "share of questions whose likeliest option is the true one", percent=True, beside=GUESS
    ),
    Column("brier_multiclass", "Brier", "squared distance from the truth, over all options, in [0, 2]", beside=EVEN),
    Column("log_loss", "log-loss", "-log of the probability of the true option, nats", beside=EVEN),
    Column(
        "calibration_error",
        "calibration error",
        "RMS over bins of confidence, less what chance adds",
        beside=UNBINNED,
    ),
    Column("calibration_error", "ECE", "as published; few questions in a bin make it large", field="ece"),
    Column("confidence", "confidence", "mean probability of the likeliest option", percent=True),
    Column("coverage", "coverage", "how much of what the model would say the options are", percent=True),
    Column("by_place", "by place", "share of questions whose belief follows the place of the options", percent=True),
    Column("order_effect", "order effect", "how far the order of the options moves the belief (total variation)"),
)
PROPOSED = Table(
    "Is this the right answer?",
    "Of options that are proposed one by one: P(yes) against whether the option is right.",
    (
        Column("brier", "Brier", "squared distance of P(yes) from the truth"),
        Column("calibration", "calibration slope", "1 is calibrated"),
        Column("p_yes", "P(yes)", "mean over all options"),
    ),
    (ALL,),
)


def findings(config: AskConfig, beliefs: pd.DataFrame, numbers: Sequence[Number], transcripts: Transcripts) -> Findings:
    """The scores, also by topic, the reliability diagram, and the questions."""
    asked = dict(answered(beliefs))
    had = {number.metric for number in numbers}
    columns = [column for column in COLUMNS if column.metric in had]
    subsets = list(dict.fromkeys(number.subset for number in numbers if number.subset != ALL))
    by = [Table(f"By {config.by}", "Interval over questions.", columns, subsets)] if subsets else []
    first = next(iter(asked.values()))
    question = (
        f"{len(first)} questions, each with its own options, are asked {ORDERS[config.orders]}; the exact probability "
        "of every option is read in each order, and the belief is the mean over orders."
    )
    advice = [*low_coverage(config, asked)]
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
        masses = [mass for one in questions if np.isfinite(mass := one.coverage.mean())]
        if method not in config.methods or not masses or not (mass := np.median(masses)) < config.low_coverage:
            continue
        tokens = Counter(one.rather[0] for one in questions if one.rather[0])
        likely = ", ".join(f"{token!r} ({n / len(questions):.0%} of questions)" for token, n in tokens.most_common(3))
        yield (
            f"Under {method} the options hold {mass:.2g} of what the model would say (median question); "
            f"it would rather begin with {likely or 'something else'}. `fit`, or `lm.fit_forms`, finds a beginning "
            "under which they hold more."
        )


def _gallery(config: AskConfig, asked: dict[str, list[Answered]], transcripts: Transcripts) -> Gallery | None:
    """The questions as asked in the given order, with what was read; that which surprises most comes first."""
    every = [(method, one) for method, own in asked.items() if method in config.methods for one in own if _shown(one)]
    if not every:
        return None
    drawn = np.random.default_rng(config.seed).permutation(len(every))[:MOST]
    shown = sorted((every[i] for i in drawn), key=lambda pair: pair[1].value_of_truth)
    names = {_name(method, one) for method, one in shown}
    said = transcripts(names)
    return Gallery(
        caption=f"{len(shown)} of {len(every)}; those whose true option is least probable come first.",
        facets=["method", "topic", "right"],
        score="P(true option)",
        instances=[
            Instance(
                [method, one.topic, _right(one)],
                one.value_of_truth,
                f"{_asked(said[_name(method, one)])}\n{_read(one)}",
                [(f"as asked first; the belief: {_read(one)}", said[_name(method, one)])],
            )
            for method, one in shown
        ],
    )


def _asked(said: Transcript) -> str:
    """The question with its options as it was asked, shortened."""
    return shorten(said["messages"][-1]["content"], LONGEST, placeholder=" ...")


def _read(one: Answered) -> str:
    """Every option with its probability, and which of them is true."""
    each = enumerate(zip(one.options, one.belief, strict=True))
    return ", ".join(f"{option}{' (true)' * (i == one.truth)}: {p:.3f}" for i, (option, p) in each)


def _shown(one: Answered) -> bool:
    return bool(np.isfinite(one.belief).all())


def _name(method: str, one: Answered) -> str:
    return f"{one.item}/{method}/{'option' if one.yes is not None else 'order'}-0"


def _right(one: Answered) -> str:
    return "unknown" if one.truth is None else "yes" if one.value == one.options[one.truth] else "no"
