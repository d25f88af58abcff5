"""What metrics do first and last: drop incomplete rows, put an interval on sums (METRICS 0.2, F1)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import logit

from .resampling import MIN_BOOTSTRAP_CLUSTERS, bootstrap_moments, cluster_codes, percentile_interval
from .score import NAN
from .validation import Floats, probabilities

LOGIT_EPS = 1e-6
"""Probabilities are moved this far off 0 and 1 before log-odds are averaged (METRICS 0.4)."""


def complete_rows(**columns: ArrayLike) -> tuple[list[NDArray[Any]], dict[str, Any]]:
    """Keep the rows where no column is missing; return them and the counts that a Score takes.

    Columns are [n] or [n, ...]. Raises ValueError if their lengths differ.
    """
    arrays = {name: np.atleast_1d(np.asarray(column)) for name, column in columns.items()}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError("lengths differ: " + ", ".join(f"{name} {n}" for name, n in lengths.items()))
    keep = np.ones(next(iter(lengths.values())), dtype=bool)
    for array in arrays.values():
        missing = np.asarray(pd.isna(array))
        keep &= ~missing.any(axis=tuple(range(1, missing.ndim)))
    n_dropped = int((~keep).sum())
    counts = {
        "n_rows": int(keep.sum()),
        "n_dropped": n_dropped,
        "reasons": {"undefined": n_dropped} if n_dropped else {},
    }
    return [array[keep] for array in arrays.values()], counts


def groups_or_rows(groups: ArrayLike | None, n: int) -> NDArray[Any]:
    """The cluster of each row; without groups every row is its own."""
    return np.arange(n) if groups is None else np.asarray(groups)


def moment_interval(
    moments: ArrayLike,
    clusters: ArrayLike,
    statistic: Callable[[Floats], Floats],
    *,
    seed: int,
    draws: int = 2000,
    level: float = 0.95,
) -> dict[str, Any]:
    """Interval fields of a Score for a smooth function of sums over rows (arguments: `bootstrap_moments`).

    Ten clusters or more give a percentile cluster bootstrap. Fewer give a delete-one-cluster jackknife with
    t(G - 1), because a bootstrap of so few is too narrow (METRICS F1). One gives nothing.
    """
    moments = np.asarray(moments, dtype=np.float64)
    codes, n_clusters = cluster_codes(clusters, len(moments))
    if n_clusters < 2:
        return {"n_clusters": n_clusters, "ci_method": "none: one cluster" if n_clusters else ""}
    with np.errstate(divide="ignore", invalid="ignore"):
        if n_clusters < MIN_BOOTSTRAP_CLUSTERS:
            sums = np.zeros((n_clusters, moments.shape[1]))
            np.add.at(sums, codes, moments)
            total = sums.sum(axis=0)
            left_out = statistic(total - sums)
            se = float(np.sqrt((n_clusters - 1) * np.mean((left_out - left_out.mean()) ** 2)))
            half = float(stats.t.ppf((1 + level) / 2, n_clusters - 1)) * se
            point = float(statistic(total[None])[0])
            return {
                "n_clusters": n_clusters,
                "se": se,
                "ci_lo": point - half,
                "ci_hi": point + half,
                "ci_method": f"t over {n_clusters} clusters, jackknife",
                "params": {"level": level},
            }
        resampled = bootstrap_moments(moments, codes, statistic, seed=seed, draws=draws)
    lo, hi = percentile_interval(resampled, level)
    defined = resampled[np.isfinite(resampled)]
    return {
        "n_clusters": n_clusters,
        "se": float(defined.std(ddof=1)) if defined.size > 1 else NAN,
        "ci_lo": lo,
        "ci_hi": hi,
        "ci_method": "percentile cluster bootstrap",
        "params": {"level": level, "draws": draws, "seed": seed},
    }


def clipped_logit(p: ArrayLike, name: str) -> tuple[Floats, int]:
    """Natural log-odds with `LOGIT_EPS` kept off both ends, and how many were moved. NaN in, NaN out."""
    p = probabilities(p, name)
    n_clipped = int(((p < LOGIT_EPS) | (p > 1 - LOGIT_EPS)).sum())
    return logit(np.clip(p, LOGIT_EPS, 1 - LOGIT_EPS)), n_clipped


def posteriors(values: ArrayLike, name: str) -> Floats:
    """Bayesian posteriors, which unclipped may exceed 1 (METRICS D1); negative or infinite ones raise."""
    array = np.asarray(values, dtype=np.float64)
    if np.isinf(array).any() or (array < 0).any():
        raise ValueError(f"{name}: holds a negative or infinite value; give P* or NaN")
    return array
