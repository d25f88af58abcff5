"""Conditional mutual information of mixed variables by nearest neighbours (METRICS E1)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import psi

from ..inference.rows import complete_rows
from ..score import NAN, Score
from ..validation import TIE, Floats, probabilities


@dataclass(frozen=True, kw_only=True)
class KnnCmi(Score):
    """METRICS E1."""

    headline: ClassVar[str] = "cmi"
    cmi: float
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
        return KnnCmi(cmi=NAN, status="too_few", params={"k": k}, **counts)
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


def knn_cmi_plain(action: ArrayLike, theta: ArrayLike, p: ArrayLike, k: int = 3) -> float:
    """The definition, row by row in O(n^2) time: the reference that `knn_cmi` must agree with."""
    a, t, p, _ = _prepare(action, theta, p, k)
    n = len(p)
    if n <= k:
        return NAN
    terms = []
    for i in range(n):
        to_p = np.abs(p - p[i])
        to_ap, to_tp = np.maximum(to_p, a != a[i]), np.maximum(to_p, t != t[i])
        distance = np.maximum(to_ap, to_tp)
        radius = np.partition(np.delete(distance, i), k - 1)[k - 1] + TIE
        k_own, n_a, n_t, n_p = ((d <= radius).sum() - 1 for d in (distance, to_ap, to_tp, to_p))
        terms.append(psi(k_own) - psi(n_a) - psi(n_t) + psi(n_p))
    return float(np.mean(terms))


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
