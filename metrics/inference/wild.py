"""The restricted wild cluster bootstrap, for when clusters are too few for a t test (METRICS A2)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..score import NAN, Score
from ..validation import Floats, floats
from .permutation import ENUMERATE_UP_TO, sign_vectors, tail_p
from .regression import ROUNDING
from .resampling import block_size, blocks_of
from .rows import cluster_codes, cluster_sums

WEBB_BELOW = 10
"""With fewer clusters, sampled signs repeat too often; Webb's six-point weights do not."""
WEBB = np.sqrt([0.5, 1.0, 1.5])


@dataclass(frozen=True, kw_only=True)
class WildTest(Score):
    """H0: one coefficient is zero, or several are."""

    headline: ClassVar[str] = "F"
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
    draws: int = 4999,
    seed: int = 0,
    enumerate_up_to: int = ENUMERATE_UP_TO,
) -> WildTest:
    """Test that the coefficients of `columns` of y [n] on x [n, k] are all zero (METRICS A2, A3).

    The null is imposed on the residuals; each cluster's are multiplied by one random weight, the statistic is
    recomputed, and p is the share of F* at or above F (Cameron, Gelbach and Miller 2008). Weights are all 2^G
    sign vectors up to `enumerate_up_to` clusters, otherwise random: Webb's below ten clusters, signs from ten on.
    """
    y, x = floats(y), floats(x)
    if x.ndim != 2 or len(x) != len(y):
        raise ValueError(f"x: shape {x.shape} for {len(y)} rows; give [n, k]")
    codes, n_clusters = cluster_codes(groups, len(y))
    counts: dict[str, Any] = {"n_rows": len(y), "n_clusters": n_clusters}
    if n_clusters < 2:
        return WildTest(status="one_cluster", **counts)
    w = np.ones(len(y)) if weights is None else floats(weights)
    own, leak, projected = _pieces(y, x, w, codes, np.atleast_1d(columns))

    least = ROUNDING * np.abs(own).sum(axis=0)  # an error below this is rounding

    def wald(multipliers: Floats) -> Floats:
        """[draws] Wald statistics, without the small-sample factor that all of them share."""
        scores = multipliers[:, :, None] * own - np.einsum("dk,gqk->dgq", multipliers @ projected, leak)
        errors = np.sqrt((scores**2).sum(axis=1))
        sound = (errors > least).all(axis=1)
        scaled = scores[sound] / errors[sound][:, None]
        correlation = np.einsum("dgq,dgr->dqr", scaled, scaled)
        regular = np.linalg.eigvalsh(correlation)[:, 0] > ROUNDING
        t = (multipliers @ own)[sound][regular] / errors[sound][regular]
        sound[sound] = regular
        # A draw that fits exactly has no statistic. It counts as extreme, which can only make the test timid.
        out = np.full(len(multipliers), np.inf)
        out[sound] = np.einsum("dq,dq->d", t, np.linalg.solve(correlation[regular], t[:, :, None])[:, :, 0])
        return out

    exact = n_clusters <= enumerate_up_to
    if exact or n_clusters >= WEBB_BELOW:
        blocks = sign_vectors(
            n_clusters, draws=draws, seed=seed, enumerate_up_to=enumerate_up_to, block=block_size(n_clusters)
        )
        name = "Rademacher"
    else:
        blocks, name = _webb_vectors(n_clusters, draws=draws, seed=seed), "Webb"
    null = np.concatenate([wald(block) for block in blocks])
    # Multipliers of one give the data back.
    observed = float(wald(np.ones((1, n_clusters)))[0])
    if not np.isfinite(observed):
        return WildTest(status="zero_cluster_variance", **counts)
    p = tail_p(observed, null, exact=exact, slack=ROUNDING * observed)
    n, k = x.shape
    f = observed / own.shape[1] / (n_clusters / (n_clusters - 1) * (n - 1) / (n - k))
    how = f"all 2^{n_clusters}" if exact else f"{draws}"
    return WildTest(
        F=f,
        t=float(np.copysign(np.sqrt(f), own.sum())) if own.shape[1] == 1 else NAN,
        p=p,
        p_method=f"restricted wild cluster bootstrap, {how} {name} draws over {n_clusters} clusters",
        params={} if exact else {"draws": draws, "seed": seed},
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
