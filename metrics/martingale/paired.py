"""Two slopes on the same questions, compared (METRICS A2, Paired model comparison)."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..inference.paired import PairedDifference
from ..inference.power import minimum_detectable
from ..inference.regression import EXACT_SS, linear_fit
from ..inference.rows import cluster_codes, complete_numbers
from ..inference.tails import t_interval
from ..score import NAN
from ..validation import probabilities


@dataclass(frozen=True, kw_only=True)
class SlopeDifference(PairedDifference):
    """The Martingale Score of one kind less that of another, on the same questions."""

    headline: ClassVar[str] = "difference"
    t: float = NAN


def paired_slope_difference(
    first: tuple[ArrayLike, ArrayLike],
    second: tuple[ArrayLike, ArrayLike],
    groups: ArrayLike | None = None,
    *,
    cells: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    level: float = 0.95,
) -> SlopeDifference:
    """Test by CR3 that two kinds of belief have the same slope (METRICS A2).

    Args:
        first: (prior, post), each [n], of one kind.
        second: the same of the other kind, row by row of the same items.
        groups: [n] question of each row. None: every row its own.
        cells: [n] cell of each row; given, the slopes are those within cells (METRICS A2b).
        weights: [n] positive, of both.
        level: of the interval.

    Both regressions lose a question together, so what the kinds share cancels. t has the degrees of freedom of the
    questions that carry the difference, so that no number of draws puts a floor under p; priors near 0 are what it
    is for. A row in which either kind is missing is dropped from both and counted. Statuses as in `martingale_score`.
    """
    names = ("prior", "post")
    columns: dict[str, Any] = {
        f"{kind} {name}": probabilities(x, f"{kind} {name}")
        for kind, pair in (("first", first), ("second", second))
        for name, x in zip(names, pair, strict=True)
    }
    w = np.ones(len(np.atleast_1d(columns["first prior"]))) if weights is None else np.asarray(weights, dtype=float)
    if not (w > 0).all():
        raise ValueError("weights: give positive numbers, one per row")
    rows = complete_numbers(groups, **columns, weights=w)
    b1, q1, b2, q2, w = rows.columns
    if rows.n < 2:
        return SlopeDifference(status="too_few", **rows.counts)
    n = len(rows.kept)
    cell, n_cells = cluster_codes(cluster_codes(np.zeros(n) if cells is None else cells, n)[0][rows.kept], rows.n)
    member = np.eye(n_cells)[cell]
    within = [b - ((w * b) @ member / (w @ member))[cell] for b in (b1, b2)]
    if min(float(w @ x**2) for x in within) <= EXACT_SS:
        return SlopeDifference(status="zero_variance_prior", **rows.counts)
    none = np.zeros((rows.n, 1 + n_cells))
    kinds = [np.column_stack([b1, member, none]), np.column_stack([none, b2, member])]
    updates = np.concatenate([q1 - b1, q2 - b2])
    fit = linear_fit(updates, np.vstack(kinds), se="CR3", codes=np.tile(rows.codes, 2), weights=np.tile(w, 2))
    if fit.status == "rank_deficient":
        return SlopeDifference(status="zero_variance_prior", **rows.counts)
    slopes = [0, 1 + n_cells]
    contrast = np.zeros(2 + 2 * n_cells)
    contrast[slopes] = 1.0, -1.0
    found = fit.contrast(contrast)
    score = SlopeDifference(
        difference=found.estimate,
        first=float(fit.params[slopes[0]]),
        second=float(fit.params[slopes[1]]),
        effective_clusters=found.effective_clusters,
        df=found.df,
        status=found.concern if fit.status == "ok" else fit.status,
        params={"level": level},
        **rows.counts,
    )
    if not found.se > 0:
        return score
    lo, hi = t_interval(found.estimate, found.se, found.df, level)
    how = {"ci_method": found.method, "p_method": found.method}
    mde = minimum_detectable(lo, hi, found.se, found.df)
    return replace(score, se=found.se, ci_lo=lo, ci_hi=hi, t=found.t, p=found.p, mde=mde, **how)
