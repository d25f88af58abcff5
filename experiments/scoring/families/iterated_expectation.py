"""Is a belief the weighted mean of the beliefs given each case? (METRICS E9)"""

from collections.abc import Iterator

import numpy as np

from ....metrics import cluster_mean, median_ci
from ....metrics import lie as law
from ...tables.samples import Cases, by_reading
from .metric import VERBAL_TOLERANCE, Line, clusters_of, counted, metric, tosted


@metric("E9", "p, cond_1, weight_1, cond_2, weight_2, ...", Cases)
def lie(sample: Cases, seed: int) -> Iterator[Line]:
    """Law of iterated expectation: is a belief the weighted mean of the beliefs given each case?"""
    found = law(sample.p, sample.conditional, sample.weights)
    clusters = clusters_of(sample)
    signed = counted(cluster_mean(found.signed, clusters, seed=seed), sample, found.signed)
    beside = {"weights sum to, on average": f"{np.nanmean(found.weight_sum):.3f}"} if signed.n_rows else {}
    yield Line("p less the implied p", signed, beside, tosted(signed, "lie"))
    size = counted(cluster_mean(found.delta, clusters, seed=seed), sample, found.delta)
    noise = {}
    if sample.replicate is not None:
        readings = by_reading(sample, found.signed)
        repeated = readings[np.isfinite(readings).sum(axis=1) > 1]
        if len(repeated):  # the mean size of normal noise is sqrt(2 / pi) of its standard deviation
            spread = np.nanvar(repeated, axis=1, ddof=1).mean()
            noise["of a coherent agent read with this noise"] = f"{np.sqrt(2 / np.pi * spread):.3f}"
    yield Line("size of the difference", size, noise)
    ratio = median_ci(found.ratio, groups=sample.clusters, seed=seed)
    yield Line("median of difference / p", counted(ratio, sample, found.ratio))
    outside = np.where(np.isnan(found.outside_hull), np.nan, found.outside_hull > VERBAL_TOLERANCE)
    share = counted(cluster_mean(outside, clusters, seed=seed), sample, outside)
    yield Line(f"share outside its cases by more than {VERBAL_TOLERANCE:g}, wrong whatever the weights", share)


METRICS = (lie,)
