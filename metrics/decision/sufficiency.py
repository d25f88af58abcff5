"""How much of an exact policy does a belief explain, and what is known beyond it: by another belief (METRICS E4,
E11), or by the action, by nearest neighbours (METRICS E1)?
"""

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import psi

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score, probabilities
from ..inference.clusters import complete_beliefs, complete_rows
from ..inference.intervals import moment_interval
from ..inference.randomisation import tail_p
from .prediction import isotonic_calibration
from .strata import quantile_bins

FOLDS = 5
FEWEST = 10
"""Contexts below which nothing is said of what is left."""
NOTHING_LEFT = 0.01
"""Share of a variance below which what a belief leaves of it is the error of the fit, and no evidence of anything."""
PER_STRATUM = 15
"""Contexts among which a residual is permuted (METRICS E2)."""


class MonotoneSufficiency(Score, headline="explained"):
    """METRICS E4. The interval is over contexts, conditional on the fits."""

    explained: float = NAN
    """1 - sum (policy - fit)^2 / sum (policy - mean)^2 on contexts that were not fitted: at most 1, below 0 where the
    belief is worse than none."""


def sufficiency_moments(belief: ArrayLike, policy: ArrayLike, groups: ArrayLike | None = None, seed: int = 0) -> Floats:
    """Moments [n, 4] of `monotone_sufficiency`, NaN in rows that are incomplete: 1, policy, its square, squared error
    of the rising curve that was fitted on other contexts.

    >>> sufficiency_moments([0.1, 0.5, 0.9], [0.2, 0.5, 0.8]).shape
    (3, 4)
    """
    belief, policy = probabilities(belief, "belief"), probabilities(policy, "policy")
    owners = np.arange(len(policy)) if groups is None else np.asarray(groups)
    fit = isotonic_calibration(belief, policy, owners, folds=FOLDS, seed=seed)
    whole = np.where(np.isfinite(fit), policy, np.nan)
    return np.column_stack([np.ones(len(whole)), whole, whole**2, (whole - fit) ** 2])


def explained_share(sums: Floats) -> Floats:
    """Sums [m, 4] of such moments -> explained share [m].

    >>> explained_share(np.array([[2.0, 1.0, 1.0, 0.0]])).tolist()  # no error is left
    [1.0]
    """
    total = sums[:, 2] - sums[:, 1] ** 2 / sums[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > TIE, 1 - sums[:, 3] / total, np.nan)


def monotone_sufficiency(
    belief: ArrayLike, policy: ArrayLike, groups: ArrayLike | None = None, *, how: Resampling = RESAMPLING
) -> MonotoneSufficiency:
    """Share of an exact policy of two actions that a rising function of the belief predicts (METRICS E4).

    Whoever acts on a belief, and on nothing else that varies, chooses between two actions by a rising function of it
    (rational-agents, Proposition 2): then the share is 1, whatever the utilities. What utilities differ by between
    contexts lowers it (by 1 nat: to .5 or .8 of one whose log-odds have an SD of 1 or 2), so that a low share is no
    incoherence. The curve is isotonic and is fitted on other contexts: a belief that explains nothing scores about 0
    or less.

    Args:
        belief: [n] in [0, 1].
        policy: [n] exact probability of the action that a high belief favours.
        groups: [n] context. None: every row its own.

    A constant policy is `constant`: nothing is there to explain.

    >>> belief = np.linspace(0.05, 0.95, 60)
    >>> monotone_sufficiency(belief, belief**2).explained > 0.99
    True
    >>> monotone_sufficiency(belief, 1 - belief).explained < 0.01
    True
    """
    moments = sufficiency_moments(belief, policy, groups, how.seed)
    owners = np.arange(len(moments)) if groups is None else np.asarray(groups)
    rows = complete_rows(owners, moments=moments)
    if rows.n < 2:
        return MonotoneSufficiency(status="too_few", **rows.counts)
    value = float(explained_share(rows.columns[0].sum(axis=0)[None])[0])
    if np.isnan(value):
        return MonotoneSufficiency(status="constant", **rows.counts)
    interval = moment_interval(rows.columns[0], rows.codes, explained_share, how=how).within(-np.inf, 1.0, value)
    return MonotoneSufficiency(explained=value, **rows.counts, **interval.fields())


