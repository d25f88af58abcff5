"""What coherence scores would be by chance: sampling noise, and agreement without a belief (METRICS B12)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..divergence import LN2, binary_entropy_bits, jsd
from ..inference.intervals import BOOTSTRAP, MIN_BOOTSTRAP_CLUSTERS
from ..inference.resampling import block_size, blocks_of
from ..inference.rows import cluster_sums, complete_rows
from ..inference.tails import percentile_interval
from ..score import NAN, Score, row_counts
from ..validation import TIE, Floats, check_draws, distributions, floats, probabilities, same_shape

TAIL = 1e-17
"""Binomial mass left out at each end: below the rounding of the sums."""
AT_ONCE = 250_000
"""Exchanges that are scored at once, some 40 MB."""


def jsd_plugin_bias(k: ArrayLike, n1: ArrayLike, n2: ArrayLike) -> Floats:
    """First-order expected JSD, in bits, of samples of n1 and n2 from one law on k options (METRICS B12).

    An empty sample gives NaN. Good when every option is expected several times; otherwise use
    `expected_jsd_binomial`.
    """
    k, n1, n2 = (np.asarray(x, dtype=np.float64) for x in (k, n1, n2))
    if (k < 1).any():
        raise ValueError(f"k: {k.min():g} options; give one or more")
    for name, n in (("n1", n1), ("n2", n2)):
        if (n < 0).any():
            raise ValueError(f"{name}: {n.min():g} is negative")
    n1, n2 = np.where(n1 > 0, n1, np.nan), np.where(n2 > 0, n2, np.nan)
    return (k - 1) * (1 / n1 + 1 / n2) / (8 * LN2)


def expected_jsd_binomial(p: float, q: float, n1: int, n2: int) -> float:
    """Exact mean, in bits, of the JSD between frequencies of n1 draws at p and n2 at q (METRICS B12)."""
    (x, weight_x), (y, weight_y) = _frequencies(p, n1, "p", "n1"), _frequencies(q, n2, "q", "n2")
    shape = (len(x), len(y))
    left, right = np.broadcast_to(x[:, None], shape), np.broadcast_to(y, shape)
    bits = jsd(np.stack([left, 1 - left], axis=-1), np.stack([right, 1 - right], axis=-1))
    return float(weight_x @ bits @ weight_y)


def expected_entropy_binomial(p: float, n: int) -> float:
    """Exact mean, in bits, of the entropy of frequencies of n draws at p (METRICS B12)."""
    x, weight = _frequencies(p, n, "p", "n")
    return float(weight @ binary_entropy_bits(x))


@dataclass(frozen=True, kw_only=True)
class ChanceCorrected(Score):
    """METRICS B12, W3. A float, or an array of the shape that was given."""

    headline: ClassVar[str] = "kappa"
    kappa: Any


def chance_corrected(score: ArrayLike, chance: ArrayLike) -> ChanceCorrected:
    """kappa = (score - chance) / (1 - chance), at most 1 (METRICS B12, W3).

    NaN where chance itself scores 1, since 0 / 0 tells no belief from what chance has: the status is
    `chance_is_perfect` if nothing else is left, `undefined` if a NaN was given throughout.
    """
    score, chance = floats(score), floats(chance)
    perfect = np.abs(1 - chance) <= TIE
    kappa = (score - chance) / np.where(perfect, np.nan, 1 - chance)
    n_undefined = int(np.isnan(kappa).sum())
    status = "ok" if n_undefined < kappa.size else "chance_is_perfect" if perfect.any() else "undefined"
    return ChanceCorrected(kappa=kappa[()], status=status, **row_counts(kappa.size - n_undefined, n_undefined))


@dataclass(frozen=True, kw_only=True)
class ConsistencyKappa(Score):
    """METRICS B12, chance level."""

    headline: ClassVar[str] = "kappa"
    kappa: float
    """(c - c_perm) / (1 - c_perm); 0 for a model whose answers follow the position alone."""
    c: float
    """Mean two-class consistency."""
    c_perm: float
    """The same with each posterior replaced by those of other clusters at the same position."""


def consistency_kappa(
    prior2: ArrayLike,
    post2: ArrayLike,
    clusters: ArrayLike,
    position: ArrayLike | None = None,
    *,
    seed: int = 0,
    draws: int = 2000,
    level: float = 0.95,
) -> ConsistencyKappa:
    """Consistency beyond what another item's posterior would give (METRICS B12).

    Args:
        prior2: [n, 2] normalised prior on (alpha, beta).
        post2: [n, 2] posterior.
        clusters: [n] the item (triple) of each instance.
        position: [n] which template and place in the prompt; posteriors are exchanged within it. None: one.
        seed: of the cluster bootstrap.
        draws: resamples of clusters; the chance level is recomputed in each.
        level: of the interval.

    Every exchange between two clusters is enumerated, none is sampled: time and memory grow with the square of the
    clusters, 16 bytes a pair.
    """
    prior2, post2 = distributions(prior2, "prior2"), distributions(post2, "post2")
    same_shape(prior2=prior2, post2=post2)
    if prior2.ndim != 2 or prior2.shape[1] != 2:
        raise ValueError(f"prior2: shape {prior2.shape}; give [n, 2]")
    position = np.zeros(len(prior2)) if position is None else np.asarray(position)
    rows = complete_rows(clusters, prior2=prior2, post2=post2, position=position)
    (prior2, post2, position), codes, n_clusters = rows.columns, rows.codes, rows.n_clusters
    if n_clusters < 2:
        c = float(1 - jsd(prior2, post2).mean()) if len(prior2) else NAN
        return ConsistencyKappa(kappa=NAN, c=c, c_perm=NAN, status="too_few", **rows.counts)
    own, own_n = (cluster_sums(x, codes, n_clusters) for x in (1 - jsd(prior2, post2), np.ones(rows.n)))
    crossed, crossed_n = np.zeros((n_clusters, n_clusters)), np.zeros((n_clusters, n_clusters))
    for place in np.unique(position):
        here = np.flatnonzero(position == place)
        for some in np.array_split(here, -(-(len(here) ** 2) // AT_ONCE)):
            shape = (len(some), len(here), 2)
            score = 1 - jsd(np.broadcast_to(prior2[some][:, None], shape), np.broadcast_to(post2[here][None], shape))
            pair = (codes[some][:, None], codes[here][None])
            np.add.at(crossed, pair, score)
            np.add.at(crossed_n, pair, 1.0)
    np.fill_diagonal(crossed, 0.0)
    np.fill_diagonal(crossed_n, 0.0)

    def levels(times: Floats) -> tuple[Floats, Floats]:
        """(c, c_perm) when cluster g is taken times[:, g] times."""
        with np.errstate(invalid="ignore"):
            c = (times @ own) / (times @ own_n)
            c_perm = ((times @ crossed) * times).sum(axis=1) / ((times @ crossed_n) * times).sum(axis=1)
        return c, c_perm

    c, c_perm = (float(x[0]) for x in levels(np.ones((1, n_clusters))))
    kappa = float(chance_corrected(c, c_perm).kappa)
    result: dict[str, Any] = {"kappa": kappa, "c": c, "c_perm": c_perm} | rows.counts
    if not np.isfinite(kappa):
        return ConsistencyKappa(**result, status="no_exchange" if np.isnan(c_perm) else "chance_is_perfect")
    if n_clusters < MIN_BOOTSTRAP_CLUSTERS:
        return ConsistencyKappa(**result, ci_method=f"none: {n_clusters} clusters")
    check_draws(draws)
    rng, even = np.random.default_rng(seed), np.full(n_clusters, 1 / n_clusters)
    blocks = (rng.multinomial(n_clusters, even, size) for size in blocks_of(draws, block_size(n_clusters)))
    resampled = np.concatenate([chance_corrected(*levels(times.astype(np.float64))).kappa for times in blocks])
    lo, hi = percentile_interval(resampled, level, n_clusters)
    return ConsistencyKappa(
        **result,
        se=float(np.nanstd(resampled, ddof=1)),
        ci_lo=lo,
        ci_hi=hi,
        ci_method=BOOTSTRAP,
        params={"level": level, "draws": draws, "seed": seed},
    )


def _frequencies(p: float, n: int, p_name: str, n_name: str) -> tuple[Floats, Floats]:
    """Relative frequencies that n draws at p can show, and their probabilities; [NaN], [1] if undefined."""
    p = float(probabilities(p, p_name))
    if n < 0:
        raise ValueError(f"{n_name}: {n} is negative")
    if n == 0 or np.isnan(p):
        return np.array([NAN]), np.array([1.0])
    if min(p, 1 - p) < TAIL:  # scipy's binomial overflows next to 0, where nothing is left to count
        p = round(p)
    low, high = scipy.stats.binom.ppf(TAIL, n, p), scipy.stats.binom.isf(TAIL, n, p)
    hits = np.arange(max(low, 0), min(high, n) + 1)
    return hits / n, scipy.stats.binom.pmf(hits, n, p)
