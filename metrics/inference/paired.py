"""Two kinds of belief on the same items: does a metric differ between them (METRICS F1, I), in a family of many
tests (METRICS F2), and what could have been found?
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..contract import NAN, RESAMPLING, Floats, Resampling, Score, floats, one_of, probabilities, row_counts
from .clusters import Rows, bootstrap_rows, complete_rows
from .intervals import Interval, cluster_interval, largest_share, moment_interval


class Adjusted(Score, headline="p_adjusted"):
    """The p-values of one family, adjusted."""

    p_adjusted: Floats
    reject: NDArray[np.bool_]
    family_size: int
    """Tests that have a p-value; to be printed with every adjusted p."""


def adjust(p_values: ArrayLike, *, method: str = "holm", alpha: float = 0.05) -> Adjusted:
    """Adjust the p-values [m] of one family: `holm` to confirm, `bh` to explore (METRICS F2).

    A NaN p is a test that could not be made: it stays NaN, rejects nothing, and is not of the family.
    """
    one_of(method, ("holm", "bh"), "method")
    p_values = probabilities(floats(p_values), "p_values")
    if p_values.ndim != 1:
        raise ValueError(f"p_values: shape {p_values.shape}; give [m], one family")
    defined = np.isfinite(p_values)
    adjusted = np.full(p_values.shape, np.nan)
    if defined.any():
        of_family = p_values[defined]
        adjusted[defined] = _holm(of_family) if method == "holm" else scipy.stats.false_discovery_control(of_family)
    n_undefined = int((~defined).sum())
    return Adjusted(
        p_adjusted=adjusted,
        reject=adjusted <= alpha,
        family_size=int(defined.sum()),
        **row_counts(int(defined.sum()), n_undefined),
        status="ok" if defined.any() else "too_few",
        params={"method": method, "alpha": alpha},
    )


def _holm(p: Floats) -> Floats:
    # By hand: statsmodels' multipletests collects garbage on every call, which is slow beside a model.
    order = np.argsort(p)
    steps = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


# What a study of this size could have found (METRICS A2, I).

POWER = 0.8
"""Of a study that is called able to find an effect."""


def minimum_detectable(ci_lo: float, ci_hi: float, se: float, df: float = np.inf) -> float:
    """The smallest size of an effect that a two-sided test is 80% sure to find: half its interval and t_.8 standard
    errors. The level is that of the interval; without one the size is NaN.
    """
    return (ci_hi - ci_lo) / 2 + float(scipy.stats.t.ppf(POWER, df)) * se


# Two kinds of belief on the same items: does a metric differ between them? (METRICS F, F1, F2, I)
#
# That one kind is significant and the other is not says nothing; the difference and its interval do. The items
# of both kinds are resampled together, so what they share cancels.

K = TypeVar("K")
DRAWS_PER_TEST = 800
"""Draws for each test of a family: forty times what Holm's first step needs at 5%."""


class PairedDifference(Score, headline="difference"):
    """A metric of one kind less the same metric of another, on the same items."""

    difference: float = NAN
    first: float = NAN
    second: float = NAN
    p_adjusted: float = NAN
    """Over the family that `paired_family` was given, by Holm if nothing else is said."""
    family_size: int = 0
    mde: float = NAN
    """Smallest size of a difference that a test at this level would find with 80% power."""
    n_only_first: int = 0
    """Rows that the first kind has and the second lacks, where that is known: they are in neither number."""
    n_only_second: int = 0
    n_copies: int = 0
    """Clusters that hold the same values as another, under another name: they are counted once, where that is known."""
    lowest: float = NAN
    """The difference had the rows that lack a value been as low as there can be, where more than 2% do."""
    highest: float = NAN
    df: float = NAN
    """Degrees of freedom of the t that no interval is shorter than."""
    effective_clusters: float = NAN
    """Clusters that carry the difference."""
    p_at_floor: bool = False
    """No resample reaches zero: p is the smallest that so many draws can give, and to be printed with "<="."""


def paired_difference(
    first: Sequence[ArrayLike],
    second: Sequence[ArrayLike],
    statistic: Callable[..., float],
    clusters: ArrayLike,
    *,
    interval: str = "percentile",
    family_size: int = 1,
    how: Resampling = RESAMPLING,
) -> PairedDifference:
    """Compare any statistic between two aligned sets of rows, by cluster bootstrap (METRICS F1).

    Args:
        first: columns [n, ...], the arguments of `statistic`; for instance (prior, post) of one kind.
        second: the same columns of the other kind, row by row of the same items.
        statistic: maps columns to a number, NaN where undefined. All of it is recomputed in every resample.
        clusters: [n] cluster of each row.
        interval: `percentile`, or `bca` for a smooth statistic of at least thirty clusters.
        family_size: comparisons m that will be adjusted together. There are at least 800 m draws, for a p smaller
            than about 2 / (draws + 1) is not to be had, and Holm multiplies it by m.

    A row in which either kind is missing is dropped from both and counted. `p` inverts the interval: it is below
    1 - level if and only if the interval leaves zero out. Neither end lies nearer than that of the cluster jackknife
    (CR3) with t(G* - 1), which is all there is below ten clusters; G* counts clusters by the rows that they hold, and
    below ten the status is `few_effective_clusters`.
    """
    how = replace(how, draws=family_draws(how.n_draws, family_size))
    n = len(np.asarray(clusters))
    columns = [_columns(kind, n, name) for kind, name in ((first, "first"), (second, "second"))]
    k = len(columns[0])
    if len(columns[1]) != k:
        raise ValueError(f"columns differ: first {k}, second {len(columns[1])}")
    rows = complete_rows(clusters, **{str(i): column for i, column in enumerate(columns[0] + columns[1])})

    def values(picked: NDArray[Any]) -> tuple[float, float]:
        of_one_kind, of_other = (
            float(statistic(*(c[picked] for c in kind))) for kind in (rows.columns[:k], rows.columns[k:])
        )
        return of_one_kind, of_other

    def difference(picked: NDArray[Any]) -> float:
        of_one_kind, of_other = values(picked)
        return of_one_kind - of_other

    def made(estimate: float) -> Interval:
        return cluster_interval(
            estimate,
            rows.n_clusters,
            left_out=lambda: np.array([difference(np.flatnonzero(rows.codes != g)) for g in range(rows.n_clusters)]),
            resample=lambda: bootstrap_rows(difference, rows.codes, how=how),
            kind=interval,
            largest=largest_share(rows.codes),
            shares=np.bincount(rows.codes) / rows.n,
            how=how,
        )

    return _compared(rows, lambda: values(np.arange(rows.n)), made, interval)