class LatentKnowledge(Score, headline="partial"):
    """METRICS E11. The interval is over contexts, conditional on the fits."""

    partial: float = NAN
    """Correlation, in [-1, 1], of what the stated belief leaves of the other belief and of the target."""
    left_of_target: float = NAN
    """Share of the target's variance that the stated belief leaves."""


def latent_knowledge(
    stated: ArrayLike,
    other: ArrayLike,
    target: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    how: Resampling = RESAMPLING,
) -> LatentKnowledge:
    """Does another belief predict the target beyond the stated one? (METRICS E11)

    Both are predicted from the stated belief by a cubic of its ranks, fitted without each in turn: a map of the stated
    belief, rising or not, is no knowledge beyond it. p is two-sided, of the studentised covariance of the residuals
    with those of the other belief permuted among contexts of like stated belief.

    Args:
        stated: [n] in [0, 1].
        other: [n] in [0, 1].
        target: [n] in [0, 1]: the exact probability of an action, the true chance, or what came true.
        groups: [n] context; one row each. None: every row its own.

    Where the stated belief leaves less than a hundredth of the variance of either, nothing is left to be known
    (`nothing_left`).

    >>> rng = np.random.default_rng(0)
    >>> truth, stated = rng.random(200), rng.random(200)
    >>> found = latent_knowledge(stated, other=truth, target=truth)
    >>> found.partial > 0.9, found.p < 0.01
    (True, True)
    """
    rows = complete_beliefs(groups, stated=stated, other=other, target=target)
    by_word, hidden, aim = rows.columns
    if rows.n_clusters < FEWEST:
        return LatentKnowledge(status="too_few", **rows.counts)
    of_hidden, of_target = (_left(by_word, values) for values in (hidden, aim))
    share = _share_left(of_target, aim)
    if min(share, _share_left(of_hidden, hidden)) < NOTHING_LEFT:
        return LatentKnowledge(left_of_target=share, status="nothing_left", **rows.counts)
    strata = quantile_bins(by_word, max(1, rows.n // PER_STRATUM))
    rng = np.random.default_rng(how.seed)
    observed = abs(float(_studentised(of_hidden[None], of_target)[0]))
    order = np.argsort(strata + rng.random((how.n_draws, rows.n)), axis=1)
    sorted_rows = np.argsort(strata, kind="stable")
    shuffled = np.empty((how.n_draws, rows.n))
    shuffled[:, sorted_rows] = of_hidden[order]
    moments = np.column_stack([of_hidden * of_target, of_hidden**2, of_target**2])
    partial = float(_correlation(moments.sum(axis=0)[None])[0])
    interval = moment_interval(moments, rows.codes, _correlation, how=how).within(-1.0, 1.0, partial)
    return LatentKnowledge(
        partial=partial,
        left_of_target=share,
        p=tail_p(observed, np.abs(_studentised(shuffled, of_target)), exact=False, slack=TIE),
        p_method=f"permutation among like stated beliefs, {how.n_draws} draws",
        **rows.counts,
        **interval.fields(),
    )


def _left(stated: Floats, values: Floats) -> Floats:
    """[n] what a cubic of the ranks of the stated belief, fitted without each in turn, leaves of the values."""
    ranks = (scipy.stats.rankdata(stated) - 0.5) / len(stated)
    powers = np.vander(2 * ranks - 1, 4)
    hat = powers @ np.linalg.pinv(powers)
    return (values - hat @ values) / np.maximum(1 - np.diag(hat), TIE)


def _share_left(left: Floats, values: Floats) -> float:
    total = float(((values - values.mean()) ** 2).sum())
    return float((left**2).sum()) / total if total > TIE else 0.0


def _studentised(of_hidden: Floats, of_target: Floats) -> Floats:
    """[m] sum of the products of residuals [m, n] over the root of their sum of squares."""
    products = of_hidden * of_target
    return products.sum(axis=1) / np.sqrt((products**2).sum(axis=1))


def _correlation(sums: Floats) -> Floats:
    return sums[:, 0] / np.sqrt(sums[:, 1] * sums[:, 2])


# Conditional mutual information of mixed variables by nearest neighbours (METRICS E1).


class KnnCmi(Score, headline="cmi"):
    """METRICS E1."""

    cmi: float = NAN
    """Nats; may be negative, since it is not cut at 0."""


def knn_cmi(action: ArrayLike, theta: ArrayLike, p: ArrayLike, k: int = 3) -> KnnCmi:
    """Mesner-Shalizi estimate of I(action; theta | p) (METRICS E1; rational-agents section 4).

    Args:
        action: [n] labels, at distance 1 from each other.
        theta: [n] labels.
        p: [n] beliefs, on the probability scale: no two are further apart than two labels.
        k: number of neighbours.

    One row per context: repetitions of a context are each other's neighbours and look like information. There
    is no interval, because a bootstrap makes such duplicates; test with `stratified_permutation`.
    n <= k gives NaN. Memory is O(n), time O(n (k + log n)).

    >>> rng = np.random.default_rng(0)
    >>> belief, theta, coin = rng.random(400), rng.integers(2, size=400), rng.integers(2, size=400)
    >>> round(knn_cmi(theta, theta, belief).cmi, 1), round(float(np.log(2)), 1)  # the action is theta itself
    (0.7, 0.7)
    >>> round(abs(knn_cmi(coin, theta, belief).cmi), 1)  # the action is chance
    0.0
    """
    a, t, p, counts = _prepare(action, theta, p, k)
    n = len(p)
    if n <= k:
        return KnnCmi(status="too_few", params={"k": k}, **counts)
    cell = pd.factorize(a * (t.max() + 1) + t)[0]
    # A row of another cell is at distance 1 exactly, and none is further: a radius of 1 covers everything.
    radius = np.ones(n)
    for rows in _members(cell):
        if len(rows) > k:
            order = rows[np.argsort(p[rows], kind="stable")]
            radius[order] = _kth_distance(p[order], k)
    inside = [_count_within(p, radius, labels) for labels in (cell, a, t, np.zeros(n, dtype=np.intp))]
    everything = radius >= 1 - TIE
    k_own, n_a, n_t, n_p = (np.where(everything, n - 1, count) for count in inside)
    return KnnCmi(cmi=float(np.mean(psi(k_own) - psi(n_a) - psi(n_t) + psi(n_p))), params={"k": k}, **counts)


def _prepare(
    action: ArrayLike, theta: ArrayLike, p: ArrayLike, k: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats, dict]:
    if k < 1:
        raise ValueError(f"k: {k} neighbours; give one or more")
    rows = complete_rows(action=action, theta=theta, p=probabilities(p, "p"))
    a, t, p = rows.columns
    return pd.factorize(a)[0], pd.factorize(t)[0], p, rows.counts


def _members(codes: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _kth_distance(x: Floats, k: int) -> Floats:
    """Distance to the k-th neighbour in a sorted line: the tightest window of k + 1 values around each."""
    n = len(x)
    best = np.full(n, np.inf)
    for left in range(k + 1):  # neighbours taken from the left
        i = np.arange(left, n - (k - left))
        reach = np.maximum(x[i] - x[i - left], x[i + k - left] - x[i])
        best[i] = np.minimum(best[i], reach)
    return best


def _count_within(p: Floats, radius: Floats, labels: NDArray[np.intp]) -> NDArray[np.intp]:
    """How many rows of the same label lie within the radius of each, itself left out."""
    count = np.zeros(len(p), dtype=np.intp)
    for rows in _members(labels):
        line = np.sort(p[rows])
        reach = radius[rows] + TIE
        high = np.searchsorted(line, p[rows] + reach, side="right")
        count[rows] = high - np.searchsorted(line, p[rows] - reach, side="left") - 1
    return count
