"""The plain forms that a table may have, known by their columns."""

from . import options, readings, updates
from .form import Form

FORMS = (
    readings.BAYES,
    readings.CASES,
    options.LONG,
    options.WIDE,
    updates.LONG,
    updates.WIDE,
    updates.PAIRS,
    readings.FORECASTS,
)
"""The more particular ones first; a table has the first that lacks nothing."""

__all__ = ["FORMS", "Form"]
