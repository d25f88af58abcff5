"""Shares of what is or is not so, with intervals that do not collapse where all are alike (METRICS F1)."""

from dataclasses import replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..validation import probabilities
from .means import UNIT, ClusterMean, cluster_mean, few_status
from .rows import cluster_codes

EXACT = "Clopper-Pearson on the effective number of rows"


def cluster_share(
    values: ArrayLike, clusters: ArrayLike, *, seed: int = 0, draws: int = 0, level: float = 0.95
) -> ClusterMean:
    """Share of rows, with the Clopper-Pearson interval on their effective number (Korn and Graubard 1998).

    Args:
        values: [n] 0 or 1, or a share of the credit between them; NaN is dropped and counted.
        clusters: [n], the unit that was sampled.
        seed: nothing is drawn; this and `draws` are there to be called as `cluster_mean` is.
        draws: likewise.
        level: of the interval.

    So many independent rows would have this standard error, at most as many as there are, and fewer as clusters are few
    (t of the rows over t of the clusters, squared). Where all rows are alike there is no standard error, and each
    cluster counts as one row: 60 right of 60 questions is [.940, 1]. `few_effective_clusters`: the rows lie in fewer
    than ten clusters.
    """
    mean = cluster_mean(probabilities(values, "values"), clusters, within=UNIT, seed=seed, draws=1, level=level)
    if mean.n_clusters < 2:
        return mean
    known = np.isfinite(np.asarray(values, dtype=np.float64))
    share, g, n = mean.mean, mean.n_clusters, mean.n_rows
    effective = float(g)
    if mean.se > 0 and 0 < share < 1:
        t_rows, t_clusters = (float(scipy.stats.t.ppf((1 + level) / 2, df)) for df in (n - 1, g - 1))
        effective = min(n, share * (1 - share) / mean.se**2) * (t_rows / t_clusters) ** 2
    yes, no = share * effective, (1 - share) * effective
    lo = float(scipy.stats.beta.ppf((1 - level) / 2, yes, no + 1))
    hi = float(scipy.stats.beta.ppf((1 + level) / 2, yes + 1, no))
    return replace(
        mean,
        ci_lo=0.0 if yes <= 0 else lo,
        ci_hi=1.0 if no <= 0 else hi,
        ci_method=f"{EXACT}, {effective:.3g}",
        status=few_status(cluster_codes(np.asarray(clusters)[known], int(known.sum()))[0]),
        params={"level": level},
    )


def share_difference(up: int, down: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Interval of the difference of two shares of the same n, which exclude each other (Newcombe 1998, method 10).

    Args:
        up: how many are of the one kind.
        down: how many of the other; the rest are of neither.
        n: of all, one or more.
        level: of the interval.

    The distances of both shares from the ends of their Wilson intervals are added in squares, with the correlation that
    two kinds of one count have: where there is no third kind, both ends are those of one share, doubled.
    """
    if min(up, down) < 0 or not 1 <= n >= up + down:
        raise ValueError(f"share_difference: {up} and {down} of {n} are no counts of two kinds")
    p, q = up / n, down / n
    (p_lo, p_hi), (q_lo, q_hi) = (
        scipy.stats.binomtest(k, n).proportion_ci(confidence_level=level, method="wilson") for k in (up, down)
    )
    spread = p * (1 - p) * q * (1 - q)
    together = -p * q / float(np.sqrt(spread)) if spread > 0 else 0.0

    def reach(x: float, y: float) -> float:
        return float(np.sqrt(x * x + y * y - 2 * together * x * y))

    return p - q - reach(p - p_lo, q_hi - q), p - q + reach(p_hi - p, q - q_lo)
