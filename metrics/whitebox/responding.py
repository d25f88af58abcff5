"""Do the items respond to evidence, or only a few of them by much? (METRICS W3, W4)"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..inference.jackknife import ROUNDING
from ..inference.rows import complete_rows
from ..inference.shares import share_difference
from ..score import NAN, Score
from ..validation import TIE, floats

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
    """Items whose own slope is more than a quarter of the pooled one."""
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


def items_responding(change: ArrayLike, evidence: ArrayLike, items: ArrayLike, *, level: float = 0.95) -> Responding:
    """Share of the items that respond to evidence (METRICS W4).

    Args:
        change: [n] how far what is read lies from where it stands in its item, or stood before.
        evidence: [n] the same of what it should follow.
        items: [n], each of which has one slope through zero, however many rows.
        level: of the interval.

    A pooled slope above 0 says that some items respond, not that most do: if a tenth of fifty do, it is. What does not
    respond has a slope that noise makes, as often above 0 as below. So the items below count against those above: the
    difference is no more than the share that responds, however large the noise is and however few the levels of an
    item. Its interval is `share_difference`, with no item larger than another. Items whose evidence has less than a
    quarter of the root mean square of all items' have no slope of their own; fewer than five others are
    `too_few_items`.
    """
    rows = complete_rows(items, change=floats(change), evidence=floats(evidence))
    if not rows.n:
        return Responding(status="too_few_items", **rows.counts)
    a, b = rows.columns
    sizes, ab, bb = (np.bincount(rows.codes, weights) for weights in (None, a * b, b * b))
    told = bb / sizes >= max(QUARTER**2 * (bb / sizes).mean(), TIE**2)
    own = ab[told] / bb[told]
    counts: dict[str, Any] = rows.counts | {"n_rows": int(sizes[told].sum()), "n_clusters": len(own)}
    if left := int(sizes[~told].sum()):
        counts["n_dropped"] += left
        counts["reasons"] = {**counts["reasons"], "too little evidence": left}
    if not len(own):
        return Responding(status="too_few_items", **counts)
    least = max(QUARTER * float(ab.sum() / bb.sum()), ROUNDING)
    follow, turn = int((own > least).sum()), int((own < -least).sum())
    found = Responding(
        share=(follow - turn) / len(own),
        follow=follow,
        turn=turn,
        ci_method=f"Newcombe, {follow} and {turn} of {len(own)} items",
        status="ok" if len(own) >= FEWEST else "too_few_items",
        **counts,
    )
    return found.at(level)
