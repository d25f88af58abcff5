"""Does the belief follow evidence whose posterior is known? (METRICS W4)"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..inference.intervals import moment_interval
from ..inference.rows import Rows, complete_rows
from ..logodds import clipped_logit
from ..score import NAN, Score
from ..validation import Floats, probabilities
from .responding import Responding, items_responding


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

    The interval is no shorter than CR3 with t of the questions that carry the slope: of beliefs near 0 and 1 those are
    few. `few_effective_clusters` where fewer than ten do, and `too_few` where no question has two beliefs at different
    posteriors. A slope above 0 says that some questions are responded to: `evidence_responding` says whether most are.
    """
    rows, seen, known = _within(belief, truth, groups)
    if not rows.n:
        return EvidenceSlope(status="too_few", **rows.counts)
    moments = np.column_stack([seen * known, known * known])
    if not moments[:, 1].sum() > 0:
        return EvidenceSlope(status="too_few", **rows.counts)

    def slope(sums: Floats) -> Floats:
        return sums[:, 0] / np.where(sums[:, 1] > 0, sums[:, 1], np.nan)

    value = float(slope(moments.sum(axis=0)[None])[0])
    how = {"seed": seed, "draws": draws, "level": level}
    made = moment_interval(moments, rows.codes, slope, weights=moments[:, 1], **how)
    return EvidenceSlope(slope=value, status=made.concern, **made.fields(), **made.test_of_zero(value), **rows.counts)


def evidence_responding(belief: ArrayLike, truth: ArrayLike, groups: ArrayLike, *, level: float = 0.95) -> Responding:
    """Share of the questions in which the belief follows the true posterior: `items_responding` of the same, or of its
    log-odds, in which whoever is surer than Bayes' rule answers to all evidence alike.
    """
    rows, seen, known = _within(belief, truth, groups)
    odds = [_less_mean(clipped_logit(column, "belief")[0], rows) for column in rows.columns]
    return items_responding(seen, known, rows.codes, log_odds=(odds[0], odds[1]), level=level)


def _within(belief: ArrayLike, truth: ArrayLike, groups: ArrayLike) -> tuple[Rows, Floats, Floats]:
    """The complete rows, and beliefs and posteriors less their means in the question."""
    rows = complete_rows(groups, belief=probabilities(belief, "belief"), truth=probabilities(truth, "truth"))
    seen, known = (_less_mean(column, rows) for column in rows.columns)
    return rows, seen, known


def _less_mean(column: Floats, rows: Rows) -> Floats:
    return column - (np.bincount(rows.codes, column) / np.bincount(rows.codes))[rows.codes]
