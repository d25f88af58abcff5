"""Do two ways of reading order the same things alike, once the noise of each is allowed for? (METRICS F9)"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..score import NAN, Score
from ..validation import TIE, Floats, floats
from .intervals import moment_interval
from .means import FEW_CLUSTERS
from .regression import EXACT_SS
from .rows import Rows, complete_rows


@dataclass(frozen=True, kw_only=True)
class MethodReliability(Score):
    """Share of the spread of a mean of readings that another set of such readings would show as well."""

    headline: ClassVar[str] = "reliability"
    reliability: float = NAN
    n_readings: int = 0


@dataclass(frozen=True, kw_only=True)
class MethodCorrelation(Score):
    """Correlation of two kinds of belief, and what it would be without the noise of reading in either."""

    headline: ClassVar[str] = "disattenuated"
    disattenuated: float = NAN
    """correlation / sqrt(reliability_first reliability_second); it may exceed 1, and is not cut."""
    correlation: float = NAN
    """Of the means of the readings."""
    correlation_lo: float = NAN
    correlation_hi: float = NAN
    reliability_first: float = NAN
    reliability_second: float = NAN


def method_reliability(
    readings: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> MethodReliability:
    """Reliability of the mean of the readings [n, r] of n things (METRICS F9).

    What one reading adds to all things alike, as a wording may, is no noise: it moves no correlation. Statuses:
    `one_reading`, `too_few`, `zero_variance`, and `weak_reliability` where the interval reaches zero: then the
    readings do not read one thing.
    """
    x = _columns(readings, "readings")
    rows = complete_rows(clusters, x=np.where(np.isfinite(x), x, np.nan))
    (x,) = rows.columns
    common: dict[str, Any] = {**rows.counts, "n_readings": x.shape[1], "params": {"level": level}}
    if x.shape[1] < 2:
        return MethodReliability(status="one_reading", **common)
    if rows.n < 3:
        return MethodReliability(status="too_few", **common)
    moments = _moments(x)
    found = float(_alpha(moments.sum(axis=0)[None], x.shape[1])[0])
    if not np.isfinite(found):
        return MethodReliability(status="zero_variance", **common)
    made = moment_interval(
        moments,
        rows.codes,
        lambda sums: _alpha(sums, x.shape[1]),
        seed=seed,
        draws=draws,
        level=level,
        kind="percentile",
        weights=np.ones(rows.n),
    )
    status = made.concern if made.lo > 0 else "weak_reliability" if rows.n_clusters > 1 else "one_cluster"
    return MethodReliability(reliability=found, status=status, **(common | made.fields()))


def method_correlation(
    first: ArrayLike,
    second: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> MethodCorrelation:
    """Correlation of two kinds of belief about the same things, as read and disattenuated (METRICS F9).

    Args:
        first: [n], or [n, r] readings whose mean is the belief.
        second: [n] or [n, s] of the other kind; noise of reading must be independent of the first's.
        clusters: [n] what was sampled. None: every row its own.
        level: of the intervals.
        draws: of the cluster bootstrap.
        seed: of the cluster bootstrap.

    Correlation and reliabilities are resampled together, so that the interval knows how uncertain the latter are. A
    kind that was read once has no reliability: the correlation alone is given then, and the status is
    `no_reliability`; `weak_reliability` where the interval of the weaker one reaches zero: then all may be noise.
    `few_clusters`: below thirty the interval of the disattenuated one misses in 7%.
    The interval of the correlation is made on Fisher's scale, and all are no shorter than CR3 with t.
    """
    x, y = _columns(first, "first"), _columns(second, "second")
    if len(x) != len(y):
        raise ValueError(f"first {len(x)} rows, second {len(y)}; give the same things in both")
    both = np.hstack([x, y])
    rows: Rows = complete_rows(clusters, both=np.where(np.isfinite(both), both, np.nan))
    (both,) = rows.columns
    r, s = x.shape[1], y.shape[1]
    common: dict[str, Any] = {**rows.counts, "params": {"level": level}}
    if rows.n < 3:
        return MethodCorrelation(status="too_few", **common)
    x, y = both[:, :r], both[:, r:]
    mine, theirs, means = _moments(x), _moments(y), (x.mean(axis=1), y.mean(axis=1))
    u, v = (mean - mean.mean() for mean in means)
    moments = np.column_stack([np.ones(rows.n), u, v, u * u, v * v, u * v, mine, theirs])
    width = 6 + mine.shape[1]
    settings: dict[str, Any] = {
        "seed": seed, "draws": draws, "level": level, "kind": "percentile", "weights": np.ones(rows.n)
    }  # fmt: skip
    if min(float(u @ u), float(v @ v)) <= EXACT_SS:
        return MethodCorrelation(status="zero_variance", **common)

    def correlation(sums: Floats) -> Floats:
        n, a, b, aa, bb, ab = sums[:, :6].T
        return (ab - a * b / n) / np.sqrt((aa - a * a / n) * (bb - b * b / n))

    def of_fisher(sums: Floats) -> Floats:
        return np.arctanh(np.clip(correlation(sums), -1 + TIE, 1 - TIE))

    def weaker(sums: Floats) -> Floats:
        return np.minimum(_alpha(sums[:, 6:width], r), _alpha(sums[:, width:], s))

    def disattenuated(sums: Floats) -> Floats:
        shares = _alpha(sums[:, 6:width], r) * _alpha(sums[:, width:], s)
        return correlation(sums) / np.sqrt(np.where(shares > 0, shares, np.nan))

    total = moments.sum(axis=0)[None]
    plain = moment_interval(moments, rows.codes, of_fisher, **settings)
    found: dict[str, Any] = {
        "correlation": float(correlation(total)[0]),
        "correlation_lo": float(np.tanh(plain.lo)),
        "correlation_hi": float(np.tanh(plain.hi)),
        "reliability_first": float(_alpha(total[:, 6:width], r)[0]) if r > 1 else NAN,
        "reliability_second": float(_alpha(total[:, width:], s)[0]) if s > 1 else NAN,
    }
    if r < 2 or s < 2:
        return MethodCorrelation(status="no_reliability", **found, **common)
    if not moment_interval(moments, rows.codes, weaker, **settings).lo > 0 and rows.n_clusters > 1:
        return MethodCorrelation(status="weak_reliability", **found, **common)
    made = moment_interval(moments, rows.codes, disattenuated, **settings)
    few = "few_clusters" if rows.n_clusters < FEW_CLUSTERS else made.concern
    status = few if np.isfinite(made.se) else "one_cluster"
    return MethodCorrelation(
        disattenuated=float(disattenuated(total)[0]), status=status, **found, **(common | made.fields())
    )


def _columns(readings: ArrayLike, name: str) -> Floats:
    x = floats(readings)
    if x.ndim == 1:
        x = x[:, None]
    if x.ndim != 2 or not x.shape[1]:
        raise ValueError(f"{name}: shape {x.shape}; give [n], or [n, readings]")
    return x


def _moments(x: Floats) -> Floats:
    """[n, 2 + 2 r] what alpha is a function of."""
    centred = x - x.mean(axis=0)  # sums of squares of large numbers would lose digits
    return np.column_stack([np.ones(len(x)), centred, centred**2, centred.sum(axis=1) ** 2])


def _alpha(sums: Floats, r: int) -> Floats:
    """[draws] r / (r - 1) (1 - sum of the variances / variance of the sum)."""
    if r < 2:
        return np.full(len(sums), np.nan)
    n, of_each, squares, of_sum = sums[:, :1], sums[:, 1 : 1 + r], sums[:, 1 + r : 1 + 2 * r], sums[:, -1]
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample may hold one value
        own = (squares - of_each**2 / n).sum(axis=1)
        whole = of_sum - of_each.sum(axis=1) ** 2 / n[:, 0]
        return np.where(whole > EXACT_SS, r / (r - 1) * (1 - own / whole), np.nan)
