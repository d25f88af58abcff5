"""Martingale slopes within cells (METRICS A2b), by level of a factor (METRICS A6), and between two kinds of belief
on the same questions (METRICS A2).
"""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..contract import NAN, RESAMPLING, Floats, Resampling, Score, probabilities, updates
from ..inference.clusters import Rows, cluster_codes, cluster_sums, complete_beliefs, complete_numbers
from ..inference.intervals import contrast_fields
from ..inference.paired import PairedDifference, minimum_detectable
from ..inference.randomisation import wild_cluster_test
from ..inference.regression import EXACT_SS, ROUNDING, SINGULAR, errors, jackknifed, linear_fit
from .slope import FEW_CLUSTERS, FEWEST_CLUSTERS, complete_updates


class MartingaleWithin(Score, headline="M_within"):
    """Slope of the update on the prior once each cell has its own intercept.

    M_pooled = between_share x M_between + (1 - between_share) x M_within, exactly.
    """

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
    how: Resampling = RESAMPLING,
) -> MartingaleWithin:
    """Regress post - prior on prior with an intercept for each cell (METRICS A2b).

    Args:
        prior: [n] beliefs in [0, 1] or NaN.
        post: [n].
        groups: [n] question of each row, the cluster of the errors. None: every row its own.
        cells: [n] cell (domain x reasoning x prompt, ...) of each row. None: one cell, and M_within is M.
        weights: [n] positive.

    Interval and p are CR3 with t(G* - 1): the leverages are those of the priors less their cell's mean, and the means
    are estimated again without each cluster. Statuses: `too_few`, `zero_variance_prior` (within every cell: then
    only M_between and M_pooled are given), `perfect_fit`, and those of `martingale_score` under CR3.
    """
    rows, b, d, w = complete_updates(prior, post, groups, weights)
    labels, _ = cluster_codes(np.zeros(len(rows.kept)) if cells is None else cells, len(rows.kept))
    cell, n_cells = cluster_codes(labels[rows.kept], rows.n)
    common: dict[str, Any] = {**rows.counts, "n_cells": n_cells, "params": {"level": how.level}}
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
    score = MartingaleWithin(
        M_within=xy_within / s_within if s_within > EXACT_SS else NAN,
        M_between=xy_between / s_between if s_between > EXACT_SS else NAN,
        M_pooled=(xy_within + xy_between) / total if total > EXACT_SS else NAN,
        between_share=s_between / total if total > EXACT_SS else NAN,
        **common,
    )
    if not s_within > EXACT_SS:
        return replace(score, status="zero_variance_prior")
    e = y - score.M_within * x
    if float(w @ e**2) <= EXACT_SS:
        ends = {"ci_lo": score.M_within, "ci_hi": score.M_within, "ci_method": "exact fit"}
        return replace(score, status="perfect_fit", se=0.0, **ends)
    moved = _without_each(np.column_stack([w, w * x, w * e, w * x * x, w * x * e]), rows.codes, cell, size)
    leverage = cluster_sums(w * x**2 / s_within, rows.codes, rows.n_clusters)
    rounding = ROUNDING * float(np.abs(w * x * e).sum()) / s_within
    test = jackknifed(score.M_within, moved, leverage, rounding)
    score = replace(score, status=test.concern, **contrast_fields(test, how.level))
    return replace(score, mde=minimum_detectable(score.ci_lo, score.ci_hi, test.se, test.df))


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


# How the Martingale Score changes with model, domain or technique (METRICS A6).

MIN_CLUSTERS = 2
"""That a level must lie in for an error of its own."""


class Term(Score, headline="value"):
    """One coefficient, or one combination of them."""

    value: float = NAN
    t: float = NAN
    df: float = NAN
    effective_clusters: float = NAN
    """Clusters that carry this term (METRICS A2); defined under CR3."""
    p_wild: float = NAN
    """Restricted wild cluster bootstrap; of `b:factor[level]` with CR1 below forty clusters."""


class FactorRegression(Score, headline="slope"):
    """Slopes by factor level (METRICS A6). `result["b:domain[law]"]` is a coefficient by name."""

    slope: float = NAN
    """The Martingale Score at all the baselines: the coefficient `b`."""
    coefficients: Mapping[str, float] = field(default_factory=dict)
    """By name: `const`, `b`, then `factor[level]` and `b:factor[level]`."""
    terms: Mapping[str, Term] = field(default_factory=dict)
    """The same names, with standard error, interval, t and p."""
    marginal: Mapping[str, Term] = field(default_factory=dict)
    """`factor[level]`, baselines too: the mean slope over all rows, had they all had that level."""
    r2: float = NAN

    def __getitem__(self, name: str) -> float:
        """The coefficient of that name."""
        return self.coefficients[name]

    def as_dict(self) -> dict[str, Any]:
        """Every field by name, and every coefficient by its own."""
        return super().as_dict() | dict(self.coefficients)


