"""The metrics that a table can be scored by, a file per family."""

from collections.abc import Sequence

from . import bayes, bscore, consistency, decision, iterated_expectation, martingale, outcomes, reliability, sycophancy
from .metric import Compared, Line, Metric, size

METRICS: Sequence[Metric] = (
    *martingale.METRICS,
    *outcomes.METRICS,
    *consistency.METRICS,
    *bscore.METRICS,
    *bayes.METRICS,
    *sycophancy.METRICS,
    *decision.METRICS,
    *iterated_expectation.METRICS,
    *reliability.METRICS,
)
"""In the order in which they are printed."""

__all__ = ["METRICS", "Compared", "Line", "Metric", "size"]
