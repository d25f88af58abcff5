"""A ratio of sums over rows, with an interval over clusters (METRICS F1)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..score import NAN, Score
from ..validation import Floats, floats
from .intervals import moment_interval
from .rows import cluster_codes


@dataclass(frozen=True, kw_only=True)
class Ratio(Score):
    """A ratio of sums, or another function of sums, over rows."""

    headline: ClassVar[str] = "ratio"
    ratio: float = NAN


def ratio_of_sums(
    columns: ArrayLike, clusters: ArrayLike, *, seed: int, draws: int = 2000, level: float = 0.95
) -> Ratio:
    """The sum of the first column over that of the second (METRICS F1).

    Args:
        columns: [n, 2].
        clusters: [n], the unit that was sampled.
        seed: of the bootstrap, like `draws`.
        draws: resamples.
        level: of the interval.

    A sum of 0 below the line is `undefined`; one cluster gives no interval.
    """
    columns = floats(columns)
    _, n_clusters = cluster_codes(clusters, len(columns))
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = float(_ratio(columns.sum(axis=0)[None])[0])
    if n_clusters < 2 or not np.isfinite(estimate):
        status = "one_cluster" if np.isfinite(estimate) else "undefined"
        return Ratio(ratio=estimate, status=status, n_rows=len(columns), n_clusters=n_clusters)
    interval = moment_interval(columns, clusters, _ratio, seed=seed, draws=draws, level=level)
    return Ratio(ratio=estimate, n_rows=len(columns), n_clusters=n_clusters, **interval.fields())


def _ratio(sums: Floats) -> Floats:
    return sums[:, 0] / sums[:, 1]
