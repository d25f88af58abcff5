"""The mean of a number over models that are a sample, too, on items that all of them read (METRICS F8)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..score import NAN, Score
from ..validation import Floats, check_level, floats
from .rows import cluster_sums
from .tails import t_interval


@dataclass(frozen=True, kw_only=True)
class CrossedMean(Score):
    """METRICS F8. The interval is for other items and other models."""

    headline: ClassVar[str] = "mean"
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
    level: float = 0.95,
) -> CrossedMean:
    """The mean over models of a function of sums, clustered both ways: by items and by models (METRICS F8).

    Args:
        moments: of each model [n, k]; no NaN.
        clusters: of each model [n] cluster of each row. Every model has the same clusters.
        statistics: of each model, from sums [m, k] to values [m].
        level: of the interval.

    Var = Var over items + Var over models - Var of item x model, each by leaving out: the design is crossed, and
    the noise of a reading is in both of the first two (Cameron, Gelbach and Miller 2011, by components). No less than
    either alone. t by Satterthwaite. Statuses: `one_model`, `one_cluster`, `undefined`.
    """
    check_level(level)
    sums = [floats(own) for own in moments]
    every = np.unique(np.concatenate([np.asarray(own).astype(str) for own in clusters]))
    n, r = len(every), len(sums)
    for own in clusters:
        if len(np.unique(np.asarray(own).astype(str))) < n:
            raise ValueError("clusters: a model lacks some; give the items that every model has read")
    counts: dict[str, Any] = {"n_rows": sum(map(len, sums)), "n_clusters": n, "n_models": r}
    by_cluster = [
        cluster_sums(own, np.searchsorted(every, np.asarray(names).astype(str)), n)
        for own, names in zip(sums, clusters, strict=True)
    ]
    each = list(zip(by_cluster, statistics, strict=True))
    whole = np.array([float(statistic(own.sum(axis=0)[None])[0]) for own, statistic in each])
    mean = float(whole.mean())
    if r < 2 or n < 2 or not np.isfinite(mean):
        status = "undefined" if not np.isfinite(mean) else "one_model" if r < 2 else "one_cluster"
        return CrossedMean(mean=mean, status=status, **counts)
    left = np.stack([statistic(own.sum(axis=0) - own) for own, statistic in each])
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
    lo, hi = t_interval(mean, se, df, level)
    return CrossedMean(
        mean=mean,
        se=se,
        se_items=float(np.sqrt(items)),
        se_models=float(np.sqrt(models)),
        df=df,
        ci_lo=lo,
        ci_hi=hi,
        ci_method=f"t({df:.3g}), clustered by item and by model",
        params={"level": level},
        **counts,
    )
