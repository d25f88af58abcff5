"""Predictive gain, and monotone recalibration of a belief (METRICS E5, E6)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..contract import NAN, RESAMPLING, Floats, Resampling, Score, distributions, probabilities
from ..inference.clusters import complete_beliefs, complete_rows
from ..inference.intervals import moment_interval

LOG_EPS = 1e-15


class LoglossImprovement(Score, headline="nats"):
    """METRICS E5."""

    nats: float = NAN
    """ll1 - ll2, the unit in which conditional mutual information is measured too."""
    pct: float = NAN
    """100 (ll1 - ll2) / ll1."""
    pct_ci: tuple[float, float] = (NAN, NAN)
    """Of `pct`, over contexts."""
    ll1: float = NAN
    ll2: float = NAN
    ll_marginal: float = NAN
    """Loss of the class frequencies of `y` (in sample). An ll1 above it makes `pct` meaningless."""


def logloss_improvement(
    p1: ArrayLike,
    p2: ArrayLike,
    y: ArrayLike,
    eps: float = LOG_EPS,
    groups: ArrayLike | None = None,
    *,
    how: Resampling = RESAMPLING,
) -> LoglossImprovement:
    """Gain in log-loss of predictions p2 over p1 (METRICS E5).

    Args:
        p1: [n] P(y = 1) or [n, k], out of fold, with contexts kept whole in a fold.
        p2: the same of the larger model.
        y: [n] class numbers.
        eps: predictions are clipped to [eps, 1 - eps].
        groups: [n] context, the unit of the interval of `nats`, which is conditional on the fits.

    >>> found = logloss_improvement(p1=[0.5, 0.5, 0.5, 0.5], p2=[0.9, 0.1, 0.9, 0.1], y=[1, 0, 1, 0])
    >>> round(found.nats, 3), round(float(np.log(0.9 / 0.5)), 3)
    (0.588, 0.588)
    """
    if not 0 < eps < 0.5:
        raise ValueError(f"eps: {eps!r}; give a value in (0, 0.5)")
    first, second = (_by_class(x, name) for x, name in ((p1, "p1"), (p2, "p2")))
    if first.shape != second.shape:
        raise ValueError(f"shapes differ: p1 {first.shape}, p2 {second.shape}")
    rows = complete_rows(groups, p1=first, p2=second, y=y)
    first, second, y = rows.columns
    n, k = first.shape
    if not n:
        return LoglossImprovement(status="too_few", **rows.counts)
    codes = y.astype(np.intp)
    if (codes != y).any() or (codes < 0).any() or (codes >= k).any():
        raise ValueError(f"y: holds a value that is not a class number 0 .. {k - 1}")
    loss1, loss2 = (-np.log(np.clip(x[np.arange(n), codes], eps, 1 - eps)) for x in (first, second))
    ll1, ll2 = float(loss1.mean()), float(loss2.mean())
    both = np.column_stack([loss1, loss2])
    share_of = moment_interval(both, rows.codes, lambda s: 100 * (1 - s[:, 1] / s[:, 0]), how=how)
    share = np.bincount(codes, minlength=k) / n
    ll_marginal = float(-np.log(share[codes]).mean())
    perfect = ll1 <= 2 * eps  # nothing to improve: the ratio is 0 / 0
    gain = np.column_stack([loss1 - loss2, np.ones(n)])
    return LoglossImprovement(
        nats=ll1 - ll2,
        pct=NAN if perfect else 100 * (ll1 - ll2) / ll1,
        pct_ci=(NAN, NAN) if perfect else (share_of.lo, share_of.hi),
        ll1=ll1,
        ll2=ll2,
        ll_marginal=ll_marginal,
        status="perfect_base" if perfect else ("ok" if ll1 <= ll_marginal else "base_worse_than_marginal"),
        **rows.counts,
        **moment_interval(gain, rows.codes, lambda s: s[:, 0] / s[:, 1], how=how).fields(),
    )


def isotonic_calibration(
    p: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, *, folds: int = 5, seed: int = 0
) -> Floats:
    """Beliefs [n] mapped monotonically to the frequency of y (METRICS E6; rational-agents App. G).

    Args:
        p: [n] beliefs; tied ones are pooled first.
        y: [n] 0/1, or a value in [0, 1].
        groups: [n] context. Given, each row is mapped by a fit on other contexts; None fits in sample.
        folds: of the cross-fit.

    NaN rows stay NaN. A sensitivity check only: a map that is not strictly monotone loses information, and
    independence given p does not imply it given the map.

    >>> isotonic_calibration([0.2, 0.4, 0.6], [0, 1, 0]).tolist()
    [0.0, 0.5, 0.5]
    """
    rows = complete_beliefs(groups, p=p, y=y)
    p, y = rows.columns
    where = np.flatnonzero(rows.kept)
    fit = np.full(len(rows.kept), NAN)
    if not rows.n:
        return fit
    if groups is None:
        fit[where] = isotonic_fit(p, y, p)
        return fit
    if rows.n_clusters < 2:
        return fit
    from sklearn.model_selection import GroupKFold  # slow to import

    split = GroupKFold(min(folds, rows.n_clusters), shuffle=True, random_state=seed)
    for train, test in split.split(p, y, rows.codes):
        fit[where[test]] = isotonic_fit(p[train], y[train], p[test])
    return fit


def isotonic_fit(p: Floats, y: Floats, at: Floats) -> Floats:
    """Least-squares rising curve of y [n] on p [n], read at `at`; flat beyond the ends."""
    from sklearn.isotonic import IsotonicRegression  # slow to import

    return np.asarray(IsotonicRegression(out_of_bounds="clip").fit(p, y).predict(at))


def _by_class(p: Any, name: str) -> Floats:
    """Predictions [n, k]; a vector is P(y = 1)."""
    array = np.asarray(p, dtype=np.float64)
    if array.ndim == 2:
        return distributions(array, name)
    if array.ndim != 1:
        raise ValueError(f"{name}: shape {array.shape}; give [n] or [n, k]")
    array = probabilities(array, name)
    return np.column_stack([1 - array, array])
