"""What coherence scores would be by chance: sampling noise, and agreement without a belief (METRICS B12)."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..contract import (
    NAN,
    RESAMPLING,
    TIE,
    Floats,
    Resampling,
    Score,
    distributions,
    floats,
    probabilities,
    row_counts,
    same_shape,
)
from ..divergence import LN2, jsd, jsd_of_checked
from ..inference.clusters import blocks_of, cluster_sums, complete_rows, resamples_at_once
from ..inference.intervals import BOOTSTRAP, MIN_BOOTSTRAP_CLUSTERS, percentile_interval

TAIL = 1e-17
"""Binomial mass left out at each end: below the rounding of the sums."""
AT_ONCE = 50_000
"""Exchanges that are scored at once, some 8 MB."""
PAIRS = 1_000_000
"""Pairs of clusters whose exchanges are held at once: all, of a thousand clusters."""


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


class ChanceCorrected(Score, headline="kappa"):
    """METRICS B12, W3. A float, or an array of the shape that was given."""

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


class ConsistencyKappa(Score, headline="kappa"):
    """METRICS B12, chance level."""

    kappa: float = NAN
    """(c - c_perm) / (1 - c_perm); 0 for a model whose answers follow the position alone."""
    c: float
    """Mean two-class consistency."""
    c_perm: float = NAN
    """The same with each posterior replaced by those of other clusters at the same position."""


def consistency_kappa(
    prior2: ArrayLike,
    post2: ArrayLike,
    clusters: ArrayLike,
    position: ArrayLike | None = None,
    *,
    how: Resampling = RESAMPLING,
) -> ConsistencyKappa:
    """Consistency beyond what another item's posterior would give (METRICS B12).

    Args:
        prior2: [n, 2] normalised prior on (alpha, beta).
        post2: [n, 2] posterior.
        clusters: [n] the item (triple) of each instance.
        position: [n] which template and place in the prompt; posteriors are exchanged within it. None: one.

    Every exchange between two clusters is enumerated, none is sampled: time grows with the square of the clusters.
    Memory does not: beside one number for each draw and cluster, a byte long, it is some tens of megabytes.
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
        return ConsistencyKappa(c=c, status="too_few", **rows.counts)
    together, n_together = (cluster_sums(x, codes, n_clusters) for x in (1 - jsd(prior2, post2), np.ones(rows.n)))
    resamples = n_clusters >= MIN_BOOTSTRAP_CLUSTERS
    taken = [
        np.ones((1, n_clusters), dtype=np.uint8),
        *(_resamples(n_clusters, how.n_draws, how.seed) if resamples else ()),
    ]
    sums = [np.zeros((2, len(times))) for times in taken]
    places = [np.flatnonzero(position == place) for place in np.unique(position)]
    for block in np.array_split(np.arange(n_clusters), -(-(n_clusters**2) // PAIRS)):
        crossed = _exchanges(prior2, post2, codes, places, block, n_clusters)
        for sum_of, times in zip(sums, taken, strict=True):
            weight = times.astype(np.float64)
            sum_of += [((weight[:, block[0] : block[-1] + 1] @ score) * weight).sum(axis=1) for score in crossed]
    with np.errstate(invalid="ignore"):
        c = np.concatenate(
            [(times @ together) / (times @ n_together) for times in (weights.astype(np.float64) for weights in taken)]
        )
        c_perm = np.concatenate([score / n for score, n in sums])
    kappas = [float(chance_corrected(c[0], c_perm[0]).kappa)]
    result: dict[str, Any] = {"kappa": kappas[0], "c": float(c[0]), "c_perm": float(c_perm[0])} | rows.counts
    if not np.isfinite(kappas[0]):
        return ConsistencyKappa(**result, status="no_exchange" if np.isnan(c_perm[0]) else "chance_is_perfect")
    if not resamples:
        return ConsistencyKappa(**result, ci_method=f"none: {n_clusters} clusters")
    resampled = chance_corrected(c[1:], c_perm[1:]).kappa
    lo, hi = percentile_interval(resampled, how.level, n_clusters)
    return ConsistencyKappa(
        **result, se=float(np.nanstd(resampled, ddof=1)), ci_lo=lo, ci_hi=hi, ci_method=BOOTSTRAP, params=how.params
    )


def _resamples(n_clusters: int, draws: int, seed: int) -> Iterator[NDArray[Any]]:
    """How often each resample [draws of it, G] takes each cluster, in blocks, as the shortest integers that hold it."""
    rng, even = np.random.default_rng(seed), np.full(n_clusters, 1 / n_clusters)
    for size in blocks_of(draws, resamples_at_once(n_clusters)):
        times = rng.multinomial(n_clusters, even, size)
        yield times.astype(np.min_scalar_type(times.max()))


def _exchanges(
    prior2: Floats, post2: Floats, codes: NDArray[np.intp], places: Sequence[NDArray[np.intp]], block: Any, g: int
) -> tuple[Floats, Floats]:
    """Sums, and numbers [some, G], of the consistency of some clusters' priors with each one's posteriors."""
    first = int(block[0])
    crossed, n = np.zeros((len(block), g)), np.zeros((len(block), g))
    for here in places:
        alone = len(np.unique(codes[here])) == len(here)  # then no cell is added to twice at once
        of_block = here[(codes[here] >= first) & (codes[here] <= block[-1])]
        for some in np.array_split(of_block, -(-len(of_block) * len(here) // AT_ONCE)) if len(of_block) else ():
            score = 1 - jsd_of_checked(prior2[some][:, None], post2[here][None])
            pair = (codes[some][:, None] - first, codes[here][None])
            for sums, values in ((crossed, score), (n, 1.0)):
                if alone:
                    sums[pair] += values
                else:
                    np.add.at(sums, pair, values)
    itself = (np.arange(len(block)), block)
    crossed[itself] = n[itself] = 0.0
    return crossed, n


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
