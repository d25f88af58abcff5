"""Near enough to zero: the only ground on which coherence may be claimed (METRICS F3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from ..score import NAN, Score
from .intervals import t_interval

MARGINS: Mapping[str, float] = {
    "martingale": 0.02,
    "intercept": 0.01,
    "jsd": 0.01,
    "b_score": 0.05,
    "rmse": 0.03,
    "cmi": 0.005,
    "lie": 0.02,
}
"""Smallest effects of interest, in each metric's units (JSD bits, CMI nats). Fix yours before reading."""


@dataclass(frozen=True, kw_only=True)
class Equivalence(Score):
    """Two one-sided tests."""

    headline: ClassVar[str] = "p"
    p_lower: float = NAN
    """Of the null that the effect is at or below `lo`."""
    p_upper: float = NAN
    equivalent: bool = False
    """Both nulls fall at alpha; the same as: the 1 - 2 alpha interval lies within the bounds."""


def tost(est: float, se: float, df: float, lo: float, hi: float, *, alpha: float = 0.05) -> Equivalence:
    """Test that an effect lies strictly between `lo` and `hi` (METRICS F3).

    `p` is the larger of the two one-sided p-values, with t on `df` (inf: normal); the interval is the
    1 - 2 alpha one that decides. A standard error that is zero or undefined claims nothing.
    """
    if not lo < hi:
        raise ValueError(f"lo, hi: {lo!r}, {hi!r} hold nothing between them; give lo < hi")
    if se < 0:
        raise ValueError(f"se: {se!r} is negative")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha: {alpha!r}; give a level between 0 and 0.5")
    params = {"lo": lo, "hi": hi, "df": df, "alpha": alpha}
    if not (np.isfinite(est) and np.isfinite(se)):
        return Equivalence(status="undefined", params=params)
    if se == 0:
        return Equivalence(se=se, status="zero_se", params=params)
    if not df > 0:
        return Equivalence(se=se, status="no_df", params=params)
    p_lower = float(scipy.stats.t.sf((est - lo) / se, df))
    p_upper = float(scipy.stats.t.sf((hi - est) / se, df))
    lo_ci, hi_ci = t_interval(est, se, df, 1 - 2 * alpha)
    p = max(p_lower, p_upper)
    return Equivalence(
        p=p,
        p_lower=p_lower,
        p_upper=p_upper,
        equivalent=p < alpha,
        se=se,
        ci_lo=lo_ci,
        ci_hi=hi_ci,
        ci_method=f"t({df:g}), level {1 - 2 * alpha:g}",
        p_method="two one-sided t tests",
        params=params,
    )
