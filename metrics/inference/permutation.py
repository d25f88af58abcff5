"""Tests by flipping the signs of whole clusters (METRICS A4, D7, F4)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..score import NAN, Score
from ..validation import TIE, Floats, floats
from .jackknife import ROUNDING
from .resampling import BLOCK, block_size, blocks_of
from .rows import cluster_sums, complete_numbers

ENUMERATE_UP_TO = 12
"""Clusters up to which all 2^G sign vectors are taken instead of a sample: 4096 of them."""


def sign_vectors(
    n_clusters: int, *, draws: int, seed: int, enumerate_up_to: int = ENUMERATE_UP_TO, block: int = BLOCK
) -> Iterator[Floats]:
    """Yield the sign vectors of a test in blocks [at most `block`, G].

    All 2^G of them, the identity included, if there are at most `enumerate_up_to` clusters, else `draws`
    fair ones, which depend on `block`.
    """
    if n_clusters <= enumerate_up_to:
        bits = np.arange(n_clusters)
        for start in range(0, 2**n_clusters, block):
            numbers = np.arange(start, min(start + block, 2**n_clusters))
            yield 1 - 2 * floats((numbers[:, None] >> bits) & 1)
        return
    rng = np.random.default_rng(seed)
    for size in blocks_of(draws, block):
        yield 1 - 2 * floats(rng.integers(0, 2, size=(size, n_clusters), dtype=np.int8))


def tail_p(observed: float, null: Floats, *, exact: bool, slack: float) -> float:
    """Share of the null at or above the observed statistic (METRICS F4).

    An exact null holds the observed arrangement itself; a sampled one does not, so it is added: (b+1)/(B+1).
    Ties count, and rounding must not break them: what lies within `slack` of the observed is a tie.
    """
    hits = int((null >= observed - slack).sum())
    return hits / len(null) if exact else (hits + 1) / (len(null) + 1)


def describe_flips(n_clusters: int, draws: int, seed: int) -> tuple[str, dict[str, Any]]:
    """What p_method and params say about a sign-flip test."""
    if n_clusters <= ENUMERATE_UP_TO:
        return f"sign flips of {n_clusters} clusters, all {2**n_clusters}", {}
    return f"sign flips of {n_clusters} clusters, {draws} sampled", {"draws": draws, "seed": seed}


@dataclass(frozen=True, kw_only=True)
class SignFlip(Score):
    """Is a mean zero? (METRICS D7)"""

    headline: ClassVar[str] = "mean"
    mean: float = NAN


def sign_flip_test(values: ArrayLike, groups: ArrayLike | None = None, *, draws: int = 4999, seed: int = 0) -> SignFlip:
    """Two-sided test that the mean of `values` [n] is zero, flipping the signs of whole clusters.

    Exact if each cluster's values are symmetric about zero jointly. `values` may have any range, for
    instance paired differences; NaN rows are dropped and counted.
    """
    rows = complete_numbers(groups, values=values)
    (values,) = rows.columns
    if not rows.n:
        return SignFlip(status="too_few", **rows.counts)
    sums = cluster_sums(values, rows.codes, rows.n_clusters)
    signs = sign_vectors(rows.n_clusters, draws=draws, seed=seed, block=block_size(rows.n_clusters))
    null = np.abs(np.concatenate([block @ sums for block in signs]))
    p_method, params = describe_flips(rows.n_clusters, draws, seed)
    exact = rows.n_clusters <= ENUMERATE_UP_TO
    return SignFlip(
        mean=float(values.mean()),
        p=tail_p(abs(float(sums.sum())), null, exact=exact, slack=TIE * float(np.abs(sums).sum())),
        p_method=p_method,
        params=params,
        **rows.counts,
    )


@dataclass(frozen=True, kw_only=True)
class JointFlip(Score):
    """Are several means zero at once? (METRICS A3)"""

    headline: ClassVar[str] = "F"
    F: float = NAN
    """Hotelling's statistic in F form; inf where the scores leave no spread about their mean."""
    df1: int = 0
    df2: int = 0
    p_F: float = NAN
    """By F(df1, df2), for scores that are normal."""


def joint_sign_flip(scores: Floats, *, draws: int = 4999, seed: int = 0) -> JointFlip:
    """Test that scores [G, q] of G clusters have mean zero in every column, flipping the signs of clusters.

    The statistic is Hotelling's: the sum of the scores, studentised by their sum of squares. Exact if the scores of
    a cluster are symmetric about zero jointly. G must exceed q (`too_few_clusters`) and the scores must not be
    proportional (`singular_covariance`).
    """
    g, q = scores.shape
    counts: dict[str, Any] = {"n_clusters": g}
    if g <= q:
        return JointFlip(status="too_few_clusters", **counts)
    size = np.sqrt((scores**2).sum(axis=0))
    if not (size > 0).all():
        return JointFlip(status="singular_covariance", **counts)
    values, directions = np.linalg.eigh((scores / size).T @ (scores / size))
    if values[0] <= ROUNDING:
        return JointFlip(status="singular_covariance", **counts)
    whitened = scores / size @ directions / np.sqrt(values)
    signs = sign_vectors(g, draws=draws, seed=seed, block=block_size(g))
    null = np.concatenate([((block @ whitened) ** 2).sum(axis=1) for block in signs])
    observed = float((whitened.sum(axis=0) ** 2).sum())
    f = (g - q) / q * observed / (g - observed) if g - observed > ROUNDING * g else float("inf")
    p_method, params = describe_flips(g, draws, seed)
    return JointFlip(
        F=f,
        df1=q,
        df2=g - q,
        p=tail_p(observed, null, exact=g <= ENUMERATE_UP_TO, slack=ROUNDING * observed),
        p_F=float(scipy.stats.f.sf(f, q, g - q)),
        p_method=f"studentised {p_method}",
        params=params,
        **counts,
    )
