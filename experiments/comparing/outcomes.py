"""Whether tables that are compared say the same of what is true; runs do, since their rows pair by content."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from ..tables.rows import GLUE, label_text
from ..tables.samples import Multiclass, Sample
from ..tables.updates import Updates
from .sides import Side

Row = tuple[str, str, str]
"""Kind, method, key."""


def disagreements(sides: Sequence[Side]) -> list[str]:
    """Of every two tables whose outcomes differ for the same row, a line: how often, and the first such row."""
    known = [(side, dict(_outcomes(side.samples))) for side in sides if side.run is None]
    found = []
    for (one, first), (two, second) in combinations(known, 2):
        common = [row for row in first if row in second]
        differ = [row for row in common if first[row] != second[row]]
        if differ:
            row = differ[0]
            key = GLUE.join(filter(None, row[-1].split(GLUE)))
            found.append(
                f"{one.path} and {two.path}: {len(differ)} of {len(common)} common rows have another outcome, the "
                f"first {label_text(key)}: {first[row]} and {second[row]}; each file is scored by its own"
            )
    return found


def _outcomes(samples: Sequence[Sample]) -> list[tuple[Row, str]]:
    """Each row whose outcome is known, with the outcome as the tables have it."""
    found = []
    for sample in samples:
        rows = sample.whole if isinstance(sample, Updates) else sample
        outcome = getattr(rows, "truth" if isinstance(rows, Multiclass) else "outcome", None)
        if outcome is not None and rows.keys is not None:
            called = "option_index " if isinstance(rows, Multiclass) else ""
            there = np.flatnonzero(np.isfinite(outcome))
            found += [((sample.kind, sample.method, str(rows.keys[i])), f"{called}{outcome[i]:g}") for i in there]
    return found
