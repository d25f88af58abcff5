"""The slope within cells, and how it and the slope between them make the pooled one (METRICS A2b)."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..inference.jackknife import ROUNDING, SINGULAR, jackknifed
from ..inference.power import minimum_detectable
from ..inference.regression import EXACT_SS
from ..inference.rows import cluster_codes, cluster_sums
from ..inference.tails import t_interval
from ..score import NAN, Score
from ..validation import Floats
from .slope import complete_updates


@dataclass(frozen=True, kw_only=True)
class MartingaleWithin(Score):
    """Slope of the update on the prior once each cell has its own intercept.

    M_pooled = between_share x M_between + (1 - between_share) x M_within, exactly.
    """

    headline: ClassVar[str] = "M_within"
    M_within: float = NAN
    M_between: float = NAN
    """Slope over the cells' means, each with the weight of its rows; NaN where they do not differ."""
    M_pooled: float = NAN
    """The Martingale Score of all rows, which mixes the two."""
    between_share: float = NAN
    """Share of the priors' sum of squares that lies between cells, in [0, 1]."""
    t: float = NAN
    df: float = NAN
    effective_clusters: float = NAN
    mde: float = NAN
    """Smallest |M_within| that a test at this level would find with 80% power."""
    n_cells: int = 0


def martingale_within(
    prior: ArrayLike,
    post: ArrayLike,
    groups: ArrayLike | None = None,
    cells: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    level: float = 0.95,
) -> MartingaleWithin:
    """Regress post - prior on prior with an intercept for each cell (METRICS A2b).

    Args:
        prior: [n] beliefs in [0, 1] or NaN.
        post: [n].
        groups: [n] question of each row, the cluster of the errors. None: every row its own.
        cells: [n] cell (domain x reasoning x prompt, ...) of each row. None: one cell, and M_within is M.
        weights: [n] positive.
        level: of the interval.

    Interval and p are CR3 with t(G* - 1): the leverages are those of the priors less their cell's mean, and the means
    are estimated again without each cluster. Statuses: `too_few`, `zero_variance_prior` (within every cell: then
    only M_between and M_pooled are given), `perfect_fit`, and those of `martingale_score` under CR3.
    """
    rows, b, d, w = complete_updates(prior, post, groups, weights)
    labels, _ = cluster_codes(np.zeros(len(rows.kept)) if cells is None else cells, len(rows.kept))
    cell, n_cells = cluster_codes(labels[rows.kept], rows.n)
    common: dict[str, Any] = {**rows.counts, "n_cells": n_cells, "params": {"level": level}}
    if rows.n < 2:
        return MartingaleWithin(status="too_few", **common)
    w = w / w.mean()
    size = cluster_sums(w, cell, n_cells)
    b, d = b - np.average(b, weights=w), d - np.average(d, weights=w)
    mean_b, mean_d = (cluster_sums(w * x, cell, n_cells) / size for x in (b, d))
    x, y = b - mean_b[cell], d - mean_d[cell]
    s_within, s_between = float(w @ x**2), float(size @ mean_b**2)
    xy_within, xy_between = float(w @ (x * y)), float(size @ (mean_b * mean_d))
    total = s_within + s_between
    found = MartingaleWithin(
        M_within=xy_within / s_within if s_within > EXACT_SS else NAN,
        M_between=xy_between / s_between if s_between > EXACT_SS else NAN,
        M_pooled=(xy_within + xy_between) / total if total > EXACT_SS else NAN,
        between_share=s_between / total if total > EXACT_SS else NAN,
        **common,
    )
    if not s_within > EXACT_SS:
        return replace(found, status="zero_variance_prior")
    e = y - found.M_within * x
    if float(w @ e**2) <= EXACT_SS:
        ends = {"ci_lo": found.M_within, "ci_hi": found.M_within, "ci_method": "exact fit"}
        return replace(found, status="perfect_fit", se=0.0, **ends)
    moved = _without_each(np.column_stack([w, w * x, w * e, w * x * x, w * x * e]), rows.codes, cell, size)
    leverage = cluster_sums(w * x**2 / s_within, rows.codes, rows.n_clusters)
    rounding = ROUNDING * float(np.abs(w * x * e).sum()) / s_within
    test = jackknifed(found.M_within, moved, leverage, rounding)
    effective = {"df": test.df, "effective_clusters": test.effective_clusters, "status": test.concern}
    if not test.se > 0:
        return replace(found, **effective)
    lo, hi = t_interval(test.estimate, test.se, test.df, level)
    how = {"ci_method": test.method, "p_method": test.method}
    mde = minimum_detectable(lo, hi, test.se, test.df)
    return replace(found, se=test.se, ci_lo=lo, ci_hi=hi, t=test.t, p=test.p, mde=mde, **how, **effective)


def _without_each(moments: Floats, clusters: np.ndarray, cell: np.ndarray, size: Floats) -> Floats:
    """[G] how far the slope moves without each cluster, from w (1, x, e, xx, xe) [n, 5] with x, e centred by cell.

    A cluster takes from its cells their own sums, and moves their means by what is left of those. A cell that it
    holds alone is gone.
    """
    n_clusters = int(clusters.max()) + 1
    pairs, pair = np.unique(clusters * len(size) + cell, return_inverse=True)
    owner, here = np.divmod(pairs, len(size))
    n, sx, se, sxx, sxe = cluster_sums(moments, pair, len(pairs)).T
    left = size[here] - n
    alone = left <= SINGULAR * size[here]
    left = np.where(alone, np.inf, left)
    taken = cluster_sums(np.column_stack([sxx + sx * sx / left, sxe + sx * se / left]), owner, n_clusters)
    total = moments[:, 3].sum()
    remains = total - taken[:, 0]
    return -taken[:, 1] / np.where(remains > SINGULAR * total, remains, np.nan)
