"""Tables of updates: can their direction be foreseen, where does the slope differ, and do chains drift? (METRICS
A1-A7, A9, A11, F6)
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from ..consistency.reading_metrics import item_clusters, reliability_of
from ..contract import NAN, TIE, Array, Resampling, Score
from ..inference.paired import adjust
from ..inference.planning import READING_NOISE
from ..inference.pooling import Pooled, random_effects_pool
from ..inference.reliability import WordingStudy, share_text, wording_study
from ..metric import (
    RELIABILITY,
    WITHHELD,
    Compared,
    Line,
    clusters_of,
    deviation_claim,
    keys_of,
    known_outcome,
    metric,
    mostly_extreme,
    odds_line,
    tested_mean,
    tosted,
    with_drop_reasons,
)
from ..number import status_text
from ..tables.sample_rows import STEPWISE, Chains, Pairs, Updates, by_reading, cells
from ..tables.samples import Cells, Sample
from .attenuation import corrected_slope, martingale_iv
from .brier import brier_on_split_martingale
from .cell_metrics import between_cells, controlled
from .conditional_moments import martingale_tests as battery
from .contrasts import MartingaleWithin, factor_regression, martingale_within, paired_slope_difference
from .slope import ONE_OUTCOME, MartingaleScore, calibration_slope, martingale_score
from .trajectories import Drift, drift_covariance, drift_variance

PAIRED = "prior, posterior; or trajectories (b_0, b_1, ...; or trajectory, step, belief)"
TESTS = {"slope": "the slope", "joint": "slope and mean", "cvm": "any other dependence on the prior"}
"""What the three tests of a family are of."""

Slope = MartingaleScore | MartingaleWithin
S = TypeVar("S", bound=Score)


def _compare_slope(sample: Updates) -> Compared:
    pairs = sample.whole  # steps of two kinds, or of two models, need not be as many
    cell = np.zeros(len(pairs.prior)) if pairs.cell is None else pairs.cell

    def difference(first: Any, second: Any, clusters: Array, family_size: int, how: Resampling) -> Any:
        return paired_slope_difference(first[:2], second[:2], clusters, cells=first[2], how=how)

    columns = (pairs.prior, pairs.posterior, cell)
    return Compared("M", keys_of(pairs), clusters_of(pairs), columns, difference, *_slope_of_sums(*columns))


def compare_calibration(name: str, belief: Array, outcome: Array, sample: Sample) -> Compared:
    """The calibration slope of beliefs [n] whose outcomes [n] are known, which is one plus the M of the step from the
    belief to the outcome (METRICS A10): compared as that is, with the status of either slope.
    """
    columns = (belief, outcome, np.zeros(len(belief)))

    def difference(first: Any, second: Any, clusters: Array, family_size: int, how: Resampling) -> Any:
        test = paired_slope_difference(first[:2], second[:2], clusters, how=how)
        both = [calibration_slope(side[0], side[1], clusters, how=how).status for side in (first, second)]
        if ONE_OUTCOME in both:
            return type(test)(status=ONE_OUTCOME, params=test.params, **test.row_fields)
        status = next((first for first in both if first != "ok"), "ok") if test.status == "ok" else test.status
        return replace(test, first=1 + test.first, second=1 + test.second, status=status)

    moments, slope = _slope_of_sums(*columns)
    return Compared(
        name, keys_of(sample), clusters_of(sample), columns, difference, moments, lambda sums: 1 + slope(sums)
    )


def _slope_of_sums(prior: Array, posterior: Array, cell: Array) -> tuple[Array, Callable[[Array], Array]]:
    """Moments [n, 5 cells] and the slope within cells from their sums (METRICS A2b)."""
    update = posterior - prior
    terms = np.column_stack([np.ones(len(prior)), prior, update, prior * prior, prior * update])
    _, codes = np.unique(cell, return_inverse=True)
    cells = int(codes.max(initial=0)) + 1
    moments = np.zeros((len(prior), cells, 5))
    moments[np.arange(len(prior)), codes] = terms
    moments[~np.isfinite(terms).all(axis=1)] = np.nan

    def slope(sums: Array) -> Array:
        n, b, d, bb, bd = np.moveaxis(sums.reshape(len(sums), cells, 5), 2, 0)
        some = np.where(n > 0, n, 1.0)
        return (bd - b * d / some).sum(axis=1) / (bb - b * b / some).sum(axis=1)

    return moments.reshape(len(prior), cells * 5), slope


@metric("A1, A2, A2b, A11", PAIRED, Updates, compare=_compare_slope, place=10, margin="martingale")
def martingale_lines(sample: Updates, how: Resampling) -> Iterator[Line]:
    """Can the direction of an update be predicted from the prior, or is there a drift? 0 is coherent."""
    for name, pairs in sample.views.items():
        step, suffix = ("_step" if name == STEPWISE else ""), f", {name}" if name else ""
        study = wordings_of(sample, pairs, how)
        if step:  # as papers print it: all rows together
            yield _slope("M_step", f"M{suffix}", replace(pairs, cell=None), study, how)
            yield _slope("M_balanced", "M, questions weigh the same", pairs, study, how, _balanced(pairs))
        else:
            yield _slope("M", f"M{suffix}", pairs, study, how)
        update = pairs.posterior - pairs.prior
        mean = with_drop_reasons(tested_mean(update, clusters_of(pairs), how), pairs, update)
        if mostly_extreme(pairs.prior, pairs.posterior):  # then a shift is judged small by its log-odds
            claim = odds_line("", "", pairs.posterior, pairs.prior, pairs, how).equivalence
        else:
            claim = deviation_claim(update, pairs, "intercept", how)
        yield Line(f"mean_update{step}", f"mean update{suffix}", mean, equivalence=claim)


def _balanced(pairs: Pairs) -> Array:
    """[n] 1 / pairs of the question that are whole."""
    _, of = np.unique(clusters_of(pairs).astype(str), return_inverse=True)
    whole = np.bincount(of, np.isfinite(pairs.posterior - pairs.prior))
    return 1 / np.maximum(whole, 1)[of]


def wordings_of(sample: Updates, pairs: Pairs, how: Resampling) -> WordingStudy | None:
    """How well one wording, or one replicate reading, ranks the priors as others do; None: there is but one."""
    if pairs.wordings is not None:
        _, first = np.unique(pairs.wordings, axis=0, return_index=True)  # a start is every trajectory's
        readings = pairs.wordings[first]
        if pairs.cell is not None:  # what cells differ by is not in the slope within them
            readings = readings - pd.DataFrame(readings).groupby(pairs.cell[first]).transform("mean").to_numpy()
        return wording_study(readings, clusters_of(pairs)[first], how=how)
    if sample.replicate is not None and len(set(sample.replicate.astype(str))) > 1:
        return wording_study(by_reading(sample, pairs.prior), item_clusters(sample), how=how)
    return None


def disagree(study: WordingStudy | None) -> bool:
    """Whether the wordings do not read one belief, so that there is no slope of it."""
    return study is not None and study.status == "weak_reliability"


def withheld(score: S) -> S:
    """What is left of a slope then: its denominators."""
    return type(score)(status=WITHHELD, params=score.params, **score.row_fields)


def _slope(
    metric_name: str,
    quantity: str,
    pairs: Pairs,
    study: WordingStudy | None,
    how: Resampling,
    weights: Array | None = None,
) -> Line:
    """The slope, within cells where there are several; withheld where the wordings do not read one belief."""
    prior, post, clusters = pairs.prior, pairs.posterior, pairs.clusters
    score: Slope
    if pairs.cell is None or len(set(pairs.cell)) < 2:
        score = martingale_score(prior, post, clusters, se="CR3", weights=weights, how=how)
    else:
        score = martingale_within(prior, post, clusters, pairs.cell, weights=weights, how=how)
        quantity = f"{quantity}, within cells"
    score = withheld(score) if disagree(study) else score
    score = with_drop_reasons(score, pairs, pairs.posterior - pairs.prior)
    noise = _slope_of_noise(prior[np.isfinite(post)], None if pairs.cell is None else pairs.cell[np.isfinite(post)])
    return Line(metric_name, quantity, score, _beside(score, study), tosted(score, "martingale"), noise=noise)


def _slope_of_noise(prior: Array, cell: Array | None) -> float:
    """How far `READING_NOISE` nat lowers the slope of a perfect updater (METRICS A5), within cells."""
    of = pd.DataFrame({"prior": prior, "cell": 0 if cell is None else cell}).dropna()
    spread = float((of["prior"] - of.groupby("cell")["prior"].transform("mean")).pow(2).mean())
    noise = float((READING_NOISE * of["prior"] * (1 - of["prior"])).pow(2).mean())
    return noise / spread if spread > TIE else 0.0


def _beside(score: Slope, study: WordingStudy | None) -> Mapping[str, str]:
    """What else is to be known of a slope."""
    slope, beside = float(score.estimate), {}
    if isinstance(score, MartingaleWithin) and np.isfinite(score.M_pooled):
        beside["between cells"] = f"{score.M_between:.3f}, with {score.between_share:.0%} of the spread of the priors"
        beside["over all rows, which mixes the two,"] = f"{score.M_pooled:.3f}"
    if np.isfinite(score.effective_clusters):
        beside["effective number of clusters"] = f"{score.effective_clusters:.1f} of {score.n_clusters}"
    if np.isfinite(score.mde):
        beside["minimum detectable effect (80% power)"] = f"{score.mde:.3f}"
    if isinstance(score, MartingaleScore) and np.isfinite(score.p_iid):
        beside["p as papers print it (rows independent, equal spread)"] = f"{score.p_iid:.3g}"
    if -1 < slope < 0:
        beside["reliability of the prior at which noise alone makes this M"] = f"{1 + slope:.2f}"
    if study is None:
        beside[RELIABILITY] = "not measured"
    elif np.isfinite(study.reliability_one):
        beside |= _one_wording(study)
        beside[f"reliability of the mean of {study.n_wordings} wordings"] = share_text(study.reliability_mean)
    return beside


def _one_wording(study: WordingStudy | None) -> dict[str, str]:
    """The reliability of one wording, where it is known."""
    if study is None or not np.isfinite(study.reliability_one):
        return {}
    return {RELIABILITY: share_text(study.reliability_one, study.ci_lo, study.ci_hi)}


@metric("A3, A4", PAIRED, Updates, place=20, slow=True)
def martingale_tests_lines(sample: Updates, how: Resampling) -> Iterator[Line]:
    """Slope, shift, any other dependence on the prior: a family of three tests; withheld where the slope is."""
    for name, pairs in sample.views.items():
        step, suffix = ("_step" if name == STEPWISE else ""), f", {name}" if name else ""
        cells = None if step else pairs.cell  # as the slope of the same name
        score = battery(pairs.prior, pairs.posterior, pairs.clusters, cells, how=how)
        if disagree(wordings_of(sample, pairs, how)):
            score = replace(score, p_min=NAN, p=NAN, p_tests={}, p_holm={}, joint_status="ok", status=WITHHELD)
        each = {
            f"p of {TESTS[test]}": f"{score.p_tests[test]:.3g}, adjusted {p:.3g}" for test, p in score.p_holm.items()
        }
        if score.joint_status not in ("ok", score.status):
            each[f"p of {TESTS['joint']}"] += f" ({status_text(score.joint_status)})"
        score = with_drop_reasons(score, pairs, pairs.posterior - pairs.prior)
        yield Line(f"tests{step}", f"smallest of three adjusted p{suffix}", score, each)


@metric("A5, F5", "prior, posterior, item and --replicates", Updates, needs=("repeated",), place=30)
def martingale_replicates_lines(sample: Updates, how: Resampling) -> Iterator[Line]:
    """How noisy the readings of the prior are, the M that this noise makes by itself, and M without it."""
    prior, posterior, clusters, independent = _repeated(sample)
    reliability = reliability_of(prior, clusters, how)
    note = {}
    if reliability.status == "ok":
        note["M of a perfect updater read with this noise"] = f"{reliability.icc1 - 1:.3f}"
    yield Line("reliability_prior", "reliability of one reading of the prior", reliability, note)
    if sample.kind != "exact":  # two orders of the options differ by more than noise
        corrected = corrected_slope(prior, posterior, clusters, how=how)
        together = {
            "slope on the mean of the readings, and its reliability": f"{corrected.M:.3f}, {corrected.reliability:.3f}"
        }
        yield Line("M_corrected", "M corrected for it", corrected, together)
    if prior.shape[1] > 1:
        note = {"instrument": "the first two readings of the prior, each for the other"}
        iv = martingale_iv(prior[:, 0], prior[:, 1], posterior, clusters, independent=independent, how=how)
        yield Line("M_iv", "M by split readings", iv, note)


def _repeated(sample: Updates) -> tuple[Array, Array, Array, bool]:
    """Readings [n, r] of the prior, posterior and cluster [n], and whether the posterior was read apart from all of
    them: of three readings or more the last is the posterior's, and the prior's are the others.
    """
    pairs = sample.views[next(iter(sample.views))]
    if pairs.readings is not None:  # an exact belief is read in the same two orders, before and after
        return pairs.readings, pairs.posterior, clusters_of(pairs), sample.kind != "exact"
    prior, posterior = (by_reading(sample, values) for values in (sample.whole.prior, sample.whole.posterior))
    apart = prior.shape[1] > 2
    if apart:
        prior, posterior = prior[:, :-1], posterior[:, -1:]
    return prior, posterior.mean(axis=1), item_clusters(sample), apart


# Where does the Martingale Score differ, and what is it over all? (METRICS A6, A7, F6)


@metric("A6", "prior, posterior, factor_<name> [, factor_<name>, ...]", Updates, needs=("factors",), place=40)
def martingale_factors_lines(sample: Updates, how: Resampling) -> Iterator[Line]:
    """M at each level of a factor, and what levels differ by; an effect only where the level was assigned."""
    assert sample.factors is not None
    pairs = sample.whole
    update = pairs.posterior - pairs.prior
    view = "".join(f", {name}" for name in list(sample.views)[-1:] if name)
    levels_of = {factor: set(levels.astype(str)) for factor, levels in sample.factors.items()}
    wanted = sample.baselines
    baselines = {name: wanted[name] if wanted.get(name) in known else min(known) for name, known in levels_of.items()}
    fit = factor_regression(update, pairs.prior, sample.factors, baselines, pairs.clusters, se="CR3", how=how)
    others = {"over all rows, had they had that level": "other factors as they are"} if len(baselines) > 1 else {}
    study = wordings_of(sample, pairs, how)
    none, reliability = disagree(study), _one_wording(study)
    for name, term in fit.marginal.items():
        reported = with_drop_reasons(withheld(term) if none else term, pairs, update)
        yield Line(
            "M_at", f"M at {name}{view}", reported, others | reliability, tosted(reported, "martingale"), part=name
        )
    contrasts = {n: withheld(term) if none else term for n, term in fit.terms.items() if n.startswith("b:")}
    adjusted = adjust([term.p for term in contrasts.values()])
    for (name, term), p in zip(contrasts.items(), adjusted.p_adjusted, strict=True):
        factor = name.removeprefix("b:").split("[")[0]
        beside = {f"adjusted by Holm over {adjusted.family_size}": f"{p:.3g}"} if np.isfinite(p) else {}
        quantity = f"M at {name.removeprefix('b:')} minus M at {baselines[factor]}{view}"
        reported = with_drop_reasons(term, pairs, update)
        yield Line("M_contrast", quantity, reported, beside | reliability, part=name.removeprefix("b:"))


@metric("F6", "prior, posterior, factor_<name> [, factor_<name>, ...]", Updates, needs=("factors",), place=50)
def martingale_pooled_lines(sample: Updates, how: Resampling) -> Iterator[Line]:
    """M over cells that need not share one, where no cluster is in two of them: random-effects mean and its range."""
    assert sample.factors is not None
    levels = pd.DataFrame(sample.factors).astype(str).groupby(clusters_of(sample.whole).astype(str)).nunique()
    apart = {name: values for name, values in sample.factors.items() if (levels[name] == 1).all()}  # one in a cluster
    if not apart:
        yield Line("M_pooled", "M over cells", Pooled(status="shared_clusters"))
        return
    fits = _by_cell(sample, cells(apart)).values()
    pooled = random_effects_pool([fit.M for fit in fits], [fit.se for fit in fits])
    beside = between_cells("M", pooled)
    shared = [name for name in sample.factors if name not in apart]
    beside |= {"clusters are shared between levels of": ", ".join(shared)} if shared else {}
    yield Line("M_pooled", f"M over {len(fits)} cells of {', '.join(apart)}", pooled, beside)


@metric(
    "A7", "outcome, prior, posterior, cluster, factor_<name> [, ...]", Updates, needs=("factors", "outcome"), place=60
)
def brier_on_martingale_lines(sample: Updates, how: Resampling) -> Iterator[Line]:
    """Do cells with a larger M forecast worse? M from half the questions, the Brier score from the other half."""
    assert sample.factors is not None
    pairs, outcome, cell = sample.whole, known_outcome(sample), cells(sample.factors)
    split = brier_on_split_martingale(pairs.prior, pairs.posterior, outcome, clusters_of(pairs), cell, how=how)
    yield Line("brier_on_M", "change of the Brier score per unit of M", split, {"cells": str(split.n_cells)})
    summed = as_cells(sample)
    assert summed.brier is not None
    yield from controlled(summed.value, summed.brier, summed.factors)


def as_cells(sample: Updates) -> Cells:
    """M, its error and Brier score in each combination of factors (martingale-score, Figure 4)."""
    assert sample.factors is not None
    cell = cells(sample.factors)
    fits = list(_by_cell(sample, cell).values())
    first = [int(np.argmax(cell == name)) for name in dict.fromkeys(cell.tolist())]
    squares = pd.Series((sample.whole.posterior - known_outcome(sample)) ** 2)
    return Cells(
        method=sample.method,
        value=np.array([fit.M for fit in fits]),
        error=np.array([fit.se for fit in fits]),
        brier=squares.groupby(cell, sort=False).mean().to_numpy(),
        factors={name: values[first] for name, values in sample.factors.items()},
    )


def _by_cell(sample: Updates, cell: Array) -> dict[str, MartingaleScore]:
    """Cell -> M, in the order of their first rows."""
    pairs, clusters = sample.whole, clusters_of(sample.whole)
    return {
        name: martingale_score(pairs.prior[here], pairs.posterior[here], clusters[here], se="CR3")
        for name in dict.fromkeys(cell.tolist())
        for here in [cell == name]
    }


# Do the model's own chains move its belief on average? (METRICS A9)


@metric("A9", "question, chain, prior, posterior [, half]", Chains, place=70)
def drift_lines(sample: Chains, how: Resampling) -> Iterator[Line]:
    """Mean square over questions of what chains sampled at temperature 1 move the belief on average; 0 is coherent."""
    update = sample.whole.posterior - sample.whole.prior if sample.update is None else sample.update
    question = sample.question.astype(str)
    questions, first = np.unique(question, return_index=True)
    clusters = clusters_of(sample)[first]
    begun = [np.nanmean(sample.whole.prior[question == name]) for name in questions]
    if sample.half is None:
        updates = [update[question == name] for name in questions]
        score = drift_variance(updates, begun if sample.update is None else None, clusters, how=how)
        beside = _alone(score)
    else:
        parts = [sample.half == half for half in np.unique(sample.half.astype(str))]
        halves, others = ([update[part & (question == name)] for name in questions] for part in parts)
        score = drift_covariance(halves, others, clusters, prior=begun, how=how)
        beside = {"product of two halves,": "each with its own reading of the prior"}
    moved = score.mean_drift[np.isfinite(score.mean_drift)]
    beside["chains"] = str(score.n_chains)
    if len(moved):
        beside["mean drift"] = f"{moved.mean():+z.3f}"
    yield Line("drift2", "mean square drift", score, beside)


def _alone(score: Drift) -> dict[str, str]:
    """What is known of single questions, and what so many chains could show at all."""
    tested = np.isfinite(score.p_question)
    if not tested.any():
        return {}
    beside = {
        "questions that drift, after Holm": f"{score.n_drifting} of {tested.sum()}",
        "questions that have chains enough to be found": str(score.n_attainable),
        "smallest p that so many chains could reach": f"{np.nanmin(score.smallest_p):.2g}",
    }
    if score.n_at_bound:
        beside["questions whose prior is 0 or 1, not tested"] = str(score.n_at_bound)
    return beside
