"""One effect from several cells that need not share one (METRICS F6), from models that are a sample, too (METRICS F8),
or from runs with several seeds (METRICS F10).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..contract import NAN, RESAMPLING, Floats, Resampling, Score, floats, refuse
from .clusters import cluster_sums, complete_numbers
from .intervals import t_interval


class Pooled(Score, headline="pooled"):
    """A random-effects mean."""

    pooled: float = NAN
    tau2: float = NAN
    """Variance of the true effects between cells."""
    Q: float = NAN
    p_heterogeneity: float = NAN
    i2: float = NAN
    """Share of the observed variation that is between cells, in [0, 1]."""
    pi_lo: float = NAN
    pi_hi: float = NAN
    """Where the effect of a new cell would lie; needs three cells."""
    se_hksj: float = NAN
    """Hartung-Knapp standard error, never below `se`: the one in the interval."""


def random_effects_pool(est: ArrayLike, se: ArrayLike, *, how: Resampling = RESAMPLING) -> Pooled:
    """Pool cell estimates [k] with standard errors [k] (METRICS F6; DerSimonian and Laird).

    `tau2` is cut at zero. `se` is the usual one; interval and p use the Hartung-Knapp standard error and
    t(k - 1), because the usual one takes `tau2` for known. Prediction interval by t(k - 2). A cell whose
    estimate or standard error is undefined, or whose standard error is zero, is dropped and counted. Cells
    must not share items: pool shared items by clusters instead.
    """
    est, se = floats(est), floats(se)
    refuse(se, se < 0, "se:", " is negative")
    rows = complete_numbers(est=est, se=np.where(se > 0, se, np.nan))
    y, s = rows.columns
    k = rows.n
    if k < 2:
        return Pooled(status="too_few", **rows.counts)
    # statsmodels' combine_effects lets a negative tau2 into the weights; hence by hand.
    fixed = 1 / s**2
    q = float(fixed @ (y - np.average(y, weights=fixed)) ** 2)
    tau2 = max(0.0, (q - (k - 1)) / float(fixed.sum() - (fixed**2).sum() / fixed.sum()))
    w = 1 / (s**2 + tau2)
    pooled = float(np.average(y, weights=w))
    error = float(1 / np.sqrt(w.sum()))
    scale = float(w @ (y - pooled) ** 2) / (k - 1)
    error_hksj = error * float(np.sqrt(max(1.0, scale)))
    lo, hi = t_interval(pooled, error_hksj, k - 1, how.level)
    pi_lo, pi_hi = t_interval(pooled, float(np.sqrt(tau2 + error_hksj**2)), k - 2, how.level) if k > 2 else (NAN, NAN)
    return Pooled(
        pooled=pooled,
        tau2=tau2,
        Q=q,
        p_heterogeneity=float(scipy.stats.chi2.sf(q, k - 1)),
        i2=max(0.0, 1 - (k - 1) / q) if q > 0 else 0.0,
        pi_lo=pi_lo,
        pi_hi=pi_hi,
        se=error,
        se_hksj=error_hksj,
        ci_lo=lo,
        ci_hi=hi,
        ci_method=f"Hartung-Knapp, t({k - 1})",
        p=float(2 * scipy.stats.t.sf(abs(pooled) / error_hksj, k - 1)),
        p_method=f"Hartung-Knapp, t({k - 1})",
        params={"level": how.level},
        **rows.counts,
    )


# The mean of a number over models that are a sample, too, on items that all of them read (METRICS F8).


class CrossedMean(Score, headline="mean"):
    """METRICS F8. The interval is for other items and other models."""

    mean: float = NAN
    """Over models, which weigh the same."""
    se_items: float = NAN
    """Were these models all that there are."""
    se_models: float = NAN
    """Were these items all that there are."""
    df: float = NAN
    n_models: int = 0


def crossed_mean(
    moments: Sequence[ArrayLike],
    clusters: Sequence[ArrayLike],
    statistics: Sequence[Callable[[Floats], Floats]],
    *,
    how: Resampling = RESAMPLING,
) -> CrossedMean:
    """The mean over models of a function of sums, clustered both ways: by items and by models (METRICS F8).

    Args:
        moments: of each model [n, k]; no NaN.
        clusters: of each model [n] cluster of each row. Every model has the same clusters.
        statistics: of each model, from sums [m, k] to values [m].

    Var = Var over items + Var over models - Var of item x model, each by leaving out: the design is crossed, and
    the noise of a reading is in both of the first two (Cameron, Gelbach and Miller 2011, by components). No less than
    either alone. t by Satterthwaite. Statuses: `one_model`, `one_cluster`, `undefined`.
    """
    sums = [floats(run) for run in moments]
    every = np.unique(np.concatenate([np.asarray(run).astype(str) for run in clusters]))
    n, r = len(every), len(sums)
    for run in clusters:
        if len(np.unique(np.asarray(run).astype(str))) < n:
            raise ValueError("clusters: a model lacks some; give the items that every model has read")
    counts: dict[str, Any] = {"n_rows": sum(map(len, sums)), "n_clusters": n, "n_models": r}
    by_cluster = [
        cluster_sums(run, np.searchsorted(every, np.asarray(names).astype(str)), n)
        for run, names in zip(sums, clusters, strict=True)
    ]
    each = list(zip(by_cluster, statistics, strict=True))
    whole = np.array([float(statistic(run.sum(axis=0)[None])[0]) for run, statistic in each])
    mean = float(whole.mean())
    if r < 2 or n < 2 or not np.isfinite(mean):
        status = "undefined" if not np.isfinite(mean) else "one_model" if r < 2 else "one_cluster"
        return CrossedMean(mean=mean, status=status, **counts)
    left = np.stack([statistic(run.sum(axis=0) - run) for run, statistic in each])
    moved = left - whole[:, None]
    shared = moved.mean(axis=0)
    items = (n - 1) / n * float((shared**2).sum())
    models = float(((whole - mean) ** 2).sum()) / (r * (r - 1))
    alone = (n - 1) / n * float(((moved - shared) ** 2).sum()) / (r * (r - 1))
    variance = max(items + models - alone, items, models)
    if not (np.isfinite(variance) and variance > 0):
        return CrossedMean(mean=mean, status="undefined", **counts)
    df = max(variance**2 / (items**2 / (n - 1) + models**2 / (r - 1)), float(min(n, r) - 1))
    se = float(np.sqrt(variance))
    lo, hi = t_interval(mean, se, df, how.level)
    return CrossedMean(
        mean=mean,
        se=se,
        se_items=float(np.sqrt(items)),
        se_models=float(np.sqrt(models)),
        df=df,
        ci_lo=lo,
        ci_hi=hi,
        ci_method=f"t({df:.3g}), clustered by item and by model",
        params={"level": how.level},
        **counts,
    )


# The mean of a number over runs that differ in their seed alone (METRICS F10).


class SeedMean(Score, headline="mean"):
    """METRICS F10. The interval is for other items and other seeds."""

    mean: float = NAN
    """Over seeds, which weigh the same."""
    between: float = NAN
    """Variance of the estimates between seeds; needs two."""
    within: float = NAN
    """Mean square of their standard errors."""
    df: float = NAN
    n_seeds: int = 0

    @property
    def sd(self) -> float:
        """Standard deviation between seeds, in the units of the number."""
        return float(np.sqrt(self.between))


def mean_over_seeds(
    est: ArrayLike, se: ArrayLike, n_clusters: ArrayLike, n_rows: ArrayLike = 0, *, how: Resampling = RESAMPLING
) -> SeedMean:
    """The mean of the estimates [k] of runs that differ in their seed, with its error (METRICS F10).

    Args:
        est: estimates; NaN is dropped and counted.
        se: standard error of each, over its items; one that is not known leaves the mean without an interval.
        n_clusters: clusters of items of each.
        n_rows: rows of each.

    The variance is that of one run's items, which seeds may share, and does not fall with their number, and that
    between seeds over theirs: within + between / k. It is right where all seeds read the same items and too large
    where each has some of its own; t by Satterthwaite. Statuses: `one_seed`, `undefined`, `no_error`.
    """
    y, s, n = floats(est), floats(se), floats(n_clusters)
    rows = np.broadcast_to(floats(n_rows), y.shape)
    refuse(s, s < 0, "se:", " is negative")
    known = np.isfinite(y)
    y, s, n, k = y[known], s[known], n[known], int(known.sum())
    counts: dict[str, Any] = {"n_dropped": int((~known).sum()), "n_seeds": k, "n_rows": int(rows[known].sum())}
    if not k:
        return SeedMean(status="undefined", **counts)
    mean, within = float(y.mean()), float((s**2).mean())
    between = float(y.var(ddof=1)) if k > 1 else NAN
    counts |= {"mean": mean, "within": within, "between": between, "n_clusters": int(n.max())}
    if k < 2:
        return SeedMean(status="one_seed", **counts)
    items = float(n.min()) - 1
    variance = within + between / k
    if not (np.isfinite(variance) and variance > 0 and items > 0):
        return SeedMean(status="no_error", **counts)
    df = variance**2 / (within**2 / items + (between / k) ** 2 / (k - 1))
    error = float(np.sqrt(variance))
    lo, hi = t_interval(mean, error, df, how.level)
    fields: dict[str, Any] = {
        "ci_lo": lo,
        "ci_hi": hi,
        "ci_method": f"t({df:.3g}), items and {k} seeds",
        "params": {"level": how.level},
    }
    return SeedMean(se=error, df=df, **fields, **counts)
