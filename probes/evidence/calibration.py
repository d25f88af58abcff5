"""Calibration of beliefs on rows that they were not fitted on, at each position by itself (PROBES 6).

Why it matters for coherence: an intercept that shifts between prior and posterior appears as drift, a slope that does
as a martingale slope (METRICS A5).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...metrics.inference.equivalence import Equivalence, tost
from ...metrics.validation import Floats, floats
from ..estimators.logistic import soft_logistic
from .crossfit import CALIBRATION_PENALTY
from .refit import Refitted

SLOPE_BAND = (0.8, 1.25)
"""A slope whose interval lies within is called calibrated."""
SHIFT_MARGINS = {"intercept": 0.25, "slope": 0.25}
"""Smallest shifts of interest between two positions, in log-odds and in slope (TOST)."""


class Calibration(NamedTuple):
    """log-odds of the truth = intercept + slope * log-odds of the belief; 0 and 1 are calibrated."""

    slope: float
    """Below 1: over-confident; above: shrunken."""
    intercept: float


def calibrate(logit: ArrayLike, y: ArrayLike) -> Calibration:
    """Of beliefs in log-odds [n] against soft labels [n]; NaN if either is constant."""
    logit, y = floats(logit), floats(y)
    if len(y) < 2 or np.ptp(logit) == 0 or np.ptp(y) == 0:
        return Calibration(float("nan"), float("nan"))
    unit = float(logit.std())
    w, intercept = soft_logistic(logit[:, None] / unit, y, CALIBRATION_PENALTY)
    return Calibration(float(w[0]) / unit, intercept)


def by_level(logit: Floats, y: Floats, levels: ArrayLike) -> dict[str, float]:
    """Slope and intercept at each level, and by how much each level differs from the first."""
    labels = np.asarray(levels).astype(str)
    names = sorted(set(labels))
    found = {name: calibrate(logit[labels == name], y[labels == name]) for name in names}
    told = {f"{what}[{name}]": getattr(one, what) for name, one in found.items() for what in SHIFT_MARGINS}
    for name in names[1:]:
        for what in SHIFT_MARGINS:
            told[f"{what}[{name} - {names[0]}]"] = getattr(found[name], what) - getattr(found[names[0]], what)
    return told


def shift_test(shift: Refitted, what: str) -> Equivalence:
    """Whether a shift of `slope` or `intercept` between two positions is smaller than its margin."""
    margin = SHIFT_MARGINS[what]
    se = shift.se if shift.known else float("nan")
    return tost(shift.value, se, max(shift.n_groups - 1, 1), -margin, margin)
