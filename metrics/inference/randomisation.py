"""Tests by randomisation of whole clusters: sign flips (METRICS A4, D7, F4), and the restricted wild cluster
bootstrap, for when clusters are too few for a t test (METRICS A2).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score, floats
from .clusters import BLOCK, block_size, blocks_of, cluster_codes, cluster_sums, complete_numbers
from .regression import ROUNDING

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


def flipped(
    statistic: Callable[[Floats], Floats], n_clusters: int, how: Resampling, block: int | None = None
) -> tuple[Floats, bool, dict[str, Any]]:
    """The null law [draws, ...] of a statistic of sign vectors [draws, G], whether it is of all vectors, and what
    p_method and params say of it.
    """
    block = block_size(n_clusters) if block is None else block
    blocks = sign_vectors(n_clusters, draws=how.n_draws, seed=how.seed, block=block)
    null = np.concatenate([statistic(signs) for signs in blocks])
    exact = n_clusters <= ENUMERATE_UP_TO
    named = f"sign flips of {n_clusters} clusters, {f'all {2**n_clusters}' if exact else f'{how.n_draws} sampled'}"
    return null, exact, {"p_method": named, "params": {} if exact else {"draws": how.n_draws, "seed": how.seed}}


class SignFlip(Score, headline="mean"):
    """Is a mean zero? (METRICS D7)"""

    mean: float = NAN


def sign_flip_test(values: ArrayLike, groups: ArrayLike | None = None, *, how: Resampling = RESAMPLING) -> SignFlip:
    """Two-sided test that the mean of `values` [n] is zero, flipping the signs of whole clusters.

    Exact if each cluster's values are symmetric about zero jointly. `values` may have any range, for
    instance paired differences; NaN rows are dropped and counted.
    """
    how = how.drawing(4999)
    rows = complete_numbers(groups, values=values)
    (values,) = rows.columns
    if not rows.n:
        return SignFlip(status="too_few", **rows.counts)
    sums = cluster_sums(values, rows.codes, rows.n_clusters)
    null, exact, told = flipped(lambda signs: np.abs(signs @ sums), rows.n_clusters, how)
    p = tail_p(abs(float(sums.sum())), null, exact=exact, slack=TIE * float(np.abs(sums).sum()))
    return SignFlip(mean=float(values.mean()), p=p, **told, **rows.counts)


class JointFlip(Score, headline="F"):
    """Are several means zero at once? (METRICS A3)"""

    F: float = NAN
    """Hotelling's statistic in F form; inf where the scores leave no spread about their mean."""
    df1: int = 0
    df2: int = 0
    p_F: float = NAN
    """By F(df1, df2), for scores that are normal."""


def joint_sign_flip(scores: Floats, *, how: Resampling = RESAMPLING) -> JointFlip:
    """Test that scores [G, q] of G clusters have mean zero in every column, flipping the signs of clusters.

    The statistic is Hotelling's: the sum of the scores, studentised by their sum of squares. Exact if the scores of
    a cluster are symmetric about zero jointly. G must exceed q (`too_few_clusters`) and the scores must not be
    proportional (`singular_covariance`).
    """
    how = how.drawing(4999)
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
    null, exact, told = flipped(lambda signs: ((signs @ whitened) ** 2).sum(axis=1), g, how)
    told["p_method"] = f"studentised {told['p_method']}"
    observed = float((whitened.sum(axis=0) ** 2).sum())
    f = (g - q) / q * observed / (g - observed) if g - observed > ROUNDING * g else float("inf")
    return JointFlip(
        F=f,
        df1=q,
        df2=g - q,
        p=tail_p(observed, null, exact=exact, slack=ROUNDING * observed),
        p_F=float(scipy.stats.f.sf(f, q, g - q)),
        **told,
        **counts,
    )


WEBB_BELOW = 10
"""With fewer clusters, sampled signs repeat too often; Webb's six-point weights do not."""
WEBB = np.sqrt([0.5, 1.0, 1.5])


class WildTest(Score, headline="F"):
    """H0: one coefficient is zero, or several are."""

    F: float = NAN
    """CR1 Wald statistic over the number of coefficients; the square of t for one."""
    t: float = NAN
    """CR1 t statistic of the one coefficient."""


