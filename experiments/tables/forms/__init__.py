"""The plain forms that a table may have, told apart by their columns."""

from . import answers, bayes, choices, forecasts, frequencies, judges, options, records, updates, whitebox
from .form import Form

FORMS = (
    bayes.BAYES,
    choices.TESTIMONY,
    choices.TOLD,
    choices.PRIZES,
    choices.DECISIONS,
    records.RECORDS,
    answers.ANSWERS,
    bayes.CASES,
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
    forecasts.BINARY,
    forecasts.SEVERAL,
    updates.CHAINS,
    updates.LONG,
    updates.WIDE,
    updates.PAIRS,
    forecasts.FORECASTS,
    forecasts.TRUTHS,
    forecasts.HITS,
)
"""The more particular ones first; a table has the first that lacks nothing."""

__all__ = ["FORMS", "Form"]
