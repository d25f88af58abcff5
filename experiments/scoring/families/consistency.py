"""Does the ratio of two options survive the rejection of a third? (METRICS B)"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ....metrics import belief_consistency, cluster_mean, expected_jsd_binomial, jsd_plugin_bias
from ....metrics import consistency_kappa as kappa
from ..cells import Array
from ..samples import Options
from .metric import Compared, Line, bounds, clusters_of, compare_mean, counted, metric, tosted

OPTIONS = "prior_<option>, posterior_<option>, rejected; or item, context, rejected, count_<option>"
EXACT_GRID = 10_000
"""Outcomes up to which the sampling noise of an instance is enumerated; beyond, its first order is near enough."""


def _compare_consistency(sample: Options) -> Compared:
    return compare_mean(belief_consistency(sample.prior, sample.posterior, sample.rejected).c2, sample)


@metric(
    "B2, B9, B11, B12",
    OPTIONS,
    Options,
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
        floor = _sampling_floor(sample, found.prior2)
        used = np.isfinite(values)
        if floor is not None and used.any():
            beside["expected of an unchanged belief, counted so often"] = f"{1 - floor[used].mean():.4f}"
            beside["corrected for it"] = f"{values[used].mean() + floor[used].mean():.4f}"
        distance = replace(score, mean=1 - score.estimate)
        yield Line(quantity, score, beside, tosted(distance, "jsd"))


def _sampling_floor(sample: Options, prior2: Array) -> Array | None:
    """[n] JSD in bits that sampling alone puts between equal beliefs (METRICS B12)."""
    if sample.n_prior is None or sample.n_posterior is None:
        return None
    floor = jsd_plugin_bias(2, sample.n_prior, sample.n_posterior)
    for i in np.flatnonzero(sample.n_prior * sample.n_posterior <= EXACT_GRID):
        one, two = int(sample.n_prior[i]), int(sample.n_posterior[i])
        if one and two and np.isfinite(prior2[i, 0]):
            floor[i] = expected_jsd_binomial(prior2[i, 0], prior2[i, 0], one, two)
    return floor


@metric("B12", OPTIONS, Options)
def consistency_kappa(sample: Options, seed: int) -> Iterator[Line]:
    """Consistency beyond what another item's posterior would give; 0 is chance."""
    found = belief_consistency(sample.prior, sample.posterior, sample.rejected)
    position = sample.rejected if sample.position is None else sample.position
    score = kappa(found.prior2, found.post2, clusters_of(sample), position, seed=seed)
    beside = {"consistency": f"{score.c:.3f}", "with another item's posterior": f"{score.c_perm:.3f}"}
    yield Line("consistency beyond chance", counted(score, sample, found.c2), beside)


METRICS = (
    consistency,
    consistency_kappa,
)
