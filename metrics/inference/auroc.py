"""How well a score tells two classes apart, whatever its threshold (METRICS F11)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..contract import NAN, RESAMPLING, Floats, Resampling, Score, floats
from .clusters import bootstrap_rows, cluster_codes
from .intervals import cluster_interval, largest_share
from .paired import PairedDifference, paired_difference


class Auroc(Score, headline="auroc"):
    """METRICS F11."""

    auroc: float = NAN
    """Chance that a row of the first class has a higher score than one of the second; ties count half."""


def auroc(
    scores: ArrayLike,
    labels: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    how: Resampling = RESAMPLING,
) -> Auroc:
    """Area under the receiver operating characteristic, with an interval over clusters (METRICS F11).

    Args:
        scores: [n], any finite numbers; a row without one (NaN) is dropped and counted, as is one without a label.
        labels: [n] 1, or true, of the class that should score higher, else 0.
        clusters: [n], what was sampled; None: every row its own.
        weights: [n] of the rows.

    NaN with status `one_class` if all rows are of one class.

    >>> auroc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]).auroc
    0.75
    """
    values, of_class = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    names = np.arange(len(values)) if clusters is None else np.asarray(clusters)
    weight = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    keep = np.isfinite(values) & np.isfinite(of_class)
    codes, n_clusters = cluster_codes(names[keep], int(keep.sum()))
    reasons = {"no_score": int((~np.isfinite(values)).sum()), "no_label": int((np.isfinite(values) & ~keep).sum())}
    counts: dict[str, Any] = {
        "n_rows": int(keep.sum()),
        "n_clusters": n_clusters,
        "n_dropped": int((~keep).sum()),
        "reasons": {why: n for why, n in reasons.items() if n},
    }
    levels, high = np.unique(values[keep], return_inverse=True)[1], of_class[keep] > 0
    weight = weight[keep]
    if not high[weight > 0].any() or high[weight > 0].all():
        return Auroc(status="one_class", **counts)

    def of(rows: NDArray[Any]) -> float:
        return _area(levels[rows], high[rows], weight[rows])

    estimate = of(np.arange(len(levels)))
    interval = cluster_interval(
        estimate,
        n_clusters,
        left_out=lambda: np.array([of(np.flatnonzero(codes != cluster)) for cluster in range(n_clusters)]),
        resample=lambda: bootstrap_rows(of, codes, how=how),
        largest=largest_share(codes),
        shares=np.bincount(codes) / len(codes),
        how=how,
    )
    return Auroc(auroc=estimate, **counts, **interval.within(0.0, 1.0, estimate).fields())


def auroc_difference(
    first: ArrayLike,
    second: ArrayLike,
    labels: ArrayLike,
    clusters: ArrayLike,
    *,
    family_size: int = 1,
    how: Resampling = RESAMPLING,
) -> PairedDifference:
    """AUROC of one score less that of another on the same rows (METRICS F1, F11).

    Args:
        first: [n] scores; second: [n] the others. A row that lacks either, or a label, is dropped from both.
        labels: [n] 1 or 0; clusters: [n].
        family_size: comparisons that will be adjusted together.
    """
    ranked = [np.where(np.isnan(x), np.nan, np.unique(x, return_inverse=True)[1]) for x in map(floats, (first, second))]

    def area(levels: Floats, of_class: Floats) -> float:
        return _area(levels.astype(np.intp), of_class > 0, np.ones(len(levels)))

    kinds = ((levels, labels) for levels in ranked)
    return paired_difference(*kinds, area, clusters, family_size=family_size, how=how)


def _area(levels: NDArray[np.intp], high: NDArray[np.bool_], weights: Floats) -> float:
    """Weighted share of pairs in which the first class has the higher level, ties half; NaN without both classes."""
    above, below = (np.bincount(levels, weights * of, int(levels.max()) + 1) for of in (high, ~high))
    pairs = above.sum() * below.sum()
    return float(above @ (np.cumsum(below) - below / 2) / pairs) if pairs > 0 else NAN
