"""The numbers that only this experiment has: what the gate judges, published ones, and the baseline of random
forests (rational-agents, Figure 2).

The baseline is no reading noise: its violations come from what a forest smooths away, not from how beliefs are read.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ....metrics import (
    UNIT,
    MedianCi,
    Score,
    evidence_responding,
    isotonic_calibration,
    knn_cmi,
    lie,
    median_ci,
    moment_interval,
    monotone_pairwise,
    quantile_bins,
)
from ....metrics.contract import TIE, Floats
from ....metrics.inference.clusters import complete_rows
from ....metrics.number import Number
from ...run.scores import NumberMaker, gate, resampling
from .ask import AUXILIARY, CASE
from .config import RationalityConfig
from .learners import FEWEST, FOLDS
from .samples import Actions, MethodBeliefs, actions, detailed, methods, repeated, revealed

TREES = 100


def forest_ratio(config: RationalityConfig, table: pd.DataFrame, acts: Actions) -> MedianCi | None:
    """Median of |p - implied| / p, where p and the beliefs by cases are the out-of-fold predictions of two forests, of
    p*(x) and of p*(x, z), and the weights are the true shares. None without cases, or with too few contexts.
    """
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.model_selection import GroupKFold

    asked_of = table[(table["scenario"] == AUXILIARY) & table["covariate"].notna()]
    asked = asked_of.drop_duplicates("item").set_index("item")[["covariate", "shares"]]
    cases = table[(table["scenario"] == CASE) & (table["option_index"] == 0)].drop_duplicates(["item", "case"])
    cases = cases.dropna(subset=["truth"])
    place = {str(item): i for i, item in enumerate(acts.items)}
    if len(place) < FEWEST or cases.empty:
        return None
    names = sorted(asked["covariate"].unique())
    x = revealed(acts)
    row = np.array([place[str(item)] for item in cases["item"]])
    state = cases["case"].to_numpy(dtype=np.float64)
    kind = np.array([names.index(asked["covariate"].get(str(item))) for item in cases["item"]], dtype=np.float64)
    # A forest has no holes: what is not revealed is a state of its own.
    plain, wide = np.nan_to_num(x, nan=-1.0), np.column_stack([np.nan_to_num(x[row], nan=-1.0), kind, state])

    def predicted(features: Floats, truth: Floats, groups: np.ndarray) -> Floats:
        predictions = np.full(len(truth), np.nan)
        split = GroupKFold(FOLDS, shuffle=True, random_state=config.seed)
        for train, test in split.split(features, truth, groups):
            model = RandomForestRegressor(TREES, random_state=config.seed).fit(features[train], truth[train])
            predictions[test] = model.predict(features[test])
        return predictions

    p = predicted(plain, acts.truth, np.arange(len(acts.items)))
    given = predicted(wide, cases["truth"].to_numpy(dtype=np.float64), row)
    conditional = np.full((len(acts.items), int(state.max()) + 1), np.nan)
    conditional[row, state.astype(int)] = given
    weights = np.zeros(conditional.shape)
    for item, shares in asked["shares"].items():
        known = np.array([np.nan if share is None else share for share in shares], dtype=np.float64)
        weights[place[str(item)], : len(known)] = known[: weights.shape[1]]
    return median_ci(lie(p, np.where((weights == 0) & np.isnan(conditional), 0.5, conditional), weights).ratio)


RESPONSE, ACTION_RESPONSE, COVERED = "response", "action_response", "decision_coverage"
FOREST = "lie_ratio_forest"
PUBLISHED_CMI, PUBLISHED_CMI_ISOTONIC, PUBLISHED_ORDER, SPREAD = "cmi_knn", "cmi_knn_isotonic", "order_pairs", "spread"
PAIRS = {"Yes against No": (2, 0), "Yes against Defer": (2, 1), "Defer against No": (1, 0)}
"""The paper's pairs: the first of each should become more frequent as the belief rises."""
BINS = 5
"""Groups of contexts of like beliefs, between which the order is tested."""


class ResponseSlope(Score, headline="slope"):
    """METRICS W4, condition (e)."""

    slope: float = np.nan
    """Least-squares slope of the belief on the true chance."""


class PublishedCmi(Score, headline="cmi"):
    """METRICS E1 as published: repetitions as rows, and a percentile interval that is no test."""

    cmi: float = np.nan


