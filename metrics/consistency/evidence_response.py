"""Do beliefs follow evidence (METRICS W4), and do the items do so, or only a few of them by much (METRICS W3, W4)?"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score, floats, probabilities
from ..divergence import clipped_logit
from ..inference.clusters import Rows, complete_rows
from ..inference.intervals import moment_interval
from ..inference.means import share_difference
from ..inference.regression import ROUNDING

QUARTER = 0.25
"""Of the pooled slope, from which on an item's own counts; and of the usual size of the evidence, below which an item
has no slope of its own."""
MOST = 0.5
"""Of the items: a gate asks for more than this, since a mean that half of them make is no response of the model."""
FEWEST = 5
"""Items with a slope of their own, of which so many can be shown to respond: if all of five follow, the lower bound is
.504."""


@dataclass(frozen=True, kw_only=True)
class Responding(Score):
    """METRICS W4."""

    headline: ClassVar[str] = "share"
    share: float = NAN
    """Of the items: those that follow the evidence less those that turn against it."""
    follow: int = 0
    """Items whose own slope is more than a quarter of the pooled one, of probabilities or of log-odds."""
    turn: int = 0
    """Items whose own slope is as far on the other side of 0."""

    def at(self, level: float) -> "Responding":
        """The same with the interval of another level."""
        if not self.n_clusters:
            return self
        lo, hi = share_difference(self.follow, self.turn, self.n_clusters, level)
        return replace(self, ci_lo=lo, ci_hi=hi, params={"level": level})

    @property
    def withheld(self) -> str:
        """Why no share is told, in words; empty if one is."""
        if self.status == "ok":
            return ""
        return f"{self.n_clusters} items have a slope of their own, and {FEWEST} are needed"


def items_responding(
    change: ArrayLike,
    evidence: ArrayLike,
    items: ArrayLike,
    *,
    log_odds: tuple[ArrayLike, ArrayLike] | None = None,
    how: Resampling = RESAMPLING,
) -> Responding:
    """Share of the items that respond to evidence (METRICS W4).

    Args:
        change: [n] how far what is read lies from where it stands in its item, or stood before.
        evidence: [n] the same of what it should follow.
        items: [n], each of which has one slope through zero, however many rows.
        log_odds: change and evidence in log-odds, each [n], where the others are of probabilities. An item that follows
            on one of the two scales, and does not turn on the other, follows; one that turns likewise.

    A pooled slope above 0 says that some items respond, not that most do: if a tenth of fifty do, it is. What does not
    respond has a slope that noise makes, as often above 0 as below. So the items below count against those above: the
    difference is no more than the share that responds, however large the noise is and however few the levels of an
    item. Its interval is `share_difference`, with no item larger than another. Items whose evidence has less than a
    quarter of the root mean square of all items' have no slope of their own; fewer than five others are
    `too_few_items`.

    Whoever answers more surely than Bayes' rule hardly moves where beliefs are near 0 or 1, and by much between: of
    probabilities most of such a reader's slopes lie far below the pooled one, while those of its log-odds are equal.
    """
    named = zip(("change_logit", "evidence_logit"), log_odds or (), strict=False)
    rows = complete_rows(
        items, change=floats(change), evidence=floats(evidence), **{name: floats(column) for name, column in named}
    )
    if not rows.n:
        return Responding(status="too_few_items", **rows.counts)
    b, sizes = rows.columns[1], np.bincount(rows.codes)
    size = np.bincount(rows.codes, b * b) / sizes
    told = size >= max(QUARTER**2 * size.mean(), TIE**2)
    scales = zip(rows.columns[::2], rows.columns[1::2], strict=True)
    own = np.sum([_sides(moved, by, rows.codes) for moved, by in scales], axis=0)[told]
    counts: dict[str, Any] = rows.counts | {"n_rows": int(sizes[told].sum()), "n_clusters": len(own)}
    if left := int(sizes[~told].sum()):
        counts["n_dropped"] += left
        counts["reasons"] = {**counts["reasons"], "too little evidence": left}
    if not len(own):
        return Responding(status="too_few_items", **counts)
    follow, turn = int((own > 0).sum()), int((own < 0).sum())
    found = Responding(
        share=(follow - turn) / len(own),
        follow=follow,
        turn=turn,
        ci_method=f"Newcombe, {follow} and {turn} of {len(own)} items",
        status="ok" if len(own) >= FEWEST else "too_few_items",
        **counts,
    )
    return found.at(how.level)


def _sides(change: Floats, evidence: Floats, codes: NDArray[np.intp]) -> Floats:
    """[items] 1: its slope is more than a quarter of the pooled one; -1: as far on the other side of 0; 0: neither."""
    ab, bb = (np.bincount(codes, evidence * x) for x in (change, evidence))
    least = max(QUARTER * float(ab.sum() / bb.sum()), ROUNDING) if bb.sum() > 0 else ROUNDING
    return (ab > least * bb) * 1.0 - (ab < -least * bb) * 1.0


# Does the belief follow evidence whose posterior is known? (METRICS W4)


@dataclass(frozen=True, kw_only=True)
class EvidenceSlope(Score):
    """METRICS W4."""

    headline: ClassVar[str] = "slope"
    slope: float = NAN
    """Of the belief on the true posterior, within questions: 1 follows the evidence fully, 0 not at all."""


def evidence_slope(
    belief: ArrayLike, truth: ArrayLike, groups: ArrayLike, *, how: Resampling = RESAMPLING
) -> EvidenceSlope:
    """Slope of beliefs on true posteriors, each less its mean in the question (METRICS W4).

    What questions differ by, such as a prior that is stated in them, is no response and does not count.

    Args:
        belief: [n] beliefs as evidence comes in; a NaN is dropped.
        truth: [n] posterior that Bayes' rule gives at the same place.
        groups: [n] question, within which the slope is taken, and the unit of the interval.

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
    made = moment_interval(moments, rows.codes, slope, weights=moments[:, 1], how=how)
    return EvidenceSlope(slope=value, status=made.concern, **made.fields(), **made.test_of_zero(value), **rows.counts)


def evidence_responding(
    belief: ArrayLike, truth: ArrayLike, groups: ArrayLike, *, how: Resampling = RESAMPLING
) -> Responding:
    """Share of the questions in which the belief follows the true posterior: `items_responding` of the same, or of its
    log-odds, in which whoever is surer than Bayes' rule answers to all evidence alike.
    """
    rows, seen, known = _within(belief, truth, groups)
    odds = [_less_mean(clipped_logit(column, "belief")[0], rows) for column in rows.columns]
    return items_responding(seen, known, rows.codes, log_odds=(odds[0], odds[1]), how=how)


def _within(belief: ArrayLike, truth: ArrayLike, groups: ArrayLike) -> tuple[Rows, Floats, Floats]:
    """The complete rows, and beliefs and posteriors less their means in the question."""
    rows = complete_rows(groups, belief=probabilities(belief, "belief"), truth=probabilities(truth, "truth"))
    seen, known = (_less_mean(column, rows) for column in rows.columns)
    return rows, seen, known


def _less_mean(column: Floats, rows: Rows) -> Floats:
    return column - (np.bincount(rows.codes, column) / np.bincount(rows.codes))[rows.codes]
