"""Can the direction of an update be foreseen? (METRICS A1-A5, A11)"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from ....metrics import (
    Score,
    cluster_mean,
    disattenuated_slope,
    martingale_iv,
    martingale_score,
    sign_flip_test,
)
from ....metrics import martingale_tests as battery
from ...tables.cells import Array
from ...tables.samples import Pairs, Updates, by_reading
from .metric import Compared, Line, clusters_of, counted, keys_of, metric, tosted
from .reliability import item_clusters, reliability_of

PAIRED = "prior, posterior; or trajectories (b_0, b_1, ...; or trajectory, step, belief)"
MANY_CLUSTERS = 5_000
"""Above this the p of a mean is by t, which sign flips of so many would agree with."""


def _compare_slope(sample: Updates) -> Compared:
    pairs = sample.whole  # steps of two kinds, or of two models, need not be as many
    b, d = pairs.prior, pairs.posterior - pairs.prior
    moments = np.column_stack([np.ones(len(b)), b, d, b * b, b * d])
    return Compared(keys_of(pairs), clusters_of(pairs), moments, _slope_of)


def _slope_of(sums: Array) -> Array:
    n, b, d, bb, bd = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = bb - b * b / n
        return np.where(spread > 1e-12, (bd - b * d / n) / spread, np.nan)


@metric(
    "A1, A2, A11",
    PAIRED,
    Updates,
    compare=_compare_slope,
)
def martingale(sample: Updates, seed: int) -> Iterator[Line]:
    """Can the direction of an update be predicted from the prior, or is there a drift? 0 is coherent."""
    for name, pairs in sample.views.items():
        suffix = f", {name}" if name else ""
        yield _slope(f"M{suffix}", pairs, seed)
        if name == "per step":
            sizes = Counter(pairs.clusters)
            weights = np.array([1 / sizes[label] for label in clusters_of(pairs)])
            if len(set(sizes.values())) > 1:
                yield _slope("M, questions weigh the same", pairs, seed, weights)
        update = pairs.posterior - pairs.prior
        clusters = clusters_of(pairs)
        mean = cluster_mean(update, clusters, seed=seed)
        score = counted(replace(mean, **_p_of_mean(mean, update, clusters, seed)), pairs, update)
        yield Line(f"mean update{suffix}", score, equivalence=tosted(score, "intercept"))


def _p_of_mean(mean: Score, values: Array, clusters: Array, seed: int) -> dict[str, Any]:
    """Of a mean of zero: by sign flips, or by t where clusters are so many that the two agree."""
    if mean.n_clusters > MANY_CLUSTERS and mean.se > 0:
        p = 2 * stats.t.sf(abs(mean.estimate) / mean.se, mean.n_clusters - 1)
        return {"p": float(p), "p_method": f"t over {mean.n_clusters} clusters"}
    flips = sign_flip_test(values, clusters, seed=seed)
    return {"p": flips.p, "p_method": flips.p_method}


def _slope(quantity: str, pairs: Pairs, seed: int, weights: Array | None = None) -> Line:
    clustered = pairs.clusters is not None
    score = martingale_score(
        pairs.prior, pairs.posterior, pairs.clusters, se="CR1" if clustered else "HC3", weights=weights, seed=seed
    )
    beside = {}
    if np.isfinite(score.mde):
        beside["smallest |M| found with 80% power"] = f"{score.mde:.3f}"
    if np.isfinite(score.p_wild):
        beside["p by wild cluster bootstrap"] = f"{score.p_wild:.3g}"
    if np.isfinite(score.p_iid) and weights is None:
        beside["p as papers print it (rows independent, equal spread)"] = f"{score.p_iid:.3g}"
    score = counted(score, pairs, pairs.posterior - pairs.prior)
    df = (score.n_clusters - 1) if clustered else score.n_rows - 2
    return Line(quantity, score, beside, tosted(score, "martingale", df=df))


@metric("A3, A4", PAIRED, Updates)
def martingale_tests(sample: Updates, seed: int) -> Iterator[Line]:
    """Slope, shift and any other shape of the update, tested as one family of three."""
    for name, pairs in sample.views.items():
        score = battery(pairs.prior, pairs.posterior, pairs.clusters, seed=seed)
        each = {f"{test} p": f"{score.p_tests[test]:.3g}, adjusted {p:.3g}" for test, p in score.p_holm.items()}
        score = counted(score, pairs, pairs.posterior - pairs.prior)
        yield Line(f"smallest adjusted p{', ' + name if name else ''}", score, each)


@metric(
    "A5, F5",
    "prior, posterior, item and --replicates",
    Updates,
    needs=("replicate",),
)
def martingale_replicates(sample: Updates, seed: int) -> Iterator[Line]:
    """How noisy the readings are, the M that this noise makes by itself, and M without it."""
    pairs = sample.whole
    prior, posterior = by_reading(sample, pairs.prior), by_reading(sample, pairs.posterior)
    clusters = item_clusters(sample)
    reliability = reliability_of(prior, clusters, seed)
    beside = {}
    if np.isfinite(reliability.icc1):
        slope = martingale_score(pairs.prior, pairs.posterior, pairs.clusters)
        corrected = disattenuated_slope(slope.M, reliability.icc1, se=slope.se)
        beside = {
            "M of a perfect updater read with this noise": f"{reliability.icc1 - 1:.3f}",
            "M corrected for it": f"{corrected.beta1:.3f} (se {corrected.se:.3f})",
        }
    yield Line("reliability of one reading of the prior", reliability, beside)
    if prior.shape[1] > 1:
        later = posterior[:, 2] if prior.shape[1] > 2 else posterior.mean(axis=1)
        note = {"instrument": "the first two readings of the prior, each for the other"}
        yield Line("M by split readings", martingale_iv(prior[:, 0], prior[:, 1], later, clusters, seed=seed), note)


METRICS = (
    martingale,
    martingale_tests,
    martingale_replicates,
)
