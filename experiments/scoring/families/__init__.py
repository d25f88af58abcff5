"""The metrics that a table can be scored by, a file per family."""

from collections.abc import Sequence

from . import bayes, consistency, iterated_expectation, martingale, outcomes
from .metric import Compared, Line, Metric, size

METRICS: Sequence[Metric] = (
    *martingale.METRICS,
    *outcomes.METRICS,
    *consistency.METRICS,
    *bayes.METRICS,
    *iterated_expectation.METRICS,
)
"""In the order in which they are printed."""

__all__ = ["METRICS", "Compared", "Line", "Metric", "size"]
