"""How much of a read-out is the belief, where it was read several times? (METRICS F5)"""

from collections.abc import Iterator

import numpy as np

from ....metrics import Reliability, reliability_icc
from ...tables.cells import Array
from ...tables.samples import Cases, Evidence, Forecasts, Sample, by_reading
from .metric import Line, clusters_of, metric


def item_clusters(sample: Sample) -> Array:
    """[items] cluster of each item, in the order of `by_reading`."""
    assert sample.item is not None
    return clusters_of(sample)[np.unique(sample.item.astype(str), return_index=True)[1]]


def reliability_of(readings: Array, clusters: Array, seed: int) -> Reliability:
    """ICC of readings [items, r]; over clusters [items] where these hold several items."""
    groups = clusters if len(set(clusters)) < len(clusters) else None
    return reliability_icc(readings, groups, seed=seed)


@metric(
    "F5",
    "p_x, p_y, p_y_given_x, posterior; or p, cond_1, weight_1, ...; or belief, outcome; with item and --replicates",
    Evidence,
    Cases,
    Forecasts,
    needs=("replicate",),
)
def reliability(sample: Evidence | Cases | Forecasts, seed: int) -> Iterator[Line]:
    """Share of the spread of readings that lies between items; the rest is noise of reading."""
    for name in ("p_x", "p_y_given_x", "p_y", "posterior", "p", "belief"):
        values = getattr(sample, name, None)
        if values is not None:
            score = reliability_of(by_reading(sample, values), item_clusters(sample), seed)
            yield Line(f"reliability of one reading of {name}", score)


METRICS = (reliability,)
