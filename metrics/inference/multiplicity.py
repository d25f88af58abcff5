"""Many tests, one family (METRICS F2)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..score import Score, row_counts
from ..validation import Floats, floats, one_of, probabilities

METHODS = ("holm", "bh")


@dataclass(frozen=True, kw_only=True)
class Adjusted(Score):
    """The p-values of one family, adjusted."""

    headline: ClassVar[str] = "p_adjusted"
    p_adjusted: Floats
    reject: NDArray[np.bool_]
    family_size: int
    """Tests that have a p-value; to be printed with every adjusted p."""


def adjust(p_values: ArrayLike, *, method: str = "holm", alpha: float = 0.05) -> Adjusted:
    """Adjust the p-values [m] of one family: `holm` to confirm, `bh` to explore (METRICS F2).

    A NaN p is a test that could not be made: it stays NaN, rejects nothing, and is not of the family.
    """
    one_of(method, METHODS, "method")
    p_values = probabilities(floats(p_values), "p_values")
    if p_values.ndim != 1:
        raise ValueError(f"p_values: shape {p_values.shape}; give [m], one family")
    defined = np.isfinite(p_values)
    adjusted = np.full(p_values.shape, np.nan)
    if defined.any():
        of_family = p_values[defined]
        adjusted[defined] = _holm(of_family) if method == "holm" else scipy.stats.false_discovery_control(of_family)
    n_undefined = int((~defined).sum())
    return Adjusted(
        p_adjusted=adjusted,
        reject=adjusted <= alpha,
        family_size=int(defined.sum()),
        **row_counts(int(defined.sum()), n_undefined),
        status="ok" if defined.any() else "too_few",
        params={"method": method, "alpha": alpha},
    )


def _holm(p: Floats) -> Floats:
    # By hand: statsmodels' multipletests collects garbage on every call, which is slow beside a model.
    order = np.argsort(p)
    steps = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted
