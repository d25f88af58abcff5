"""Tables of several readings of one belief: do they agree (METRICS A8, B8), and how reliable is one of them (METRICS
F5, F7)?
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np

from ..contract import NAN, Array, Resampling
from ..inference.agreement import Agreement, judge_agreement, method_reliability
from ..inference.means import UNIT, cluster_mean, cluster_share
from ..inference.reliability import NOT_ESTIMABLE, Reliability, reliability_icc, share_text, wording_study
from ..metric import RELIABILITY, Line, bounds, clusters_of, metric, with_drop_reasons
from ..tables.sample_rows import Judgements, by_reading
from ..tables.samples import Cases, Elicited, Evidence, Forecasts, Readouts, Sample
from .rejection import readout_agreement as agreement_of
from .rejection_metrics import sampling_floor

NAMES = {"pearson": "correlation", "pearson_within": "within questions", "icc21": "ICC(2,1)", "bias": "mean difference"}


@metric("A8", "judge_<name> for each of two or more [, question, trajectory, step]", Judgements, place=180)
def judges_lines(sample: Judgements, how: Resampling) -> Iterator[Line]:
    """Agreement of each two judges on beliefs, and on updates if there are steps; 1 is the same number throughout."""
    for i, j in combinations(range(len(sample.judges)), 2):
        both = f"{sample.judges[i]} and {sample.judges[j]}"
        part = f"{sample.judges[i]} - {sample.judges[j]}"
        x, y = sample.readings[:, i], sample.readings[:, j]
        score = with_drop_reasons(judge_agreement(x, y, sample.clusters, how=how), sample, x + y)
        yield Line("agreement", f"concordance of {both}", score, _beside(score), part=part)
        if sample.changes is not None:
            score = judge_agreement(sample.changes[:, i], sample.changes[:, j], sample.change_clusters, how=how)
            yield Line("agreement_update", f"concordance of {both}, updates", score, _beside(score), part=part)


def _beside(score: Agreement) -> Mapping[str, str]:
    beside = {}
    for name, label in NAMES.items():
        value = getattr(score, name)
        if np.isfinite(value):
            lo, hi = score.intervals.get(name, (np.nan, np.nan))
            beside[label] = f"{value:.3f}" + (f" [{lo:.3f}, {hi:.3f}]" if np.isfinite(lo) else "")
    if np.isfinite(score.spearman):
        beside["by ranks"] = f"{score.spearman:.3f}"
    return beside


@metric(
    "B8, B12",
    "free_<option> and closed_<option> for each of two or more [, context; with item, rejected]",
    Readouts,
    place=190,
)
def readout_agreement_lines(sample: Readouts, how: Resampling) -> Iterator[Line]:
    """Do free answers and a closed set give the same belief? 1 if so; it is no calibration to what is true."""
    values = agreement_of(sample.free, sample.closed)
    floor = sampling_floor(sample.free, sample.n_free, sample.n_closed)
    contexts = np.zeros(len(values), dtype=str) if sample.context is None else sample.context.astype(str)
    for context in dict.fromkeys(contexts.tolist()):
        at = contexts == context
        here, owners = values[at], clusters_of(sample)[at]
        score = cluster_mean(here, owners, within=UNIT, how=how)
        beside = bounds(here)
        used = at & np.isfinite(values)
        if floor is not None and used.any():
            beside["expected of one belief, counted so often"] = f"{1 - floor[used].mean():.4f}"
        name = f"agreement_{context}" if context else "agreement"
        quantity = "agreement of the read-outs" + (f", {context}" if context else "")
        yield Line(name, quantity, score, beside)
        if sample.included is not None:
            score = cluster_mean(np.where(sample.included[at], here, np.nan), owners, within=UNIT, how=how)
            yield Line(f"{name}_included", f"{quantity}, undefined ratios left out", score)


# How much of a read-out is the belief, where it was read several times? (METRICS F5)


def item_clusters(sample: Sample) -> Array:
    """[items] cluster of each item, in the order of `by_reading`."""
    assert sample.item is not None
    return clusters_of(sample)[np.unique(sample.item.astype(str), return_index=True)[1]]


def reliability_of(readings: Array, clusters: Array, how: Resampling) -> Reliability:
    """ICC of readings [items, r]; over clusters [items] where these hold several items."""
    groups = clusters if len(set(clusters)) < len(clusters) else None
    return judged(reliability_icc(readings, groups, how=how))


def judged(score: Reliability) -> Reliability:
    """With the status of a wording study where it is not above zero: the readings then do not read one belief. Below
    zero it is no number, since it is no share of anything: how far below is the bias between them.
    """
    if score.icc1 < 0:
        return replace(score, icc1=NAN, ci_lo=NAN, ci_hi=NAN, status=NOT_ESTIMABLE)
    return replace(score, status="weak_reliability") if score.status == "ok" and not score.ci_lo > 0 else score


@metric(
    "F5",
    "p_x, p_y, p_y_given_x, posterior; or p, cond_1, weight_1, ...; or belief, outcome; with item and --replicates",
    Evidence,
    Cases,
    Forecasts,
    needs=("replicate",),
    place=500,
)
def reliability_lines(sample: Evidence | Cases | Forecasts, how: Resampling) -> Iterator[Line]:
    """Share of the spread of readings that lies between items; the rest is noise of reading."""
    for name in ("p_x", "p_y_given_x", "p_y", "posterior", "p", "belief"):
        values = getattr(sample, name, None)
        if values is not None:
            score = reliability_of(by_reading(sample, values), item_clusters(sample), how)
            yield Line(f"reliability_{name}", f"reliability of one reading of {name}", score)


@metric("F5, G1", "a run", Elicited, place=510)
def elicited_lines(sample: Elicited, how: Resampling) -> Iterator[Line]:
    """How much of the answers the beliefs speak for, how many have none, and how alike two readings of one are."""
    clusters = clusters_of(sample)
    missing = np.isnan(sample.belief).astype(np.float64)
    covered = cluster_mean(sample.coverage, clusters, within=UNIT, how=how)
    yield Line("coverage", "share of the answers that count", covered)
    yield Line("unparsed", "read-outs without a belief", cluster_share(missing, clusters, how=how))
    if sample.readings is not None and np.isfinite(sample.readings[:, 1]).any():
        score = judged(reliability_icc(sample.readings, clusters, how=how))
        mean = method_reliability(sample.readings, clusters, how=how)
        known = np.isfinite(mean.reliability) or mean.status == NOT_ESTIMABLE
        text = {"of the mean, without the bias": share_text(mean.reliability, mean.ci_lo, mean.ci_hi)} if known else {}
        yield Line("reliability", "reliability over readings", score, text)
        if sample.kind == "exact":
            bias = cluster_mean(sample.readings[:, 0] - sample.readings[:, 1], clusters, how=how)
            yield Line("bias", "first reading minus second", bias)


@metric("F7", "a run with paraphrases", Elicited, needs=("wordings",), place=520)
def wordings_lines(sample: Elicited, how: Resampling) -> Iterator[Line]:
    """How much of a belief hangs on the wording in which it was asked for?"""
    assert sample.wordings is not None
    study = wording_study(sample.wordings, clusters_of(sample), how=how)
    beside = {
        "wordings": f"{study.n_wordings}",
        "of their mean": share_text(study.reliability_mean, study.mean_lo, study.mean_hi),
        "variance between items, wordings, and of item x wording": (
            f"{study.item:.3g}, {study.wording:.3g}, {study.item_by_wording:.3g}"
        ),
    }
    if study.reliability_one < 0:
        study = replace(study, reliability_one=NAN, ci_lo=NAN, ci_hi=NAN, status=NOT_ESTIMABLE)
    yield Line("reliability_wording", RELIABILITY, study, beside)