def factor_regression(
    delta: ArrayLike,
    prior: ArrayLike,
    factors: Mapping[str, ArrayLike],
    baselines: Mapping[str, object],
    groups: ArrayLike | None = None,
    *,
    se: str | None = None,
    how: Resampling = RESAMPLING,
) -> FactorRegression:
    """Regress updates on the prior, with its own intercept and slope for each level (METRICS A6; eq. 7).

    Args:
        delta: [n] updates, post - prior; NaN is missing.
        prior: [n] beliefs in [0, 1].
        factors: factor -> [n] level of each row, treatment coded; every row needs its level.
        baselines: factor -> the level that the others are compared with.
        groups: [n] question of each row; models and prompts that share questions share the group.
        se: `CR3` (default with groups; each term with the clusters that carry it), `CR1`, `HC3`, or `iid` (default
            without groups).

    The coefficients say how slopes differ between levels; only a factor that was assigned makes that an
    effect. A level whose priors do not vary leaves the regression `rank_deficient`: all NaN. A level within
    one cluster has estimates but no error of its own (`one_cluster_level`). A term that fewer than ten clusters carry
    says `few_effective_clusters`; the status of the whole is that of `b`. With CR1, `few_clusters`: below fifteen
    no test of a slope holds its level.
    """
    how = how.drawing(4999)
    se = errors(se, groups)
    rows = complete_numbers(groups, delta=updates(delta, "delta"), prior=probabilities(prior, "prior"))
    d, b = rows.columns
    names, columns = ["const", "b"], [np.ones(rows.n), b]
    dummies: dict[str, Floats] = {}
    levels_of: dict[str, list[str]] = {}
    for factor, (baseline, labels) in _levels(factors, baselines, len(rows.kept)).items():
        here = labels[rows.kept]
        others = sorted(set(labels) - {baseline})
        levels_of[factor] = [baseline, *others]
        for other in others:
            name = f"{factor}[{other}]"
            dummies[name] = (here == other).astype(np.float64)
            names += [name, f"b:{name}"]
            columns += [dummies[name], dummies[name] * b]
    design = np.column_stack(columns)
    fit = linear_fit(d, design, se=se, codes=rows.codes)
    clustered = se in ("CR1", "CR3") and fit.status == "ok"
    thin = _without_error(factors, levels_of, rows) if clustered else set[str]()

    def term(name: str, weights: Floats) -> Term:
        contrast = fit.contrast(weights)
        common: dict[str, Any] = {"params": {"se": se, "level": how.level}, **rows.counts}
        if name in thin:
            return Term(value=contrast.estimate, status="one_cluster_level", **common)
        status = contrast.concern if fit.status == "ok" else fit.status
        return Term(value=contrast.estimate, status=status, **contrast_fields(contrast, how.level), **common)

    terms = {name: term(name, np.eye(len(names))[i]) for i, name in enumerate(names)}
    marginal = {}
    for factor, labels in levels_of.items():
        for label in labels:
            weights = np.zeros(len(names))
            weights[1] = 1.0
            for name, dummy in dummies.items():
                if not name.startswith(f"{factor}["):
                    weights[names.index(f"b:{name}")] = dummy.mean() if rows.n else NAN
            if label != labels[0]:
                weights[names.index(f"b:{factor}[{label}]")] = 1.0
            marginal[f"{factor}[{label}]"] = term(f"{factor}[{label}]", weights)
    status = "one_cluster_level" if thin else fit.status
    if se == "CR1" and status == "ok" and rows.n_clusters < FEW_CLUSTERS:
        status = "few_clusters" if rows.n_clusters < FEWEST_CLUSTERS else "ok"
        for i, name in enumerate(names):
            if name.startswith("b:"):
                wild = wild_cluster_test(d, design, rows.codes, i, how=how)
                terms[name] = replace(terms[name], p_wild=wild.p)
        terms, marginal = (
            {name: replace(contrast, status=status) for name, contrast in some.items()} for some in (terms, marginal)
        )
    slope = terms["b"]
    return FactorRegression(
        slope=slope.estimate,
        coefficients={name: term.estimate for name, term in terms.items()},
        terms=terms,
        marginal=marginal,
        r2=fit.r2,
        p=slope.p,
        p_method=slope.p_method,
        status=slope.status if status == "ok" else status,
        **slope.interval(baselines=dict(baselines)),
        **rows.counts,
    )


