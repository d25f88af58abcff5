"""How much of a read-out is the belief, where it was read several times? (METRICS F5)"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ....metrics import (
    UNIT,
    Reliability,
    cluster_mean,
    cluster_share,
    method_reliability,
    reliability_icc,
    wording_study,
)
from ...tables.cells import Array
from ...tables.rows import by_reading
from ...tables.samples import Cases, Elicited, Evidence, Forecasts, Sample
from ..number import Resampling
from .metric import Line, clusters_of, metric


def item_clusters(sample: Sample) -> Array:
    """[items] cluster of each item, in the order of `by_reading`."""
    assert sample.item is not None
    return clusters_of(sample)[np.unique(sample.item.astype(str), return_index=True)[1]]


def reliability_of(readings: Array, clusters: Array, how: Resampling) -> Reliability:
    """ICC of readings [items, r]; over clusters [items] where these hold several items."""
    groups = clusters if len(set(clusters)) < len(clusters) else None
    return judged(reliability_icc(readings, groups, **how.interval))


def judged(score: Reliability) -> Reliability:
    """With the status of a wording study where it is not above zero: the readings then do not read one belief, and how
    far below zero it lies is the bias between them (an order, a label), not a share of anything.
    """
    return replace(score, status="weak_reliability") if score.status == "ok" and not score.ci_lo > 0 else score


@metric(
    "F5",
    "p_x, p_y, p_y_given_x, posterior; or p, cond_1, weight_1, ...; or belief, outcome; with item and --replicates",
    Evidence,
    Cases,
    Forecasts,
    needs=("replicate",),
)
def reliability(sample: Evidence | Cases | Forecasts, how: Resampling) -> Iterator[Line]:
    """Share of the spread of readings that lies between items; the rest is noise of reading."""
    for name in ("p_x", "p_y_given_x", "p_y", "posterior", "p", "belief"):
        values = getattr(sample, name, None)
        if values is not None:
            score = reliability_of(by_reading(sample, values), item_clusters(sample), how)
            yield Line(f"reliability_{name}", f"reliability of one reading of {name}", score)


@metric("F5, G1", "a run", Elicited)
def elicited(sample: Elicited, how: Resampling) -> Iterator[Line]:
    """How much of the answers the beliefs speak for, how many have none, and how alike two readings of one are."""
    clusters = clusters_of(sample)
    missing = np.isnan(sample.belief).astype(np.float64)
    yield Line(
        "coverage",
        "share of the answers that count",
        cluster_mean(sample.coverage, clusters, within=UNIT, **how.interval),
    )
    yield Line("unparsed", "read-outs without a belief", cluster_share(missing, clusters, **how.interval))
    if sample.readings is not None and np.isfinite(sample.readings[:, 1]).any():
        score = judged(reliability_icc(sample.readings, clusters, **how.interval))
        mean = method_reliability(sample.readings, clusters, **how.interval)
        beside = {"of the mean, without the bias": f"{mean.reliability:.3f} [{mean.ci_lo:.3f}, {mean.ci_hi:.3f}]"}
        yield Line("reliability", "reliability of one reading", score, beside if np.isfinite(mean.reliability) else {})
        if sample.kind == "exact":
            bias = cluster_mean(sample.readings[:, 0] - sample.readings[:, 1], clusters, **how.interval)
            yield Line("bias", "first reading less second", bias)


@metric("F7", "a run with paraphrases", Elicited, needs=("wordings",))
def wordings(sample: Elicited, how: Resampling) -> Iterator[Line]:
    """How much of a belief hangs on the wording in which it was asked for?"""
    assert sample.wordings is not None
    study = wording_study(sample.wordings, clusters_of(sample), **how.interval)
    beside = {
        "wordings": f"{study.n_wordings}",
        "of their mean": f"{study.reliability_mean:.3f} [{study.mean_lo:.3f}, {study.mean_hi:.3f}]",
        "variance between items, wordings, and of item x wording": (
            f"{study.item:.3g}, {study.wording:.3g}, {study.item_by_wording:.3g}"
        ),
    }
    yield Line("reliability_wording", "reliability of one wording", study, beside)


METRICS = (reliability, elicited, wordings)
