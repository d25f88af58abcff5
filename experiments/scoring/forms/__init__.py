"""The plain forms that a table may have, known by their columns."""

from . import answers, choices, options, readings, updates
from .form import Form

FORMS = (
    readings.BAYES,
    choices.TESTIMONY,
    choices.PRIZES,
    choices.DECISIONS,
    answers.ANSWERS,
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
