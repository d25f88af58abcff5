"""The studentised bootstrap, for means of squares: their skewness makes other intervals end too early (METRICS F1)."""

import numpy as np

from ..validation import Floats
from .intervals import MIN_BOOTSTRAP_CLUSTERS, Interval, t_interval
from .resampling import cluster_counts, picks

STUDENTISED = "studentised cluster bootstrap"
SPREAD = 1e-6
"""A standard error below this share of the sample's is rounding."""


def studentised_mean(values: Floats, *, seed: int, draws: int = 2000, level: float = 0.95) -> Interval:
    """Interval of the mean of one value per cluster [G] (Davison and Hinkley 1997, section 5.2.1).

    Each resample gives a t statistic with its own standard error, and their quantiles stand in for those of t. One
    that has no spread has none and is left out. Below ten clusters t(G - 1) stays; one gives nothing.
    """
    g = len(values)
    if g < 2:
        return Interval(method="none: one cluster" if g else "")
    mean, se = float(values.mean()), float(values.std(ddof=1) / np.sqrt(g))
    if g < MIN_BOOTSTRAP_CLUSTERS:
        lo, hi = t_interval(mean, se, g - 1, level)
        return Interval(se=se, lo=lo, hi=hi, method=f"t over {g} clusters", params={"level": level}, df=g - 1)
    centred = values - mean
    counts = (cluster_counts(block, g) for block in picks(g, draws, seed))
    first, second = np.concatenate([c @ np.column_stack([centred, centred**2]) / g for c in counts]).T
    error = np.sqrt(np.maximum(second - first**2, 0) / (g - 1))
    spread = error > SPREAD * se
    params = {"level": level, "draws": draws, "seed": seed}
    if not spread.any():
        return Interval(se=se, lo=mean, hi=mean, method=STUDENTISED, params=params)
    low, high = np.quantile(first[spread] / error[spread], [(1 - level) / 2, (1 + level) / 2])
    return Interval(se=se, lo=mean - se * high, hi=mean - se * low, method=STUDENTISED, params=params)
