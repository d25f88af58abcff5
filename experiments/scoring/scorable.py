"""The metrics that a table can be scored by: what each wants, and how it is computed and compared."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import stats

from ...metrics import (
    MARGINS,
    Equivalence,
    Score,
    bayes_error,
    bayes_posterior,
    belief_consistency,
    brier,
    brier_update,
    calibration_slope,
    cluster_mean,
    coherent_posterior,
    consistency_kappa,
    direction_rates,
    disattenuated_slope,
    exclusion_bounds,
    expected_jsd_binomial,
    grether_regression,
    jsd_plugin_bias,
    lie,
    martingale_iv,
    martingale_score,
    martingale_tests,
    median_ci,
    reliability_icc,
    sign_flip_test,
    tost,
)
from .cells import Array
from .samples import Cases, Evidence, Forecasts, Options, Pairs, Sample, Updates

WORTH_BOUNDS = 0.02
"""Share of missing rows above which the best and worst case are printed (METRICS 0.2)."""
VERBAL_TOLERANCE = 0.01
"""Differences below this are none, for beliefs that were said rather than computed (METRICS D3)."""
MANY_CLUSTERS = 5_000
EXACT_GRID = 10_000
"""Outcomes up to which the sampling noise of an instance is enumerated; beyond, its first order is near enough."""


@dataclass(frozen=True)
class Line:
    """One number of a metric, and what is to be read beside it."""

    quantity: str
    score: Score
    beside: Mapping[str, str] = field(default_factory=dict)
    equivalence: Equivalence | None = None


@dataclass(frozen=True)
class Compared:
    """A metric as a function of sums, so that two kinds of belief can be compared on the same items."""

    keys: Array
    clusters: Array
    moments: Array
    """[n, k]"""
    statistic: Callable[[Array], Array]
    """Sums [draws, k] -> values [draws]."""


@dataclass(frozen=True)
class Metric:
    """A way of scoring one type of sample."""

    name: str
    code: str
    """Its sections of METRICS."""
    wants: str
    sentence: str
    samples: tuple[type[Sample], ...]
    lines: Callable[[Any, int], Iterator[Line]]
    """Sample, seed -> scores."""
    needs: tuple[str, ...] = ()
    """Fields of the sample that not every table has."""
    compare: Callable[[Any], Compared] | None = None

    def lacks(self, sample: Sample) -> str | None:
        """Why the sample cannot be scored, or None."""
        if not isinstance(sample, self.samples):
            return f"wants {self.wants}"
        absent = [name for name in self.needs if getattr(sample, name) is None]
        return f"needs {NEEDED.get(absent[0], f'column {absent[0]!r}')}" if absent else None


NEEDED = {"replicate": "replicate readings, named by --replicates"}


def _martingale(sample: Updates, seed: int) -> Iterator[Line]:
    for name, pairs in sample.views.items():
        suffix = f", {name}" if name else ""
        yield _slope(f"M{suffix}", pairs, seed)
        if name == "per step":
            sizes = Counter(pairs.clusters)
            weights = np.array([1 / sizes[label] for label in _clusters(pairs)])
            if len(set(sizes.values())) > 1:
                yield _slope("M, questions weigh the same", pairs, seed, weights)
        update = pairs.posterior - pairs.prior
        clusters = _clusters(pairs)
        mean = cluster_mean(update, clusters, seed=seed)
        score = _counted(replace(mean, **_p_of_mean(mean, update, clusters, seed)), pairs, update)
        yield Line(f"mean update{suffix}", score, equivalence=_tost(score, "intercept"))


def _p_of_mean(mean: Score, values: Array, clusters: Array, seed: int) -> dict[str, Any]:
    """Of a mean of zero: by sign flips, or by t where clusters are so many that the two agree."""
    if mean.n_clusters > MANY_CLUSTERS and mean.se > 0:
        p = 2 * stats.t.sf(abs(mean.estimate) / mean.se, mean.n_clusters - 1)
        return {"p": float(p), "p_method": f"t over {mean.n_clusters} clusters"}
    flips = sign_flip_test(values, clusters, seed=seed)
    return {"p": flips.p, "p_method": flips.p_method}


def _slope(quantity: str, pairs: Pairs, seed: int, weights: Array | None = None) -> Line:
    clustered = pairs.clusters is not None
    score = martingale_score(
        pairs.prior, pairs.posterior, pairs.clusters, se="CR1" if clustered else "HC3", weights=weights, seed=seed
    )
    beside = {}
    if np.isfinite(score.mde):
        beside["smallest |M| found with 80% power"] = f"{score.mde:.3f}"
    if np.isfinite(score.p_wild):
        beside["p by wild cluster bootstrap"] = f"{score.p_wild:.3g}"
    if np.isfinite(score.p_iid) and weights is None:
        beside["p as papers print it (rows independent, equal spread)"] = f"{score.p_iid:.3g}"
    score = _counted(score, pairs, pairs.posterior - pairs.prior)
    df = (score.n_clusters - 1) if clustered else score.n_rows - 2
    return Line(quantity, score, beside, _tost(score, "martingale", df=df))


def _martingale_tests(sample: Updates, seed: int) -> Iterator[Line]:
    for name, pairs in sample.views.items():
        score = martingale_tests(pairs.prior, pairs.posterior, pairs.clusters, seed=seed)
        each = {f"{test} p": f"{score.p_tests[test]:.3g}, adjusted {p:.3g}" for test, p in score.p_holm.items()}
        score = _counted(score, pairs, pairs.posterior - pairs.prior)
        yield Line(f"smallest adjusted p{', ' + name if name else ''}", score, each)


def _replicates(sample: Updates, seed: int) -> Iterator[Line]:
    pairs = sample.whole
    assert sample.item is not None
    assert sample.replicate is not None
    items, row = np.unique(sample.item.astype(str), return_inverse=True)
    readings, column = np.unique(sample.replicate.astype(str), return_inverse=True)
    prior, posterior = np.full((2, len(items), len(readings)), np.nan)
    prior[row, column], posterior[row, column] = pairs.prior, pairs.posterior
    first = np.unique(row, return_index=True)[1]
    clusters = _clusters(pairs)[first]
    groups = clusters if len(set(clusters)) < len(items) else None
    reliability = reliability_icc(prior, groups, seed=seed)
    beside = {}
    if np.isfinite(reliability.icc1):
        slope = martingale_score(pairs.prior, pairs.posterior, pairs.clusters)
        corrected = disattenuated_slope(slope.M, reliability.icc1, se=slope.se)
        beside = {
            "M of a perfect updater read with this noise": f"{reliability.icc1 - 1:.3f}",
            "M corrected for it": f"{corrected.beta1:.3f} (se {corrected.se:.3f})",
        }
    yield Line("reliability of one reading of the prior", reliability, beside)
    if len(readings) > 1:
        later = posterior[:, 2] if len(readings) > 2 else posterior.mean(axis=1)
        note = {"instrument": f"readings {readings[0]} and {readings[1]} of the prior, each for the other"}
        yield Line("M by split readings", martingale_iv(prior[:, 0], prior[:, 1], later, clusters, seed=seed), note)


def _brier(sample: Updates | Forecasts, seed: int) -> Iterator[Line]:
    if isinstance(sample, Forecasts):
        named = {"Brier score": sample.belief}
        source: Sample = sample
    else:
        source = sample.whole
        named = {"Brier score of the prior": sample.whole.prior, "Brier score of the posterior": sample.whole.posterior}
    outcome = _known(sample)
    for quantity, belief in named.items():
        squared = (belief - outcome) ** 2
        score = _counted(brier(belief, outcome, source.clusters, seed=seed), source, belief, outcome)
        yield Line(quantity, score, _bounds(squared))


def _brier_update(sample: Updates, seed: int) -> Iterator[Line]:
    pairs, outcome = sample.whole, _known(sample)
    score = brier_update(pairs.prior, pairs.posterior, outcome, pairs.clusters, seed=seed)
    beside = {
        "mean square of the update (raises it, whatever its direction)": f"{score.mean_sq_update:.3f}",
        "earned by the direction": f"{score.cross:.3f}",
    }
    yield Line("change of the Brier score", _counted(score, pairs, pairs.posterior - pairs.prior, outcome), beside)


def _calibration(sample: Updates | Forecasts, seed: int) -> Iterator[Line]:
    source, belief = (sample, sample.belief) if isinstance(sample, Forecasts) else (sample.whole, sample.whole.prior)
    outcome = _known(sample)
    score = calibration_slope(belief, outcome, source.clusters)
    beside = {"p tests": "a slope of 1", "intercept": f"{score.intercept:.3f}"}
    quantity = "calibration slope" + ("" if isinstance(sample, Forecasts) else " of the prior")
    yield Line(quantity, _counted(score, source, belief, outcome), beside)


def _consistency(sample: Options, seed: int) -> Iterator[Line]:
    found = belief_consistency(sample.prior, sample.posterior, sample.rejected)
    clusters = _clusters(sample)
    named = {
        "consistency": found.c2,
        "three-option consistency": found.c3,
        "leak to the rejected option, bits": found.leak,
        "share of the rejected option": found.p_invalid_norm,
        "chance that two draws disagree": found.switch,
    }
    for quantity, values in named.items():
        score = _counted(cluster_mean(values, clusters, seed=seed), sample, values)
        if quantity != "consistency":
            yield Line(quantity, score)
            continue
        beside = _bounds(values)
        floor = _sampling_floor(sample, found.prior2)
        used = np.isfinite(values)
        if floor is not None and used.any():
            beside["expected of an unchanged belief, counted so often"] = f"{1 - floor[used].mean():.4f}"
            beside["corrected for it"] = f"{values[used].mean() + floor[used].mean():.4f}"
        distance = replace(score, mean=1 - score.estimate)
        yield Line(quantity, score, beside, _tost(distance, "jsd"))


def _sampling_floor(sample: Options, prior2: Array) -> Array | None:
    """[n] JSD in bits that sampling alone puts between equal beliefs (METRICS B12)."""
    if sample.n_prior is None or sample.n_posterior is None:
        return None
    floor = jsd_plugin_bias(2, sample.n_prior, sample.n_posterior)
    for i in np.flatnonzero(sample.n_prior * sample.n_posterior <= EXACT_GRID):
        one, two = int(sample.n_prior[i]), int(sample.n_posterior[i])
        if one and two and np.isfinite(prior2[i, 0]):
            floor[i] = expected_jsd_binomial(prior2[i, 0], prior2[i, 0], one, two)
    return floor


def _kappa(sample: Options, seed: int) -> Iterator[Line]:
    found = belief_consistency(sample.prior, sample.posterior, sample.rejected)
    position = sample.rejected if sample.position is None else sample.position
    score = consistency_kappa(found.prior2, found.post2, _clusters(sample), position, seed=seed)
    beside = {"consistency": f"{score.c:.3f}", "with another item's posterior": f"{score.c_perm:.3f}"}
    yield Line("consistency beyond chance", _counted(score, sample, found.c2), beside)


def _bayes_error(sample: Evidence, seed: int) -> Iterator[Line]:
    readings = (sample.p_x, sample.p_y_given_x, sample.p_y)
    for policy in ("clip", "raw", "drop"):
        target = bayes_posterior(*readings, policy=policy)
        score = bayes_error(sample.posterior, target.v, sample.clusters, seed=seed)
        beside = {
            "mean absolute error": f"{score.mae:.3f}",
            "bias": f"{score.bias:+.3f}",
            "the paper's eq. 2 (grows with n)": f"{score.l2_eq2:.3f}",
        }
        if policy == "clip":
            beside["posteriors above 1, so readings of no distribution"] = f"{target.incoherence_rate:.1%}"
        yield Line(f"RMSE to Bayes ({policy})", _counted(score, sample, sample.posterior - target.v), beside)
    if sample.p_y_given_not_x is None:
        return
    coherent = coherent_posterior(sample.p_x, sample.p_y_given_x, sample.p_y_given_not_x)
    score = bayes_error(sample.posterior, coherent.posterior, sample.clusters, seed=seed)
    beside = {"mean absolute error": f"{score.mae:.3f}", "bias": f"{score.bias:+.3f}"}
    yield Line("RMSE to Bayes (coherent P(Y))", _counted(score, sample, sample.posterior - coherent.posterior), beside)
    off = sample.p_y - coherent.py
    score = _counted(cluster_mean(off, _clusters(sample), seed=seed), sample, off)
    yield Line("stated P(Y) less total probability", score, equivalence=_tost(score, "lie"))


def _direction(sample: Evidence, seed: int) -> Iterator[Line]:
    target = bayes_posterior(sample.p_x, sample.p_y_given_x, sample.p_y).v
    score = direction_rates(sample.p_x, sample.posterior, target, VERBAL_TOLERANCE, sample.clusters, seed=seed)
    shares = {
        label.replace("_", " "): f"{getattr(score, label):.1%} [{lo:.1%}, {hi:.1%}]"
        for label, (lo, hi) in score.intervals.items()
        if label != "incorrect"
    }
    yield Line("updates in the wrong direction", _counted(score, sample, sample.posterior + target), shares)


def _grether(sample: Evidence, seed: int) -> Iterator[Line]:
    assert sample.p_y_given_not_x is not None
    score = grether_regression(
        sample.p_x, sample.posterior, sample.p_y_given_x, sample.p_y_given_not_x, sample.clusters
    )
    beside = {
        "weight of the prior": f"{score.prior:.3f} (se {score.se_prior:.3f})",
        "constant": f"{score.const:+.3f} (se {score.se_const:.3f})",
    }
    yield Line("weight of the evidence", _counted(score, sample, sample.posterior), beside)


def _lie(sample: Cases, seed: int) -> Iterator[Line]:
    found = lie(sample.p, sample.conditional, sample.weights)
    clusters = _clusters(sample)
    signed = _counted(cluster_mean(found.signed, clusters, seed=seed), sample, found.signed)
    beside = {"weights sum to, on average": f"{np.nanmean(found.weight_sum):.3f}"} if signed.n_rows else {}
    yield Line("p less the implied p", signed, beside, _tost(signed, "lie"))
    size = _counted(cluster_mean(found.delta, clusters, seed=seed), sample, found.delta)
    yield Line("size of the difference", size)
    ratio = median_ci(found.ratio, groups=sample.clusters, seed=seed)
    yield Line("median of difference / p", _counted(ratio, sample, found.ratio))
    outside = np.where(np.isnan(found.outside_hull), np.nan, found.outside_hull > VERBAL_TOLERANCE)
    share = _counted(cluster_mean(outside, clusters, seed=seed), sample, outside)
    yield Line(f"share outside its cases by more than {VERBAL_TOLERANCE:g}, wrong whatever the weights", share)


def _clusters(sample: Sample) -> Array:
    if sample.clusters is not None:
        return sample.clusters
    first = next(value for value in vars(sample).values() if isinstance(value, np.ndarray))
    return np.arange(len(first))


def _known(sample: Updates | Forecasts) -> Array:
    """The outcomes, which `Metric.needs` has seen to."""
    assert sample.outcome is not None
    return sample.outcome


def size(sample: Sample) -> int:
    """Rows that a metric would take."""
    return len(_clusters(sample.whole if isinstance(sample, Updates) else sample))


def _counted(score: Any, sample: Sample, values: Array, outcome: Array | None = None) -> Any:
    """The score with its dropped rows by reason; `values` [n] or `outcome` are NaN where a row is dropped."""
    reasons, n_dropped = dict(score.reasons), score.n_dropped
    missing = np.isnan(values)
    why = np.full(len(values), "undefined", dtype=object) if sample.why is None else sample.why.copy()
    why[np.isin(why, ("ok", "low_coverage"))] = "undefined"
    if outcome is not None:
        why[np.isnan(outcome) & ~missing] = "no outcome"
        missing = missing | np.isnan(outcome)
    if n_dropped == missing.sum():
        reasons = dict(Counter(str(reason) for reason in why[missing]))
    broken = sample.n_broken if isinstance(sample, Pairs) else 0
    if broken:
        reasons["missing step"] = broken
    if not score.n_clusters and score.n_rows:
        score = replace(score, n_clusters=len(set(_clusters(sample)[~missing])))
    return replace(score, n_dropped=n_dropped + broken, reasons=reasons)


def _bounds(values: Array) -> dict[str, str]:
    """Best and worst case of a mean of scores in [0, 1], where enough are missing to matter."""
    if not np.isnan(values).sum() > WORTH_BOUNDS * len(values):
        return {}
    bounds = exclusion_bounds(values)
    return {"had the undefined ones scored 0, or 1": f"{bounds.lower:.3f}, {bounds.upper:.3f}"}


def _tost(score: Score, margin: str, df: float | None = None) -> Equivalence | None:
    if not np.isfinite(score.se) or not score.se > 0:
        return None
    reach = MARGINS[margin]
    return tost(score.estimate, score.se, score.n_clusters - 1 if df is None else df, -reach, reach)


def _compare_slope(sample: Updates) -> Compared:
    pairs = next(iter(sample.views.values()))
    b, d = pairs.prior, pairs.posterior - pairs.prior
    moments = np.column_stack([np.ones(len(b)), b, d, b * b, b * d])
    return Compared(_keys(pairs), _clusters(pairs), moments, _slope_of)


def _slope_of(sums: Array) -> Array:
    n, b, d, bb, bd = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = bb - b * b / n
        return np.where(spread > 1e-12, (bd - b * d / n) / spread, np.nan)


def _compare_mean(values: Array, sample: Sample) -> Compared:
    return Compared(_keys(sample), _clusters(sample), np.column_stack([np.ones(len(values)), values]), _mean_of)


def _mean_of(sums: Array) -> Array:
    return sums[:, 1] / sums[:, 0]


def _compare_brier(sample: Updates | Forecasts) -> Compared:
    if isinstance(sample, Forecasts):
        return _compare_mean((sample.belief - sample.outcome) ** 2, sample)
    return _compare_mean((sample.whole.posterior - _known(sample)) ** 2, sample.whole)


def _compare_brier_update(sample: Updates) -> Compared:
    pairs, outcome = sample.whole, _known(sample)
    change = (pairs.posterior - outcome) ** 2 - (pairs.prior - outcome) ** 2
    return _compare_mean(change, pairs)


def _compare_consistency(sample: Options) -> Compared:
    return _compare_mean(belief_consistency(sample.prior, sample.posterior, sample.rejected).c2, sample)


def _keys(sample: Sample) -> Array:
    assert sample.keys is not None
    return sample.keys


PAIRED = "prior, posterior; or trajectories (b_0, b_1, ...; or trajectory, step, belief)"
EVIDENCE = "p_x, p_y, p_y_given_x, posterior"
OPTIONS = "prior_<option>, posterior_<option>, rejected; or item, context, rejected, count_<option>"
METRICS: Sequence[Metric] = (
    Metric(
        "martingale",
        "A1, A2, A11",
        PAIRED,
        "Can the direction of an update be predicted from the prior, or is there a drift? 0 is coherent.",
        (Updates,),
        _martingale,
        compare=_compare_slope,
    ),
    Metric(
        "martingale-tests",
        "A3, A4",
        PAIRED,
        "Slope, shift and any other shape of the update, tested as one family of three.",
        (Updates,),
        _martingale_tests,
    ),
    Metric(
        "martingale-replicates",
        "A5, F5",
        "prior, posterior, item and --replicates",
        "How noisy the readings are, the M that this noise makes by itself, and M without it.",
        (Updates,),
        _replicates,
        needs=("replicate",),
    ),
    Metric(
        "brier",
        "A7",
        f"outcome, and belief; or {PAIRED}",
        "Mean squared distance from what came true; always saying one half scores 0.25.",
        (Updates, Forecasts),
        _brier,
        needs=("outcome",),
        compare=_compare_brier,
    ),
    Metric(
        "brier-update",
        "A7",
        f"outcome, and {PAIRED}",
        "What the update did to the Brier score; negative is better.",
        (Updates,),
        _brier_update,
        needs=("outcome",),
        compare=_compare_brier_update,
    ),
    Metric(
        "calibration",
        "A10",
        f"outcome, and belief; or {PAIRED}",
        "Slope of the outcome on the belief: 1 is calibrated, below 1 too extreme, above 1 too timid.",
        (Updates, Forecasts),
        _calibration,
        needs=("outcome",),
    ),
    Metric(
        "consistency",
        "B2, B9, B11, B12",
        OPTIONS,
        "Do two options keep their ratio when a third is rejected? 1 is a kept ratio.",
        (Options,),
        _consistency,
        compare=_compare_consistency,
    ),
    Metric(
        "consistency-kappa",
        "B12",
        OPTIONS,
        "Consistency beyond what another item's posterior would give; 0 is chance.",
        (Options,),
        _kappa,
    ),
    Metric(
        "bayes-error",
        "D1, D2",
        f"{EVIDENCE} [, p_y_given_not_x]",
        "How far the stated posterior is from the one that Bayes' rule makes of the other readings.",
        (Evidence,),
        _bayes_error,
    ),
    Metric(
        "bayes-direction",
        "D3, D4",
        EVIDENCE,
        "How often updates go the wrong way, too far, not far enough, or nowhere.",
        (Evidence,),
        _direction,
    ),
    Metric(
        "grether",
        "D9",
        f"{EVIDENCE}, p_y_given_not_x",
        "How much updates weigh evidence and prior, in log-odds; Bayes weighs both by 1.",
        (Evidence,),
        _grether,
        needs=("p_y_given_not_x",),
    ),
    Metric(
        "lie",
        "E9",
        "p, cond_1, weight_1, cond_2, weight_2, ...",
        "Law of iterated expectation: is a belief the weighted mean of the beliefs given each case?",
        (Cases,),
        _lie,
    ),
)
"""In the order in which they are printed."""