def _levels(
    factors: Mapping[str, ArrayLike], baselines: Mapping[str, object], n: int
) -> dict[str, tuple[str, NDArray[np.str_]]]:
    """Factor -> (baseline, [n] level of each row), all checked."""
    if factors.keys() != baselines.keys():
        odd = sorted(factors.keys() ^ baselines.keys())[0]
        raise ValueError(f"baselines: {odd!r} is not in both factors and baselines; name one level of each")
    checked = {}
    for factor, values in factors.items():
        labels = np.asarray(values, dtype=object)
        if labels.shape != (n,):
            raise ValueError(f"factors[{factor!r}]: shape {labels.shape} for {n} rows; give one per row")
        missing = pd.isna(labels)
        if missing.any():
            raise ValueError(f"factors[{factor!r}]: row {int(np.argmax(missing))} has no level")
        labels, baseline = labels.astype(str), str(baselines[factor])
        if baseline not in labels:
            known = ", ".join(sorted(set(labels)))
            raise ValueError(f"baselines[{factor!r}]: {baseline!r} is no level of it; the levels are {known}")
        checked[factor] = (baseline, labels)
    return checked


def _without_error(factors: Mapping[str, ArrayLike], levels_of: Mapping[str, list[str]], rows: Rows) -> set[str]:
    """Terms that rest on a level within a single cluster: CR1 would give them the others' error as theirs."""
    thin: set[str] = set()
    for factor, (baseline, *others) in levels_of.items():
        labels = np.asarray(factors[factor], dtype=object).astype(str)[rows.kept]
        lone = [level for level in (baseline, *others) if len(np.unique(rows.codes[labels == level])) < MIN_CLUSTERS]
        thin |= {f"{factor}[{level}]" for level in lone} | {f"b:{factor}[{level}]" for level in lone}
        if baseline in lone:
            contrasts = {f"{factor}[{level}]" for level in others}
            thin |= {"const", "b"} | contrasts | {f"b:{name}" for name in contrasts}
    return thin


# Two slopes on the same questions, compared (METRICS A2, Paired model comparison).


class SlopeDifference(PairedDifference, headline="difference"):
    """The Martingale Score of one kind less that of another, on the same questions."""

    t: float = NAN


def paired_slope_difference(
    first: tuple[ArrayLike, ArrayLike],
    second: tuple[ArrayLike, ArrayLike],
    groups: ArrayLike | None = None,
    *,
    cells: ArrayLike | None = None,
    how: Resampling = RESAMPLING,
) -> SlopeDifference:
    """Test by CR3 that two kinds of belief have the same slope (METRICS A2).

    Args:
        first: (prior, post), each [n], of one kind.
        second: the same of the other kind, row by row of the same items.
        groups: [n] question of each row. None: every row its own.
        cells: [n] cell of each row; given, the slopes are those within cells (METRICS A2b).

    Both regressions lose a question together, so what the kinds share cancels. t has the degrees of freedom of the
    questions that carry the difference, so that no number of draws puts a floor under p; priors near 0 are what it
    is for. A row in which either kind is missing is dropped from both and counted. Statuses as in `martingale_score`.
    """
    names = ("first prior", "first post", "second prior", "second post")
    rows = complete_beliefs(groups, **dict(zip(names, (*first, *second), strict=True)))
    b1, q1, b2, q2 = rows.columns
    if rows.n < 2:
        return SlopeDifference(status="too_few", **rows.counts)
    n = len(rows.kept)
    cell, n_cells = cluster_codes(cluster_codes(np.zeros(n) if cells is None else cells, n)[0][rows.kept], rows.n)
    member = np.eye(n_cells)[cell]
    within = [b - (b @ member / member.sum(axis=0))[cell] for b in (b1, b2)]
    if min(float(x @ x) for x in within) <= EXACT_SS:
        return SlopeDifference(status="zero_variance_prior", **rows.counts)
    none = np.zeros((rows.n, 1 + n_cells))
    kinds = [np.column_stack([b1, member, none]), np.column_stack([none, b2, member])]
    updates = np.concatenate([q1 - b1, q2 - b2])
    fit = linear_fit(updates, np.vstack(kinds), se="CR3", codes=np.tile(rows.codes, 2))
    if fit.status == "rank_deficient":
        return SlopeDifference(status="zero_variance_prior", **rows.counts)
    slopes = [0, 1 + n_cells]
    contrast = np.zeros(2 + 2 * n_cells)
    contrast[slopes] = 1.0, -1.0
    test = fit.contrast(contrast)
    score = SlopeDifference(
        difference=test.estimate,
        first=float(fit.params[slopes[0]]),
        second=float(fit.params[slopes[1]]),
        effective_clusters=test.effective_clusters,
        df=test.df,
        status=test.concern if fit.status == "ok" else fit.status,
        params={"level": how.level},
        **rows.counts,
    )
    if not test.se > 0:
        return score
    score = replace(score, **contrast_fields(test, how.level))
    return replace(score, mde=minimum_detectable(score.ci_lo, score.ci_hi, test.se, test.df))
