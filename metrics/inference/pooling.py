"""One effect from several cells that need not share one (METRICS F6)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..score import NAN, Score
from ..validation import floats, refuse
from .rows import complete_numbers
from .tails import t_interval


@dataclass(frozen=True, kw_only=True)
class Pooled(Score):
    """A random-effects mean."""

    headline: ClassVar[str] = "pooled"
    pooled: float = NAN
    tau2: float = NAN
    """Variance of the true effects between cells."""
    Q: float = NAN
    p_heterogeneity: float = NAN
    i2: float = NAN
    """Share of the observed variation that is between cells, in [0, 1]."""
    pi_lo: float = NAN
    pi_hi: float = NAN
    """Where the effect of a new cell would lie; needs three cells."""
    se_hksj: float = NAN
    """Hartung-Knapp standard error, never below `se`: the one in the interval."""


def random_effects_pool(est: ArrayLike, se: ArrayLike, *, level: float = 0.95) -> Pooled:
    """Pool cell estimates [k] with standard errors [k] (METRICS F6; DerSimonian and Laird).

    `tau2` is cut at zero. `se` is the usual one; interval and p use the Hartung-Knapp standard error and
    t(k - 1), because the usual one takes `tau2` for known. Prediction interval by t(k - 2). A cell whose
    estimate or standard error is undefined, or whose standard error is zero, is dropped and counted. Cells
    must not share items: pool shared items by clusters instead.
    """
    est, se = floats(est), floats(se)
    refuse(se, se < 0, "se:", " is negative")
    rows = complete_numbers(est=est, se=np.where(se > 0, se, np.nan))
    y, s = rows.columns
    k = rows.n
    if k < 2:
        return Pooled(status="too_few", **rows.counts)
    # statsmodels' combine_effects lets a negative tau2 into the weights; hence by hand.
    fixed = 1 / s**2
    q = float(fixed @ (y - np.average(y, weights=fixed)) ** 2)
    tau2 = max(0.0, (q - (k - 1)) / float(fixed.sum() - (fixed**2).sum() / fixed.sum()))
    w = 1 / (s**2 + tau2)
    pooled = float(np.average(y, weights=w))
    error = float(1 / np.sqrt(w.sum()))
    scale = float(w @ (y - pooled) ** 2) / (k - 1)
    error_hksj = error * float(np.sqrt(max(1.0, scale)))
    lo, hi = t_interval(pooled, error_hksj, k - 1, level)
    pi_lo, pi_hi = t_interval(pooled, float(np.sqrt(tau2 + error_hksj**2)), k - 2, level) if k > 2 else (NAN, NAN)
    return Pooled(
        pooled=pooled,
        tau2=tau2,
        Q=q,
        p_heterogeneity=float(scipy.stats.chi2.sf(q, k - 1)),
        i2=max(0.0, 1 - (k - 1) / q) if q > 0 else 0.0,
        pi_lo=pi_lo,
        pi_hi=pi_hi,
        se=error,
        se_hksj=error_hksj,
        ci_lo=lo,
        ci_hi=hi,
        ci_method=f"Hartung-Knapp, t({k - 1})",
        p=float(2 * scipy.stats.t.sf(abs(pooled) / error_hksj, k - 1)),
        p_method=f"Hartung-Knapp, t({k - 1})",
        params={"level": level},
        **rows.counts,
    )