def own_scores(config: RationalityConfig, beliefs: pd.DataFrame) -> Iterator[Number]:
    """Of each method: the gate, how it answers to the evidence, how widely numbers spread, what several lines exceed 1
    by; and, if `resamples` are asked for, the published estimates beside ours.
    """
    table = detailed(beliefs)
    acts = actions(config, table)
    for form, mass in acts.coverage.items():
        quantity = "answers that are an action"
        yield NumberMaker(config, form).mean(COVERED, mass, acts.items, quantity=quantity, within=UNIT)
    slope = response(acts.truth, acts.forced, acts.items, config)
    quantity = "slope of the yes-or-no choice on the true chance"
    yield NumberMaker(config, "lines").number(ACTION_RESPONSE, slope, quantity=quantity)
    if config.resamples and (forest := forest_ratio(config, table, acts)) is not None:
        quantity = "median of difference / p of random forests fitted to the truth, as published"
        yield NumberMaker(config, "forest", "").number(FOREST, forest, quantity=quantity, code="E9")
    for method in methods(table, acts.items):
        make = NumberMaker(config, method.method, method.kind)
        slope = response(acts.truth, method.belief, acts.items, config)
        yield make.number(RESPONSE, slope, quantity="slope of the belief on the true chance", code="W4")
        for metric, values, quantity in (
            (SPREAD, method.spread, "SD of one stated number, exact"),
            ("excess", method.excess, "sum of the stated numbers minus 1"),
        ):
            if np.isfinite(values).any():
                yield make.mean(metric, values, acts.items, quantity=quantity)
        each = evidence_responding(method.belief, acts.truth, acts.items)
        covered = {"belief": method.coverage, **acts.coverage}
        yield gate(config, method.method, method.kind, coverage=covered, responding=each)
        if config.resamples:
            yield from published_scores(make, method, acts)


def response(truth: Floats, belief: Floats, clusters: np.ndarray, config: RationalityConfig) -> ResponseSlope:
    """Slope of a belief on the true chance, with its interval over contexts: an agent who hears nothing has 0."""
    rows = complete_rows(clusters, truth=truth, belief=belief)
    x, y = rows.columns
    if rows.n < 3 or np.ptp(x) <= TIE:
        return ResponseSlope(status="too_few" if rows.n < 3 else "constant", **rows.counts)
    moments = np.column_stack([np.ones(rows.n), x, y, x * x, x * y])
    interval = moment_interval(moments, rows.codes, _slope, how=resampling(config))
    return ResponseSlope(slope=float(_slope(moments.sum(axis=0)[None])[0]), **rows.counts, **interval.fields())


def _slope(sums: Floats) -> Floats:
    n, x, y, xx, xy = sums.T
    return (xy - x * y / n) / (xx - x * x / n)


def published_scores(make: NumberMaker, beliefs: MethodBeliefs, acts: Actions) -> Iterator[Number]:
    """The paper's estimates (rational-agents, Tables 1, 2 and 5), on rows of repetitions: pictures, no tests.

    Actions are drawn from the exact choice; the belief of a repetition is its own answer where answers were sampled.
    """
    config: Any = make.config
    rows = repeated(config, beliefs, acts)
    belief, taken, outcome, owners = rows.belief, rows.taken, acts.outcome[rows.of], acts.items[rows.of]
    mapped = isotonic_calibration(belief, outcome)
    for metric, values in ((PUBLISHED_CMI, belief), (PUBLISHED_CMI_ISOTONIC, mapped)):
        score = _bootstrapped(config, taken, outcome, values, owners)
        yield make.number(metric, score, quantity="nearest-neighbour CMI as published, nats", code="E1")
    bins = quantile_bins(belief, BINS)
    for name, (first, second) in PAIRS.items():
        score = monotone_pairwise(bins, taken, first, second)
        score = replace(score, n_clusters=len(set(owners)))
        if score.n_clusters < FEWEST:
            score = replace(score, frac_significant=np.nan, status="too_few")
        quantity = "significant violations of the order as published"
        yield make.number(PUBLISHED_ORDER, score, name, quantity, code="E7")


def _bootstrapped(
    config: RationalityConfig, taken: np.ndarray, outcome: Floats, belief: Floats, owners: np.ndarray
) -> PublishedCmi:
    n = len(belief)
    counts: dict[str, Any] = {"n_rows": n, "n_clusters": len(set(owners))}
    if counts["n_clusters"] < FEWEST:
        return PublishedCmi(status="too_few", **counts)
    rng = np.random.default_rng([config.seed, 4])
    draws = []
    for _ in range(config.resamples):
        rows = rng.integers(0, n, n)
        draws.append(knn_cmi(taken[rows], outcome[rows], belief[rows]).cmi)
    lo, hi = np.quantile(draws, [(1 - config.level) / 2, (1 + config.level) / 2])
    return PublishedCmi(
        cmi=knn_cmi(taken, outcome, belief).cmi,
        ci_lo=float(lo),
        ci_hi=float(hi),
        ci_method="percentile bootstrap of repetitions, as published: not a test",
        **counts,
    )
