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
    def found(self) -> bool | None:
        """Whether the interval, widened by the tolerance, holds the planted value and no rival farther from that than
        the tolerance. So an interval that is missing, or so wide that it would find two things at once, finds nothing.
        None where nothing was planted that could be found.
        """
        if math.isnan(self.planted):
            return None
        lo, hi = self.lo - self.tolerance, self.hi + self.tolerance
        apart = [other for other in self.rivals if abs(other - self.planted) > self.tolerance]
        return lo <= self.planted <= hi and not any(lo <= other <= hi for other in apart)


def line(what: str, reading: str, planted: float, score: Score, rivals: tuple[float, ...] | None = None) -> Recovered:
    """A number beside what was planted; without `rivals` those of its name."""
    rivals = RIVALS.get(what, (0.0, 1.0)) if rivals is None else rivals
    return Recovered(what, reading, planted, score.estimate, score.ci_lo, score.ci_hi, TOLERANCE[what], rivals)