def paired_difference_moments(
    first: ArrayLike,
    second: ArrayLike,
    statistic: Callable[[Floats], Floats],
    clusters: ArrayLike,
    *,
    interval: str = "percentile",
    family_size: int = 1,
    how: Resampling = RESAMPLING,
) -> PairedDifference:
    """The same for a statistic of sums over rows, without a loop.

    `first` and `second` are moments [n, k]; `statistic` maps their sums [draws, k] to values [draws]. The
    same seed takes the same resamples as `paired_difference`.
    """
    how = replace(how, draws=family_draws(how.n_draws, family_size))
    first, second = floats(first), floats(second)
    if first.ndim != 2 or first.shape != second.shape:
        raise ValueError(f"moments: first {first.shape}, second {second.shape}; give [n, k] twice")
    rows = complete_rows(clusters, both=np.hstack([first, second]))
    (both,) = rows.columns
    k = first.shape[1]

    def values() -> tuple[float, float]:
        total = both.sum(axis=0)[None]
        return float(statistic(total[:, :k])[0]), float(statistic(total[:, k:])[0])

    def difference(sums: Floats) -> Floats:
        return statistic(sums[:, :k]) - statistic(sums[:, k:])

    def made(_: float) -> Interval:
        return moment_interval(both, rows.codes, difference, kind=interval, weights=np.ones(rows.n), how=how)

    return _compared(rows, values, made, interval)


def paired_family(comparisons: Mapping[K, PairedDifference], method: str = "holm") -> dict[K, PairedDifference]:
    """Adjust the p of all comparisons that are reported together, by Holm, or `bh` to explore (METRICS F2)."""
    adjusted = adjust([comparison.p for comparison in comparisons.values()], method=method)
    return {
        name: replace(comparison, p_adjusted=float(p), family_size=adjusted.family_size)
        for (name, comparison), p in zip(comparisons.items(), adjusted.p_adjusted, strict=True)
    }


def family_draws(draws: int, family_size: int) -> int:
    """How many draws a comparison takes that is one of so many."""
    if family_size < 1:
        raise ValueError(f"family_size: {family_size}; give one comparison or more")
    return max(draws, DRAWS_PER_TEST * family_size if family_size > 1 else 0)


def _compared(
    rows: Rows, values: Callable[[], tuple[float, float]], interval_at: Callable[[float], Interval], kind: str
) -> PairedDifference:
    """The result, from the values of both kinds and what makes the interval of an estimate."""
    if not rows.n:
        return PairedDifference(status="too_few", **rows.counts)
    first, second = values()
    difference = first - second
    fields: dict[str, Any] = {"difference": difference, "first": first, "second": second, **rows.counts}
    if not np.isfinite(difference):
        return PairedDifference(status="undefined", **fields)
    if rows.n_clusters < 2:
        return PairedDifference(status="one_cluster", **fields)
    interval = interval_at(difference)
    settings: dict[str, Any] = {}
    if interval.drawn is not None:
        settings = {"interval": kind, "undefined_draws": int((~np.isfinite(interval.drawn)).sum())}
    fields |= interval.fields(**settings) | interval.test_of_zero(difference)
    fields["p_at_floor"] = interval.at_floor(fields.get("p", NAN))
    df = interval.df if np.isfinite(interval.df) else np.inf
    fields |= {"df": df, "effective_clusters": interval.effective}
    if interval.se > 0:  # else no item differs, and nothing tells how far another would
        fields["mde"] = minimum_detectable(interval.lo, interval.hi, interval.se, df)
    status = "zero_cluster_variance" if interval.se == 0 else interval.concern
    return PairedDifference(**fields, status=status if np.isfinite(interval.se) else "undefined")


def _columns(kind: Sequence[ArrayLike], n: int, name: str) -> list[NDArray[Any]]:
    columns = [np.asarray(column) for column in kind]
    for i, column in enumerate(columns):
        if column.ndim == 0 or len(column) != n:
            raise ValueError(f"{name}[{i}]: shape {column.shape} for {n} clusters; give one row per item")
    return columns