def wild_cluster_test(
    y: ArrayLike,
    x: ArrayLike,
    groups: ArrayLike,
    columns: int | Sequence[int],
    *,
    weights: ArrayLike | None = None,
    enumerate_up_to: int = ENUMERATE_UP_TO,
    how: Resampling = RESAMPLING,
) -> WildTest:
    """Test that the coefficients of `columns` of y [n] on x [n, k] are all zero (METRICS A2, A3).

    The null is imposed on the residuals; each cluster's are multiplied by one random weight, the statistic is
    recomputed, and p is the share of F* at or above F (Cameron, Gelbach and Miller 2008). Weights are all 2^G
    sign vectors up to `enumerate_up_to` clusters, otherwise random: Webb's below ten clusters, signs from ten on.
    """
    how = how.drawing(4999)
    y, x = floats(y), floats(x)
    if x.ndim != 2 or len(x) != len(y):
        raise ValueError(f"x: shape {x.shape} for {len(y)} rows; give [n, k]")
    codes, n_clusters = cluster_codes(groups, len(y))
    counts: dict[str, Any] = {"n_rows": len(y), "n_clusters": n_clusters}
    if n_clusters < 2:
        return WildTest(status="one_cluster", **counts)
    w = np.ones(len(y)) if weights is None else floats(weights)
    scores_of, leak, projected = _pieces(y, x, w, codes, np.atleast_1d(columns))

    least = ROUNDING * np.abs(scores_of).sum(axis=0)  # an error below this is rounding

    def wald(multipliers: Floats) -> Floats:
        """[draws] Wald statistics, without the small-sample factor that all of them share."""
        scores = multipliers[:, :, None] * scores_of - np.einsum("dk,gqk->dgq", multipliers @ projected, leak)
        errors = np.sqrt((scores**2).sum(axis=1))
        sound = (errors > least).all(axis=1)
        scaled = scores[sound] / errors[sound][:, None]
        correlation = np.einsum("dgq,dgr->dqr", scaled, scaled)
        regular = np.linalg.eigvalsh(correlation)[:, 0] > ROUNDING
        t = (multipliers @ scores_of)[sound][regular] / errors[sound][regular]
        sound[sound] = regular
        # A draw that fits exactly has no statistic. It counts as extreme, which can only make the test timid.
        out = np.full(len(multipliers), np.inf)
        out[sound] = np.einsum("dq,dq->d", t, np.linalg.solve(correlation[regular], t[:, :, None])[:, :, 0])
        return out

    exact = n_clusters <= enumerate_up_to
    if exact or n_clusters >= WEBB_BELOW:
        blocks = sign_vectors(
            n_clusters, draws=how.n_draws, seed=how.seed, enumerate_up_to=enumerate_up_to, block=block_size(n_clusters)
        )
        name = "Rademacher"
    else:
        blocks, name = _webb_vectors(n_clusters, draws=how.n_draws, seed=how.seed), "Webb"
    null = np.concatenate([wald(block) for block in blocks])
    # Multipliers of one give the data back.
    observed = float(wald(np.ones((1, n_clusters)))[0])
    if not np.isfinite(observed):
        return WildTest(status="zero_cluster_variance", **counts)
    p = tail_p(observed, null, exact=exact, slack=ROUNDING * observed)
    n, k = x.shape
    f = observed / scores_of.shape[1] / (n_clusters / (n_clusters - 1) * (n - 1) / (n - k))
    number = f"all 2^{n_clusters}" if exact else f"{how.n_draws}"
    return WildTest(
        F=f,
        t=float(np.copysign(np.sqrt(f), scores_of.sum())) if scores_of.shape[1] == 1 else NAN,
        p=p,
        p_method=f"restricted wild cluster bootstrap, {number} {name} draws over {n_clusters} clusters",
        params={} if exact else {"draws": how.n_draws, "seed": how.seed},
        **counts,
    )


def _pieces(
    y: Floats, x: Floats, w: Floats, codes: NDArray[np.intp], columns: NDArray[np.intp]
) -> tuple[Floats, Floats, Floats]:
    """What the draws need of the data, summed by cluster: [G, q], [G, q, k] and [G, k].

    With a the q rows of (X'WX)^-1 X'W = A that give the coefficients and u the restricted residuals, a draw with
    multipliers m has coefficients sum_g m_g (a_g u_g), and cluster g's scores are m_g (a_g u_g) less (a_g X_g)
    times the refitted coefficients sum_h m_h (A_h u_h). The restricted fit itself drops out.
    """
    others = np.delete(x, columns, axis=1)
    root = np.sqrt(w)
    restricted = y - others @ np.linalg.lstsq(others * root[:, None], y * root, rcond=None)[0]
    hat = np.linalg.solve((x * w[:, None]).T @ x, (x * w[:, None]).T)
    g = int(codes.max()) + 1
    projected = cluster_sums((hat * restricted).T, codes, g)
    leak = cluster_sums(hat[columns].T[:, :, None] * x[:, None, :], codes, g)
    return projected[:, columns], leak, projected


def _webb_vectors(n_clusters: int, *, draws: int, seed: int) -> Iterator[Floats]:
    """Blocks [at most 256, G] of Webb's weights: plus or minus the roots of 1/2, 1, 3/2, equally likely."""
    rng = np.random.default_rng(seed)
    points = np.concatenate([-WEBB, WEBB])
    for size in blocks_of(draws):
        yield rng.choice(points, size=(size, n_clusters))
