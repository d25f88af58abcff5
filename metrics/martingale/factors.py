"""How the Martingale Score changes with model, domain or technique (METRICS A6)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..inference.regression import errors, linear_fit
from ..inference.rows import Rows, complete_numbers
from ..inference.tails import t_interval
from ..inference.wild import wild_cluster_test
from ..score import NAN, Score
from ..validation import Floats, probabilities, updates
from .slope import FEW_CLUSTERS, FEWEST_CLUSTERS

MIN_CLUSTERS = 2
NO_ERROR: Mapping[str, Any] = {
    **dict.fromkeys(("se", "ci_lo", "ci_hi", "t", "p", "df", "effective_clusters"), NAN),
    **dict.fromkeys(("ci_method", "p_method"), ""),
    "status": "one_cluster_level",
}
"""What a term becomes that rests on a level within one cluster."""


@dataclass(frozen=True, kw_only=True)
class Term(Score):
    """One coefficient, or one combination of them."""

    headline: ClassVar[str] = "value"
    value: float = NAN
    t: float = NAN
    df: float = NAN
    effective_clusters: float = NAN
    """Clusters that carry this term (METRICS A2); defined under CR3."""
    p_wild: float = NAN
    """Restricted wild cluster bootstrap; of `b:factor[level]` with CR1 below forty clusters."""


@dataclass(frozen=True, kw_only=True)
class FactorRegression(Score):
    """Slopes by factor level (METRICS A6). `result["b:domain[law]"]` is a coefficient by name."""

    headline: ClassVar[str] = "slope"
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
    level: float = 0.95,
    draws: int = 4999,
    seed: int = 0,
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
        level: of the intervals.
        draws: of the wild bootstrap, where clusters are too many to take all signs.
        seed: of the wild bootstrap.

    The coefficients say how slopes differ between levels; only a factor that was assigned makes that an
    effect. A level whose priors do not vary leaves the regression `rank_deficient`: all NaN. A level within
    one cluster has estimates but no error of its own (`one_cluster_level`). A term that fewer than ten clusters carry
    says `few_effective_clusters`; the status of the whole is that of `b`. With CR1, `few_clusters`: below fifteen
    no test of a slope holds its level.
    """
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

    def term(weights: Floats) -> Term:
        found = fit.contrast(weights)
        lo, hi = t_interval(found.estimate, found.se, found.df, level)
        methods = {"ci_method": found.method, "p_method": found.method if np.isfinite(found.p) else ""}
        tested = {"se": found.se, "ci_lo": lo, "ci_hi": hi, "t": found.t, "p": found.p, "df": found.df}
        return Term(
            value=found.estimate,
            effective_clusters=found.effective_clusters,
            status=found.concern if fit.status == "ok" else fit.status,
            params={"se": se, "level": level},
            **tested,
            **(methods if np.isfinite(found.se) else {}),
            **rows.counts,
        )

    terms = {name: term(np.eye(len(names))[i]) for i, name in enumerate(names)}
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
            marginal[f"{factor}[{label}]"] = term(weights)
    status = fit.status
    if se in ("CR1", "CR3") and status == "ok":
        names_of_thin = _without_error(factors, levels_of, rows)
        if names_of_thin:
            status = "one_cluster_level"
            terms, marginal = (
                {name: replace(found, **NO_ERROR) if name in names_of_thin else found for name, found in some.items()}
                for some in (terms, marginal)
            )
    if se == "CR1" and status == "ok" and rows.n_clusters < FEW_CLUSTERS:
        status = "few_clusters" if rows.n_clusters < FEWEST_CLUSTERS else "ok"
        for i, name in enumerate(names):
            if name.startswith("b:"):
                wild = wild_cluster_test(d, design, rows.codes, i, draws=draws, seed=seed)
                terms[name] = replace(terms[name], p_wild=wild.p)
        terms, marginal = (
            {name: replace(found, status=status) for name, found in some.items()} for some in (terms, marginal)
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
