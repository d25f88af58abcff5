"""Law of iterated expectation: is a belief the mean of the beliefs given each case? (METRICS E9)"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..inference.intervals import BOOTSTRAP, MIN_BOOTSTRAP_CLUSTERS
from ..inference.resampling import bootstrap_rows
from ..inference.rows import complete_rows
from ..logodds import clipped_logit
from ..score import NAN, Score, row_counts
from ..validation import TIE, check_level, floats, probabilities


@dataclass(frozen=True, kw_only=True)
class Lie(Score):
    """METRICS E9. Floats for one belief, arrays [n] for a batch."""

    headline: ClassVar[str] = "signed"
    implied: Any
    """Sum of weight x conditional belief, by `renormalise`."""
    implied_raw: Any
    """With the weights as stated."""
    weight_sum: Any
    signed: Any
    """p - implied."""
    delta: Any
    """Its size."""
    ratio: Any
    """delta / p: not symmetric in the label. p = 0 gives 0 if delta is 0, else Inf."""
    logit_difference: Any
    """logit(p) - logit(implied), both 1e-6 off 0 and 1; symmetric."""
    outside_hull: Any
    """Distance of p from the range of the conditional beliefs with weight: wrong whatever the weights are."""


def lie(p: ArrayLike, cond: ArrayLike, weights: ArrayLike, renormalise: bool = True) -> Lie:
    """Compare a belief with the weighted mean of its conditionals (METRICS E9).

    Args:
        p: float or [n], the unconditional belief.
        cond: [m] or [n, m], the belief given each case.
        weights: [m] or [n, m], the stated chance of each case, not negative.
        renormalise: divide the weights by their sum.

    A NaN, or weights that sum to 0, give NaN.

    >>> round(float(lie(p=0.5, cond=[0.9, 0.2], weights=[0.5, 0.5]).signed), 3)  # 0.5 - 0.55
    -0.05
    """
    p, cond, weights = (
        probabilities(p, "p"),
        probabilities(cond, "cond"),
        np.asarray(weights, dtype=np.float64),
    )
    if cond.shape != weights.shape or cond.shape[:-1] != p.shape or not cond.ndim:
        raise ValueError(f"p {p.shape}, cond {cond.shape}, weights {weights.shape}; give [n], [n, m], [n, m]")
    if (weights < 0).any() or np.isinf(weights).any():
        raise ValueError("weights: holds a negative or infinite value")
    weight_sum = weights.sum(axis=-1)
    undefined = np.isnan(p) | np.isnan(cond).any(axis=-1) | ~(weight_sum > 0)
    raw = np.where(undefined, np.nan, (weights * cond).sum(axis=-1))
    implied = raw / np.where(undefined, np.nan, weight_sum) if renormalise else raw
    signed = p - implied
    delta = np.abs(signed)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(p > 0, delta / p, np.where(delta <= TIE, 0.0, np.inf))
    used = weights > 0
    low = np.where(used, cond, np.inf).min(axis=-1)
    high = np.where(used, cond, -np.inf).max(axis=-1)
    outside = np.maximum(np.maximum(low - p, p - high), 0.0)
    within = np.clip(implied, 0.0, 1.0)  # weights as stated may sum to more than one
    n_undefined = int(undefined.sum())
    return Lie(
        implied=implied[()],
        implied_raw=raw[()],
        weight_sum=weight_sum[()],
        signed=signed[()],
        delta=delta[()],
        ratio=np.where(undefined, np.nan, ratio)[()],
        logit_difference=(clipped_logit(p, "p")[0] - clipped_logit(within, "implied")[0])[()],
        outside_hull=np.where(undefined, np.nan, outside)[()],
        **row_counts(p.size - n_undefined, n_undefined),
        status="ok" if n_undefined < p.size else "undefined",
        params={"renormalise": renormalise},
    )


@dataclass(frozen=True, kw_only=True)
class MedianCi(Score):
    """METRICS E9."""

    headline: ClassVar[str] = "median"
    median: float
    lo: float
    hi: float
    coverage: float
    """Exact chance that (lo, hi) covers, whatever the law; NaN for the bootstrap, whose level is nominal."""


def median_ci(
    x: ArrayLike,
    conf: float = 0.95,
    groups: ArrayLike | None = None,
    *,
    seed: int = 0,
    draws: int = 2000,
) -> MedianCi:
    """Median, and the tightest symmetric order statistics that cover with `conf` or more (METRICS E9).

    Args:
        x: [n] real values, Inf allowed; NaN is dropped.
        conf: level.
        groups: [n] context. If it repeats, the interval is a cluster bootstrap instead.
        seed: of the bootstrap, like `draws`.
        draws: resamples.

    Too few values for the level (five at .95) have no interval.

    >>> found = median_ci([1, 2, 3, 4, 5, 6])
    >>> found.median, found.lo, found.hi, found.coverage  # all but 2 of 2**6
    (3.5, 1.0, 6.0, 0.96875)
    """
    check_level(conf, "conf")
    rows = complete_rows(groups, x=floats(x))
    (x,), n, n_clusters = rows.columns, rows.n, rows.n_clusters
    if not n:
        return MedianCi(median=NAN, lo=NAN, hi=NAN, coverage=NAN, status="too_few", **rows.counts)
    median = _median(x)
    if n_clusters < n:
        lo = hi = NAN
        method, params = f"none: {n_clusters} clusters", {"conf": conf}
        if n_clusters >= MIN_BOOTSTRAP_CLUSTERS:
            resampled = bootstrap_rows(lambda picked: _median(x[picked]), rows.codes, seed=seed, draws=draws)
            ends = [(1 - conf) / 2, (1 + conf) / 2]
            lo, hi = np.quantile(resampled, ends, method="inverted_cdf").tolist()  # Inf cannot be interpolated
            method, params = BOOTSTRAP, {"conf": conf, "draws": draws, "seed": seed}
        return MedianCi(
            median=median, lo=lo, hi=hi, coverage=NAN, ci_lo=lo, ci_hi=hi, ci_method=method,
            params=params, **rows.counts,
        )  # fmt: skip
    ranks = np.arange(1, n // 2 + 1)
    coverages = 1 - 2 * scipy.stats.binom.cdf(ranks - 1, n, 0.5)
    usable = ranks[coverages >= conf - TIE]
    if not len(usable):
        return MedianCi(
            median=median, lo=NAN, hi=NAN, coverage=NAN, ci_method="none: too few values",
            status="too_few", params={"conf": conf}, **rows.counts,
        )  # fmt: skip
    rank = int(usable[-1])
    ordered = np.sort(x)
    lo, hi = float(ordered[rank - 1]), float(ordered[n - rank])
    return MedianCi(
        median=median,
        lo=lo,
        hi=hi,
        coverage=float(coverages[rank - 1]),
        ci_lo=lo,
        ci_hi=hi,
        ci_method=f"order statistics {rank} and {n - rank + 1} of {n}",
        params={"conf": conf},
        **rows.counts,
    )


def _median(x: Any) -> float:
    """np.median, with Inf between two Infs instead of NaN."""
    ordered = np.sort(x)
    low, high = ordered[(len(x) - 1) // 2], ordered[len(x) // 2]
    return float(low if low == high else (low + high) / 2)
