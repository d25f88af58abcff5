"""Two kinds of belief on the same items: does a metric differ between them? (METRICS F, F1, F2, I)

That one kind is significant and the other is not says nothing; the difference and its interval do. The items
of both kinds are resampled together, so what they share cancels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from .multiplicity import adjust
from .resampling import (
    MIN_BOOTSTRAP_CLUSTERS,
    bca_interval,
    bootstrap_moments,
    bootstrap_rows,
    cluster_codes,
    percentile_interval,
)
from .rows import floats, one_of
from .score import NAN, Score
from .validation import Floats

MIN_BCA_CLUSTERS = 30


@dataclass(frozen=True, kw_only=True)
class PairedDifference(Score):
    """A metric of one kind less the same metric of another, on the same items."""

    headline: ClassVar[str] = "difference"
    difference: float = NAN
    first: float = NAN
    second: float = NAN
    p_adjusted: float = NAN
    """Holm over the family that `paired_family` was given."""
    family_size: int = 0


def paired_difference(
    first: Sequence[ArrayLike],
    second: Sequence[ArrayLike],
    statistic: Callable[..., float],
    clusters: ArrayLike,
    *,
    interval: str = "percentile",
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> PairedDifference:
    """Compare any statistic between two aligned sets of rows, by cluster bootstrap (METRICS F1).

    Args:
        first: columns [n, ...], the arguments of `statistic`; for instance (prior, post) of one kind.
        second: the same columns of the other kind, row by row of the same items.
        statistic: maps columns to a number, NaN where undefined. All of it is recomputed in every resample.
        clusters: [n] cluster of each row.
        interval: `percentile`, or `bca` for a smooth statistic of at least thirty clusters.
        level: of the interval.
        draws: resamples. The smallest possible p is 2 / (draws + 1): a large family needs more.
        seed: of the resamples; one seed gives every comparison the same ones.

    A row in which either kind is missing is dropped from both and counted. `p` inverts the percentile
    interval. Below ten clusters, standard error, interval and p are a jackknife over clusters with t(G - 1).
    """
    codes, _ = cluster_codes(clusters, len(np.asarray(clusters)))
    columns = [_columns(kind, len(codes), name) for kind, name in ((first, "first"), (second, "second"))]
    if len(columns[0]) != len(columns[1]):
        raise ValueError(f"columns differ: first {len(columns[0])}, second {len(columns[1])}")
    kept = ~np.logical_or.reduce([_missing(column) for kind in columns for column in kind])
    ours, theirs = ([column[kept] for column in kind] for kind in columns)
    codes, n_clusters = cluster_codes(codes[kept], int(kept.sum()))

    def values(rows: NDArray[Any]) -> tuple[float, float]:
        one, two = (float(statistic(*(column[rows] for column in kind))) for kind in (ours, theirs))
        return one, two

    def difference(rows: NDArray[Any]) -> float:
        one, two = values(rows)
        return one - two

    return _inference(
        lambda: values(np.arange(len(codes))),
        lambda: np.array([difference(np.flatnonzero(codes != g)) for g in range(n_clusters)]),
        lambda: bootstrap_rows(difference, codes, seed=seed, draws=draws),
        n_clusters=n_clusters,
        kept=kept,
        settings={"interval": interval, "level": level, "draws": draws, "seed": seed},
    )


def paired_difference_moments(
    first: ArrayLike,
    second: ArrayLike,
    statistic: Callable[[Floats], Floats],
    clusters: ArrayLike,
    *,
    interval: str = "percentile",
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> PairedDifference:
    """The same for a statistic of sums over rows, without a loop.

    `first` and `second` are moments [n, k]; `statistic` maps their sums [draws, k] to values [draws]. The
    same seed takes the same resamples as `paired_difference`.
    """
    first, second = floats(first), floats(second)
    if first.ndim != 2 or first.shape != second.shape:
        raise ValueError(f"moments: first {first.shape}, second {second.shape}; give [n, k] twice")
    codes, _ = cluster_codes(clusters, len(first))
    kept = ~(_missing(first) | _missing(second))
    both = np.hstack([first, second])[kept]
    codes, n_clusters = cluster_codes(codes[kept], int(kept.sum()))
    k = first.shape[1]

    def values(sums: Floats) -> tuple[Floats, Floats]:
        return statistic(sums[:, :k]), statistic(sums[:, k:])

    def difference(sums: Floats) -> Floats:
        one, two = values(sums)
        return one - two

    def left_out() -> Floats:
        per_cluster = np.zeros((n_clusters, 2 * k))
        np.add.at(per_cluster, codes, both)
        return difference(per_cluster.sum(axis=0) - per_cluster)

    def whole() -> tuple[float, float]:
        one, two = values(both.sum(axis=0)[None])
        return float(one[0]), float(two[0])

    return _inference(
        whole,
        left_out,
        lambda: bootstrap_moments(both, codes, difference, seed=seed, draws=draws),
        n_clusters=n_clusters,
        kept=kept,
        settings={"interval": interval, "level": level, "draws": draws, "seed": seed},
    )


def paired_family(comparisons: Mapping[str, PairedDifference]) -> dict[str, PairedDifference]:
    """Adjust the p of all comparisons that are reported together, by Holm (METRICS F2)."""
    adjusted = adjust([comparison.p for comparison in comparisons.values()])
    return {
        name: replace(comparison, p_adjusted=float(p), family_size=adjusted.family_size)
        for (name, comparison), p in zip(comparisons.items(), adjusted.p_adjusted, strict=True)
    }


def _inference(
    values: Callable[[], tuple[float, float]],
    left_out: Callable[[], Floats],
    resample: Callable[[], Floats],
    *,
    n_clusters: int,
    kept: NDArray[np.bool_],
    settings: dict[str, Any],
) -> PairedDifference:
    one_of(settings["interval"], ("percentile", "bca"), "interval")
    n_dropped = int((~kept).sum())
    counts: dict[str, Any] = {
        "n_rows": int(kept.sum()),
        "n_clusters": n_clusters,
        "n_dropped": n_dropped,
        "reasons": {"undefined": n_dropped} if n_dropped else {},
    }
    if not kept.any():
        return PairedDifference(status="too_few", **counts)
    first, second = values()
    difference = first - second
    found: dict[str, Any] = {"difference": difference, "first": first, "second": second, **counts}
    if not np.isfinite(difference):
        return PairedDifference(status="undefined", **found)
    if n_clusters < 2:
        return PairedDifference(status="one_cluster", **found)
    how = (
        _by_jackknife(difference, left_out(), settings["level"])
        if n_clusters < MIN_BOOTSTRAP_CLUSTERS
        else _by_bootstrap(difference, resample(), left_out, n_clusters, settings)
    )
    return PairedDifference(**(found | how))


def _by_jackknife(difference: float, without: Floats, level: float) -> dict[str, Any]:
    """Fields from the values without each cluster [G]."""
    g = len(without)
    se = float(np.sqrt((g - 1) / g * ((without - without.mean()) ** 2).sum()))
    if not np.isfinite(se):  # the statistic hangs on one cluster
        return {"status": "undefined"}
    reach = float(stats.t.ppf((1 + level) / 2, g - 1)) * se
    found: dict[str, Any] = {
        "se": se,
        "ci_lo": difference - reach,
        "ci_hi": difference + reach,
        "ci_method": f"jackknife, t({g - 1})",
        "params": {"level": level},
    }
    if se > 0:
        found |= {
            "p": float(2 * stats.t.sf(abs(difference) / se, g - 1)),
            "p_method": f"jackknife, t({g - 1})",
        }
    return found


def _by_bootstrap(
    difference: float,
    drawn: Floats,
    left_out: Callable[[], Floats],
    n_clusters: int,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """Fields from the resampled values [draws]."""
    defined = drawn[np.isfinite(drawn)]
    if len(defined) < 2:
        return {"status": "undefined"}
    if settings["interval"] == "bca" and n_clusters >= MIN_BCA_CLUSTERS:
        lo, hi = bca_interval(drawn, difference, left_out(), settings["level"])
        ci_method = "BCa cluster bootstrap"
    else:
        lo, hi = percentile_interval(drawn, settings["level"])
        ci_method = "percentile cluster bootstrap"
    tails = [int((defined <= 0).sum()), int((defined >= 0).sum())]
    return {
        "se": float(defined.std(ddof=1)),
        "ci_lo": lo,
        "ci_hi": hi,
        "ci_method": ci_method,
        "p": min(1.0, 2 * (min(tails) + 1) / (len(defined) + 1)),
        "p_method": "percentile cluster bootstrap, inverted",
        "params": settings | {"undefined_draws": len(drawn) - len(defined)},
    }


def _columns(kind: Sequence[ArrayLike], n: int, name: str) -> list[NDArray[Any]]:
    columns = [np.asarray(column) for column in kind]
    for i, column in enumerate(columns):
        if column.ndim == 0 or len(column) != n:
            raise ValueError(f"{name}[{i}]: shape {column.shape} for {n} clusters; give one row per item")
    return columns


def _missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    """[n] whether a row has a hole."""
    holes = np.asarray(pd.isna(column))
    return np.any(holes, axis=tuple(range(1, holes.ndim)))
