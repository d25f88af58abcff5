"""What a study of this size could have found (METRICS A2, I)."""

import numpy as np
import scipy

POWER = 0.8
"""Of a study that is called able to find an effect."""


def minimum_detectable(ci_lo: float, ci_hi: float, se: float, df: float = np.inf) -> float:
    """The smallest size of an effect that a two-sided test is 80% sure to find: half its interval and t_.8 standard
    errors. The level is that of the interval; without one the size is NaN.
    """
    return (ci_hi - ci_lo) / 2 + float(scipy.stats.t.ppf(POWER, df)) * se
