"""Does the ratio of two options survive the rejection of a third? (METRICS B)"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ....metrics import (
    belief_consistency,
    cluster_mean,
    competence_gate,
    counts_to_probabilities,
    expected_jsd_binomial,
    invalid_association,
    jsd_plugin_bias,
)
from ....metrics import consistency_kappa as kappa
from ...tables.cells import Array
from ...tables.samples import Options
from .metric import Compared, Line, bounds, clusters_of, compare_mean, counted, metric, tosted

OPTIONS = "prior_<option>, posterior_<option>, rejected; or item, context, rejected, count_<option>"
THREE = f"{OPTIONS}; three options"
EXACT_GRID = 10_000
"""Outcomes up to which the sampling noise of an instance is enumerated; beyond, its first order is near enough."""


def _compare_consistency(sample: Options) -> Compared:
    return compare_mean(belief_consistency(sample.prior, sample.posterior, sample.rejected).c2, sample)


@metric(
    "B2, B9, B11, B12",
    THREE,
    Options,
    needs=("three",),
    compare=_compare_consistency,
)
def consistency(sample: Options, seed: int) -> Iterator[Line]:
    """Do two options keep their ratio when a third is rejected? 1 is a kept ratio."""
    found = belief_consistency(sample.prior, sample.posterior, sample.rejected)
    clusters = clusters_of(sample)
    named = {
        "consistency": found.c2,
        "three-option consistency": found.c3,
        "leak to the rejected option, bits": found.leak,
        "share of the rejected option": found.p_invalid_norm,
        "chance that two draws disagree": found.switch,
    }
    for quantity, values in named.items():
        score = counted(cluster_mean(values, clusters, seed=seed), sample, values)
        if quantity != "consistency":
            yield Line(quantity, score)
            continue
        beside = bounds(values)
        floor = sampling_floor(found.prior2, sample.n_prior, sample.n_posterior)
        used = np.isfinite(values)
        if floor is not None and used.any():
            beside["expected of an unchanged belief, counted so often"] = f"{1 - floor[used].mean():.4f}"
            beside["corrected for it"] = f"{values[used].mean() + floor[used].mean():.4f}"
        distance = replace(score, mean=1 - score.estimate)
        yield Line(quantity, score, beside, tosted(distance, "jsd"))


def sampling_floor(shares: Array, n_one: Array | None, n_two: Array | None) -> Array | None:
    """[n] JSD in bits that sampling alone puts between equal beliefs [n, k] (METRICS B12); None of exact ones."""
    if n_one is None or n_two is None:
        return None
    floor = jsd_plugin_bias(shares.shape[1], n_one, n_two)
    if shares.shape[1] == 2:
        for i in np.flatnonzero(n_one * n_two <= EXACT_GRID):
            one, two = int(n_one[i]), int(n_two[i])
            if one and two and np.isfinite(shares[i, 0]):
                floor[i] = expected_jsd_binomial(shares[i, 0], shares[i, 0], one, two)
    return floor


@metric("B12", THREE, Options, needs=("three",))
def consistency_kappa(sample: Options, seed: int) -> Iterator[Line]:
    """Consistency beyond what another item's posterior would give; 0 is chance."""
    found = belief_consistency(sample.prior, sample.posterior, sample.rejected)
    position = sample.rejected if sample.position is None else sample.position
    score = kappa(found.prior2, found.post2, clusters_of(sample), position, seed=seed)
    beside = {"consistency": f"{score.c:.3f}", "with another item's posterior": f"{score.c_perm:.3f}"}
    yield Line("consistency beyond chance", counted(score, sample, found.c2), beside)


def _of_rejected(masses: Array, rejected: Array) -> Array:
    return masses[np.arange(len(masses)), rejected]


@metric("B10", OPTIONS, Options)
def association(sample: Options, seed: int) -> Iterator[Line]:
    """Is the rejected option still chosen where it was likely before? 1 is no association."""
    before, after = (
        _of_rejected(counts_to_probabilities(x), sample.rejected) for x in (sample.prior, sample.posterior)
    )
    score = invalid_association(before, after, clusters_of(sample), seed=seed)
    beside = {
        "mean share before, after": f"{score.norm_prior:.3f}, {score.norm_post:.3f}",
        "each weighted by the other": f"{score.wnorm_prior:.3f}, {score.wnorm_post:.3f}",
        "correlation, by ranks": f"{score.pearson:.3f}, {score.spearman:.3f}",
    }
    yield Line("product of the two shares, over that of their means", counted(score, sample, before + after), beside)


@metric("W4", OPTIONS, Options)
def competence(sample: Options, seed: int) -> Iterator[Line]:
    """Does the rejected option lose mass? If not, no score of the table is one of beliefs."""
    before, after = (_of_rejected(x, sample.rejected) for x in (sample.prior, sample.posterior))
    score = competence_gate(before, after, clusters_of(sample), seed=seed)
    yield Line("change of the rejected option's mass", counted(score, sample, before + after), {"gate:": score.verdict})


METRICS = (consistency, consistency_kappa, association, competence)
