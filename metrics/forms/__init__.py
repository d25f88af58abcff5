"""The plain forms that a table may have, told apart by their columns."""

from . import belief_columns, gathered, levels, options, others, updates, whitebox
from .form import Form

FORMS = (
    *(others.RELATED, others.LEARNING, others.PERTURBED, others.IMPLANTED, others.THOUGHTS, others.LABELS),
    *(belief_columns.BAYES, belief_columns.TESTIMONY, belief_columns.TOLD, belief_columns.PRIZES),
    *(belief_columns.DECISIONS, belief_columns.RECORDS, options.ANSWERS, belief_columns.CASES),
    *(options.REJECTION_ROWS, options.REJECTION_COLUMNS, options.READOUTS, options.COUNTS, updates.JUDGES),
    *(whitebox.LAYERS, whitebox.FORKS, whitebox.PATCHES, whitebox.ASKERS, whitebox.QUERIES, whitebox.YES_NO),
    *(belief_columns.BINARY, belief_columns.SEVERAL, updates.CHAINS, updates.TRAJECTORY_ROWS),
    *(updates.TRAJECTORY_COLUMNS, updates.PAIRS, belief_columns.FORECASTS, belief_columns.TRUTHS),
    *(belief_columns.HITS, gathered.LISTED_ANSWERS, gathered.LISTED_PRIZES, levels.CELLS),
)
"""The more particular ones first; a table has the first that lacks nothing."""

__all__ = ["FORMS", "Form"]
