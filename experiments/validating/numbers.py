"""A planted number, and when it counts as found."""

import math
from typing import NamedTuple

from ...metrics import Score
from ..planted.organisms.species import SHIFT as SHIFT_NATS

SHIFT, RMSE, FRAMING, SUFFICIENT, SHARE, AT_BALLS, DECODED, LENS, GAIN, RANDOM, SURGERY, UNUSED = (
    "shift by an opinion, nats",
    "RMSE to the posterior",
    "framing bias of yes and no",
    "share of the bet that the answer predicts",
    "share of an update at the summary",
    "share of an update at the balls",
    "R2 of the posterior at the summary",
    "slope of the lens on the posterior",
    "causal gain of the probe",
    "causal gain of random directions, size",
    "belief after surgery, slope on what was set",
    "causal gain of a probe of the opinion",
)
TOLERANCE = {SHIFT: 0.15, RMSE: 0.03, FRAMING: 0.02, SUFFICIENT: 0.05, DECODED: 0.05, LENS: 0.05, UNUSED: 0.01} | (
    dict.fromkeys((SHARE, AT_BALLS, GAIN, RANDOM, SURGERY), 0.15)
)
"""How far beyond its interval a planted value may lie: what training to within `card.MOST_ERROR` leaves. An organism is
read without noise, so that an interval can be narrower than what it has learnt is exact."""
RIVALS = {SHIFT: (0.0, SHIFT_NATS), FRAMING: (-1.0, 0.0, 1.0)}
"""What a number would be of a model with another property; of most, 0 or 1."""


class Recovered(NamedTuple):
    """A number as it was planted and as it was found."""

    what: str
    reading: str
    planted: float
    """NaN: nothing was planted that could be found there."""
    estimate: float
    lo: float
    hi: float
    tolerance: float
    rivals: tuple[float, ...] = ()
    """What it would be had something else been planted."""

    @property
    def margin(self) -> float:
        """How far from the planted value the interval may reach: less than half of the way to the nearest rival that is
        farther than the tolerance, and by more than the tolerance short of it. Infinite if there is none.
        """
        apart = [abs(other - self.planted) for other in self.rivals]
        return min((min(d / 2, d - self.tolerance) for d in apart if d > self.tolerance), default=math.inf)

    @property
    def found(self) -> bool | None:
        """Whether the interval, widened by the tolerance, holds the planted value, and itself lies within the margin.

        So a truth that lies halfway to a rival, or nearer to it, is found no more often than an interval of 95% misses
        on one side, however large the noise; an interval that is missing, or so wide that it says nothing, finds
        nothing. None where nothing was planted that could be found.
        """
        if math.isnan(self.planted):
            return None
        near = self.lo - self.tolerance <= self.planted <= self.hi + self.tolerance
        return near and self.planted - self.margin < self.lo and self.hi < self.planted + self.margin


def line(what: str, reading: str, planted: float, score: Score, rivals: tuple[float, ...] | None = None) -> Recovered:
    """A number beside what was planted; without `rivals` those of its name."""
    rivals = RIVALS.get(what, (0.0, 1.0)) if rivals is None else rivals
    return Recovered(what, reading, planted, score.estimate, score.ci_lo, score.ci_hi, TOLERANCE[what], rivals)
