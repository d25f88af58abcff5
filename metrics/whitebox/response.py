"""Does the belief follow evidence whose posterior is known? (METRICS W4)"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..inference.intervals import moment_interval
from ..inference.rows import complete_rows
from ..score import NAN, Score
from ..validation import Floats, probabilities


@dataclass(frozen=True, kw_only=True)
class EvidenceSlope(Score):
    """METRICS W4."""

    headline: ClassVar[str] = "slope"
    slope: float = NAN
    """Of the belief on the true posterior, within questions: 1 follows the evidence fully, 0 not at all."""


def evidence_slope(
    belief: ArrayLike,
    truth: ArrayLike,
    groups: ArrayLike,
    *,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> EvidenceSlope:
    """Slope of beliefs on true posteriors, each less its mean in the question (METRICS W4).

    What questions differ by, such as a prior that is stated in them, is no response and does not count.

    Args:
        belief: [n] beliefs as evidence comes in; a NaN is dropped.
        truth: [n] posterior that Bayes' rule gives at the same place.
        groups: [n] question, within which the slope is taken, and the unit of the interval.
        level: of the interval.
        draws: of the bootstrap.
        seed: of the bootstrap.

    `too_few` where no question has two beliefs at different posteriors.
    """
    columns = {"belief": probabilities(belief, "belief"), "truth": probabilities(truth, "truth")}
    rows = complete_rows(groups, **columns)
    if not rows.n:
        return EvidenceSlope(status="too_few", **rows.counts)
    n = np.bincount(rows.codes)
    seen, known = (column - (np.bincount(rows.codes, column) / n)[rows.codes] for column in rows.columns)
    moments = np.column_stack([seen * known, known * known])
    if not moments[:, 1].sum() > 0:
        return EvidenceSlope(status="too_few", **rows.counts)

    def slope(sums: Floats) -> Floats:
        return sums[:, 0] / np.where(sums[:, 1] > 0, sums[:, 1], np.nan)

    value = float(slope(moments.sum(axis=0)[None])[0])
    made = moment_interval(moments, rows.codes, slope, seed=seed, draws=draws, level=level)
    return EvidenceSlope(slope=value, **made.fields(), **made.test_of_zero(value), **rows.counts)
