"""Can the direction of an update be foreseen? (METRICS A1-A5, A11)"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import stats

from ....metrics import (
    MartingaleScore,
    Reliability,
    Score,
    cluster_mean,
    disattenuated_slope,
    martingale_iv,
    martingale_moments,
    martingale_score,
    martingale_slope,
    sign_flip_test,
)
from ....metrics import martingale_tests as battery
from ....metrics.inference.intervals import t_interval
from ...tables.cells import Array
from ...tables.samples import STEPWISE, Pairs, Updates, by_reading
from ..number import Resampling
from .metric import Compared, Line, clusters_of, keys_of, metric, tosted, with_drop_reasons
from .reliability import item_clusters, reliability_of

PAIRED = "prior, posterior; or trajectories (b_0, b_1, ...; or trajectory, step, belief)"
LEVEL = 0.95
MANY_CLUSTERS = 5_000
"""Above this the p of a mean is by t, which sign flips of so many would agree with."""


def _compare_slope(sample: Updates) -> Compared:
    pairs = sample.whole  # steps of two kinds, or of two models, need not be as many
    moments = martingale_moments(pairs.prior, pairs.posterior)
    return Compared("M", keys_of(pairs), clusters_of(pairs), moments, martingale_slope)


@metric(
    "A1, A2, A11",
    PAIRED,
    Updates,
    compare=_compare_slope,
)
def martingale(sample: Updates, how: Resampling) -> Iterator[Line]:
    """Can the direction of an update be predicted from the prior, or is there a drift? 0 is coherent."""
    for name, pairs in sample.views.items():
        step, suffix = ("_step" if name == STEPWISE else ""), f", {name}" if name else ""
        yield _slope(f"M{step}", f"M{suffix}", pairs, how)
        if step:
            yield _slope("M_balanced", "M, questions weigh the same", pairs, how, _balanced(pairs))
        update = pairs.posterior - pairs.prior
        clusters = clusters_of(pairs)
        mean = cluster_mean(update, clusters, **how.interval)
        score = with_drop_reasons(replace(mean, **_p_of_mean(mean, update, clusters, how)), pairs, update)
        yield Line(f"mean_update{step}", f"mean update{suffix}", score, equivalence=tosted(score, "intercept"))


def _balanced(pairs: Pairs) -> Array:
    """[n] 1 / pairs of the question that are whole."""
    _, of = np.unique(clusters_of(pairs).astype(str), return_inverse=True)
    whole = np.bincount(of, np.isfinite(pairs.posterior - pairs.prior))
    return 1 / np.maximum(whole, 1)[of]


def _p_of_mean(mean: Score, values: Array, clusters: Array, how: Resampling) -> dict[str, Any]:
    """Of a mean of zero: by sign flips, or by t where clusters are so many that the two agree."""
    if mean.n_clusters > MANY_CLUSTERS and mean.se > 0:
        p = 2 * stats.t.sf(abs(mean.estimate) / mean.se, mean.n_clusters - 1)
        return {"p": float(p), "p_method": f"t over {mean.n_clusters} clusters"}
    flips = sign_flip_test(values, clusters, **how.test)
    return {"p": flips.p, "p_method": flips.p_method}


def _se(pairs: Pairs) -> Literal["CR1", "HC3"]:
    return "HC3" if pairs.clusters is None else "CR1"


def _slope(name: str, quantity: str, pairs: Pairs, how: Resampling, weights: Array | None = None) -> Line:
    clustered = pairs.clusters is not None
    score = martingale_score(
        pairs.prior, pairs.posterior, pairs.clusters, se=_se(pairs), weights=weights, **how.interval
    )
    beside = {}
    if np.isfinite(score.mde):
        beside["smallest |M| found with 80% power"] = f"{score.mde:.3f}"
    if np.isfinite(score.p_wild):
        beside["p by wild cluster bootstrap"] = f"{score.p_wild:.3g}"
    if np.isfinite(score.p_iid) and weights is None:
        beside["p as papers print it (rows independent, equal spread)"] = f"{score.p_iid:.3g}"
    score = with_drop_reasons(score, pairs, pairs.posterior - pairs.prior)
    df = (score.n_clusters - 1) if clustered else score.n_rows - 2
    return Line(name, quantity, score, beside, tosted(score, "martingale", df=df))


@metric("A3, A4", PAIRED, Updates)
def martingale_tests(sample: Updates, how: Resampling) -> Iterator[Line]:
    """Slope, shift and any other shape of the update, tested as one family of three."""
    for name, pairs in sample.views.items():
        score = battery(pairs.prior, pairs.posterior, pairs.clusters, **how.test)
        each = {f"{test} p": f"{score.p_tests[test]:.3g}, adjusted {p:.3g}" for test, p in score.p_holm.items()}
        score = with_drop_reasons(score, pairs, pairs.posterior - pairs.prior)
        step, suffix = ("_step" if name == STEPWISE else ""), f", {name}" if name else ""
        yield Line(f"tests{step}", f"smallest adjusted p{suffix}", score, each)


@metric("A5, F5", "prior, posterior, item and --replicates", Updates, needs=("repeated",))
def martingale_replicates(sample: Updates, how: Resampling) -> Iterator[Line]:
    """How noisy the readings of the prior are, the M that this noise makes by itself, and M without it."""
    read = _repeated(sample)
    reliability = reliability_of(read.prior, read.clusters, how)
    note = {}
    if np.isfinite(reliability.icc1):
        note["M of a perfect updater read with this noise"] = f"{reliability.icc1 - 1:.3f}"
    yield Line("reliability_prior", "reliability of one reading of the prior", reliability, note)
    if sample.kind != "exact":  # two orders of the options differ by more than noise
        yield Line("M_corrected", "M corrected for it", _corrected(read, reliability, how))
    if read.prior.shape[1] > 1:
        note = {"instrument": "the first two readings of the prior, each for the other"}
        iv = martingale_iv(read.prior[:, 0], read.prior[:, 1], read.posterior, read.clusters, **how.interval)
        yield Line("M_iv", "M by split readings", iv, note)


class _Repeated(NamedTuple):
    """A prior that was read several times."""

    prior: Array
    """[n, r]"""
    posterior: Array
    """[n]"""
    clusters: Array
    slope: MartingaleScore
    """Of what the update is regressed on."""
    averaged: bool
    """Whether that is the mean of the readings, or each of them."""


def _repeated(sample: Updates) -> _Repeated:
    first = sample.views[next(iter(sample.views))]
    if first.readings is not None:
        slope = martingale_score(first.prior, first.posterior, first.clusters, se=_se(first))
        return _Repeated(first.readings, first.posterior, clusters_of(first), slope, True)
    pairs = sample.whole
    prior, posterior = by_reading(sample, pairs.prior), by_reading(sample, pairs.posterior)
    later = posterior[:, 2] if prior.shape[1] > 2 else posterior.mean(axis=1)
    slope = martingale_score(pairs.prior, pairs.posterior, pairs.clusters, se=_se(pairs))
    return _Repeated(prior, later, item_clusters(sample), slope, False)


def _corrected(read: _Repeated, reliability: Reliability, how: Resampling) -> Score:
    """The slope, had the prior no noise; its interval takes the reliability for known."""
    of = reliability.icc_mean if read.averaged else reliability.icc1
    found = disattenuated_slope(read.slope.M, of, se=read.slope.se)
    lo, hi = t_interval(found.beta1, found.se, read.slope.n_clusters - 1, how.level or LEVEL)
    told = {name: getattr(read.slope, name) for name in ("n_rows", "n_clusters", "n_dropped", "reasons")}
    made = {"ci_lo": lo, "ci_hi": hi, "ci_method": f"{read.slope.ci_method}, reliability as known"}
    return replace(found, **told, **(made | {"status": read.slope.status} if found.status == "ok" else {}))


METRICS = (
    martingale,
    martingale_tests,
    martingale_replicates,
)
