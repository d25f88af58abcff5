"""Is a belief the weighted mean of the beliefs given each case? (METRICS E9)"""

from collections.abc import Iterator

import numpy as np

from ....metrics import UNIT, cluster_mean, cluster_share, median_ci
from ....metrics import lie as law
from ...tables.rows import by_reading
from ...tables.samples import Cases
from ..number import Resampling
from .metric import VERBAL_TOLERANCE, Line, claimed, clusters_of, metric, with_drop_reasons


@metric("E9", "p, cond_1, weight_1, cond_2, weight_2, ...", Cases)
def lie(sample: Cases, how: Resampling) -> Iterator[Line]:
    """Law of iterated expectation: is a belief the weighted mean of the beliefs given each case?"""
    found = law(sample.p, sample.conditional, sample.weights)
    clusters = clusters_of(sample)
    signed = with_drop_reasons(cluster_mean(found.signed, clusters, **how.interval), sample, found.signed)
    beside = {"weights sum to, on average": f"{np.nanmean(found.weight_sum):.3f}"} if signed.n_rows else {}
    claim = claimed(found.signed, clusters, "lie", how, bounded_below=False, worst=1.0)
    yield Line("lie", "p less the implied p", signed, beside, claim)
    size = with_drop_reasons(cluster_mean(found.delta, clusters, within=UNIT, **how.interval), sample, found.delta)
    noise = {}
    if sample.replicate is not None:
        readings = by_reading(sample, found.signed)
        repeated = readings[np.isfinite(readings).sum(axis=1) > 1]
        if len(repeated):  # the mean size of normal noise is sqrt(2 / pi) of its standard deviation
            spread = np.nanvar(repeated, axis=1, ddof=1).mean()
            noise["of a coherent agent read with this noise"] = f"{np.sqrt(2 / np.pi * spread):.3f}"
    yield Line("lie_size", "size of the difference", size, noise)
    ratio = median_ci(found.ratio, groups=sample.clusters, **how.test)
    yield Line("lie_ratio", "median of difference / p", with_drop_reasons(ratio, sample, found.ratio))
    outside = np.where(np.isnan(found.outside_hull), np.nan, found.outside_hull > VERBAL_TOLERANCE)
    share = with_drop_reasons(cluster_share(outside, clusters, **how.interval), sample, outside)
    yield Line(
        "outside_hull", f"share outside its cases by more than {VERBAL_TOLERANCE:g}, wrong whatever the weights", share
    )


METRICS = (lie,)
