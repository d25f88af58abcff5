"""A ratio of sums over rows, with an interval over clusters (METRICS F1)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..score import NAN, Score
from ..validation import Floats, floats
from .intervals import moment_interval
from .means import FEW_CLUSTERS
from .rows import cluster_codes


@dataclass(frozen=True, kw_only=True)
class Ratio(Score):
    """A ratio of sums, or another function of sums, over rows."""

    headline: ClassVar[str] = "ratio"
    ratio: float = NAN


def ratio_of_sums(
    columns: ArrayLike,
    clusters: ArrayLike,
    *,
    within: tuple[float, float] = (-np.inf, np.inf),
    seed: int,
    draws: int = 2000,
    level: float = 0.95,
) -> Ratio:
    """The sum of the first column over that of the second (METRICS F1).

    Args:
        columns: [n, 2], the second not negative.
        clusters: [n], the unit that was sampled.
        within: the least and the largest ratio that there can be, which no interval exceeds.
        seed: of the bootstrap, like `draws`.
        draws: resamples.
        level: of the interval.

    The interval is no shorter than CR3 with t of the clusters that carry the sum below the line. A sum of 0 there is
    `undefined`; one cluster gives no interval. The level is not promised of `few_clusters`, below thirty, and
    `few_effective_clusters`, of which fewer than ten carry that sum.
    """
    columns = floats(columns)
    _, n_clusters = cluster_codes(clusters, len(columns))
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = float(_ratio(columns.sum(axis=0)[None])[0])
    if n_clusters < 2 or not np.isfinite(estimate):
        status = "one_cluster" if np.isfinite(estimate) else "undefined"
        return Ratio(ratio=estimate, status=status, n_rows=len(columns), n_clusters=n_clusters)
    made = moment_interval(columns, clusters, _ratio, weights=columns[:, 1], seed=seed, draws=draws, level=level)
    made = replace(made, lo=max(made.lo, min(within[0], estimate)), hi=min(made.hi, max(within[1], estimate)))
    status = "few_clusters" if n_clusters < FEW_CLUSTERS else made.concern
    return Ratio(ratio=estimate, n_rows=len(columns), n_clusters=n_clusters, status=status, **made.fields())


def _ratio(sums: Floats) -> Floats:
    return sums[:, 0] / sums[:, 1]
