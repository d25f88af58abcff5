"""The plain forms that a table may have, known by their columns."""

from . import answers, choices, frequencies, judges, options, predictions, readings, records, updates, whitebox
from .form import Form

FORMS = (
    readings.BAYES,
    choices.TESTIMONY,
    choices.TOLD,
    choices.PRIZES,
    choices.DECISIONS,
    records.RECORDS,
    answers.ANSWERS,
    readings.CASES,
    options.LONG,
    options.WIDE,
    frequencies.READOUTS,
    frequencies.COUNTS,
    judges.JUDGES,
    whitebox.LAYERS,
    whitebox.FORKS,
    whitebox.PATCHES,
    whitebox.ASKERS,
    whitebox.QUERIES,
    whitebox.YES_NO,
    predictions.BINARY,
    predictions.SEVERAL,
    updates.CHAINS,
    updates.LONG,
    updates.WIDE,
    updates.PAIRS,
    readings.FORECASTS,
    readings.TRUTHS,
    readings.HITS,
)
"""The more particular ones first; a table has the first that lacks nothing."""

__all__ = ["FORMS", "Form"]
