"""How much of a read-out is the belief, and how much is the reading? (METRICS F5)"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..score import NAN, Score
from ..validation import Floats, check_level, floats
from .intervals import moment_interval
from .regression import EXACT_SS
from .rows import complete_rows


@dataclass(frozen=True, kw_only=True)
class Reliability(Score):
    """One-way intraclass correlations. Not cut at zero: a negative one says that readings repel."""

    headline: ClassVar[str] = "icc1"
    icc1: float = NAN
    """Reliability of one reading."""
    icc_mean: float = NAN
    """Reliability of the mean of an item's readings (Spearman-Brown)."""
    n_readings: int = 0


def reliability_icc(
    readings: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> Reliability:
    """ICC(1) of replicate readings [items, r] (METRICS F5).

    An item with a missing reading is dropped and counted. Without groups the interval is the exact one for
    normal readings (F); with `groups` [items], whose items are not independent, it is over clusters.
    """
    readings = floats(readings)
    if readings.ndim != 2:
        raise ValueError(f"readings: shape {readings.shape}; give [items, readings of each]")
    r = readings.shape[1]
    check_level(level)
    rows = complete_rows(groups, readings=np.where(np.isfinite(readings), readings, np.nan))
    (x,) = rows.columns
    common: dict[str, Any] = {**rows.counts, "n_readings": r, "params": {"level": level}}
    if rows.n < 2:
        return Reliability(status="too_few", **common)
    if r < 2:
        return Reliability(status="one_reading", **common)
    means = x.mean(axis=1)
    within = ((x - means[:, None]) ** 2).sum(axis=1)
    centred = means - means.mean()  # sums of squares of large numbers would lose digits
    moments = np.column_stack([np.ones(rows.n), centred, centred**2, within])
    icc1, icc_mean = (float(v[0]) for v in _icc(moments.sum(axis=0)[None], r))
    if rows.n * means.var() + within.sum() <= EXACT_SS:
        return Reliability(status="zero_variance", **common)
    found: dict[str, Any] = {"icc1": icc1, "icc_mean": icc_mean, **common}
    if groups is not None:
        made = moment_interval(moments, rows.codes, lambda s: _icc(s, r)[0], seed=seed, draws=draws, level=level)
        return Reliability(**(found | made.fields()))
    between, error = _mean_squares(moments.sum(axis=0)[None], r)
    ratio = float(between[0] / error[0]) if within.sum() > EXACT_SS else np.inf
    df = (rows.n - 1, rows.n * (r - 1))
    ends = [ratio / float(scipy.stats.f.ppf(q, *df)) for q in ((1 + level) / 2, (1 - level) / 2)]
    lo, hi = (1.0 if np.isinf(f) else (f - 1) / (f + r - 1) for f in ends)
    return Reliability(**found, ci_lo=lo, ci_hi=hi, ci_method=f"F({df[0]}, {df[1]})")


def _mean_squares(sums: Floats, r: int) -> tuple[Floats, Floats]:
    """Mean squares between and within items, from sums [draws, 4]."""
    n, total, squares, within = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample of one item has none
        return r * (squares - total**2 / n) / (n - 1), within / (n * (r - 1))


def _icc(sums: Floats, r: int) -> tuple[Floats, Floats]:
    between, error = _mean_squares(sums, r)
    with np.errstate(divide="ignore", invalid="ignore"):
        one = (between - error) / (between + (r - 1) * error)
        return one, np.where(between > 0, (between - error) / between, np.nan)
