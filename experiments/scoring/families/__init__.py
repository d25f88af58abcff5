"""The metrics that a table can be scored by, a file per family."""

from collections.abc import Sequence

from . import (
    agreement,
    bayes,
    bscore,
    consistency,
    decision,
    drift,
    dutch_book,
    factors,
    frequencies,
    iterated_expectation,
    martingale,
    multiclass,
    outcomes,
    policy,
    ratio,
    reliability,
    sycophancy,
    testimony,
    verification,
    whitebox,
)
from .metric import WITHHELD, Compared, Line, Metric, size

METRICS: Sequence[Metric] = (
    *martingale.METRICS,
    *factors.METRICS,
    *drift.METRICS,
    *outcomes.METRICS,
    *multiclass.METRICS,
    *agreement.METRICS,
    *ratio.METRICS,
    *consistency.METRICS,
    *frequencies.METRICS,
    *bscore.METRICS,
    *verification.METRICS,
    *bayes.METRICS,
    *testimony.METRICS,
    *sycophancy.METRICS,
    *decision.METRICS,
    *policy.METRICS,
    *iterated_expectation.METRICS,
    *reliability.METRICS,
    *whitebox.METRICS,
    *dutch_book.METRICS,
)
"""In the order in which they are printed."""

__all__ = ["METRICS", "WITHHELD", "Compared", "Line", "Metric", "size"]
