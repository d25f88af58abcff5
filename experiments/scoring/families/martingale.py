"""Can the direction of an update be foreseen? (METRICS A1-A5, A11)"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from ....metrics import (
    MartingaleScore,
    MartingaleWithin,
    Score,
    WordingStudy,
    corrected_slope,
    martingale_iv,
    martingale_score,
    martingale_within,
    paired_slope_difference,
    wording_study,
)
from ....metrics import martingale_tests as battery
from ....metrics.logodds import clipped_logit
from ...tables.cells import Array
from ...tables.rows import by_reading
from ...tables.updates import STEPWISE, Pairs, Updates
from ..number import Resampling
from .metric import (
    FARTHEST,
    WITHHELD,
    Compared,
    Line,
    claimed,
    clusters_of,
    keys_of,
    metric,
    tested_mean,
    tosted,
    with_drop_reasons,
)
from .reliability import item_clusters, reliability_of

PAIRED = "prior, posterior; or trajectories (b_0, b_1, ...; or trajectory, step, belief)"
LEVEL = 0.95
EXTREME = 0.05
"""If most beliefs are nearer to 0 or 1, before and after, a shift is judged small by its log-odds."""

Slope = MartingaleScore | MartingaleWithin
S = TypeVar("S", bound=Score)


def _compare_slope(sample: Updates) -> Compared:
    pairs = sample.whole  # steps of two kinds, or of two models, need not be as many
    cell = np.zeros(len(pairs.prior)) if pairs.cell is None else pairs.cell

    def difference(one: Any, two: Any, clusters: Array, family_size: int, how: Resampling) -> Any:
        return paired_slope_difference(one[:2], two[:2], clusters, cells=one[2], level=how.level or LEVEL)

    columns = (pairs.prior, pairs.posterior, cell)
    return Compared("M", keys_of(pairs), clusters_of(pairs), columns, difference, *_slope_of_sums(*columns))


def _slope_of_sums(prior: Array, posterior: Array, cell: Array) -> tuple[Array, Callable[[Array], Array]]:
    """Moments [n, 5 cells] and the slope within cells from their sums (METRICS A2b)."""
    update = posterior - prior
    own = np.column_stack([np.ones(len(prior)), prior, update, prior * prior, prior * update])
    _, codes = np.unique(cell, return_inverse=True)
    cells = int(codes.max(initial=0)) + 1
    moments = np.zeros((len(prior), cells, 5))
    moments[np.arange(len(prior)), codes] = own
    moments[~np.isfinite(own).all(axis=1)] = np.nan

    def slope(sums: Array) -> Array:
        n, b, d, bb, bd = np.moveaxis(sums.reshape(len(sums), cells, 5), 2, 0)
        some = np.where(n > 0, n, 1.0)
        return (bd - b * d / some).sum(axis=1) / (bb - b * b / some).sum(axis=1)

    return moments.reshape(len(prior), cells * 5), slope


@metric(
    "A1, A2, A2b, A11",
    PAIRED,
    Updates,
    compare=_compare_slope,
)
def martingale(sample: Updates, how: Resampling) -> Iterator[Line]:
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
        yield Line(f"mean_update{step}", f"mean update{suffix}", mean, equivalence=_small_shift(pairs, how))


def _balanced(pairs: Pairs) -> Array:
    """[n] 1 / pairs of the question that are whole."""
    _, of = np.unique(clusters_of(pairs).astype(str), return_inverse=True)
    whole = np.bincount(of, np.isfinite(pairs.posterior - pairs.prior))
    return 1 / np.maximum(whole, 1)[of]


def _small_shift(pairs: Pairs, how: Resampling) -> Any:
    """Whether beliefs may be said not to move on average: in log-odds, where most of them are extreme."""
    both = np.stack([pairs.prior, pairs.posterior])
    clusters = clusters_of(pairs)
    extreme = np.abs(both - 0.5) > 0.5 - EXTREME  # what is missing is not
    if (extreme.sum(axis=1) > np.isfinite(both).sum(axis=1) / 2).all():
        odds, _ = clipped_logit(both, "beliefs")
        return claimed(odds[1] - odds[0], clusters, "logodds", how, bounded_below=False, worst=FARTHEST)
    return claimed(both[1] - both[0], clusters, "intercept", how, bounded_below=False, worst=1.0)


def wordings_of(sample: Updates, pairs: Pairs, how: Resampling) -> WordingStudy | None:
    """How well one wording, or one replicate reading, ranks the priors as others do; None: there is but one."""
    if pairs.wordings is not None:
        _, first = np.unique(pairs.wordings, axis=0, return_index=True)  # a start is every trajectory's
        readings = pairs.wordings[first]
        if pairs.cell is not None:  # what cells differ by is not in the slope within them
            readings = readings - pd.DataFrame(readings).groupby(pairs.cell[first]).transform("mean").to_numpy()
        return wording_study(readings, clusters_of(pairs)[first], **how.interval)
    if sample.replicate is not None and len(set(sample.replicate.astype(str))) > 1:
        return wording_study(by_reading(sample, pairs.prior), item_clusters(sample), **how.interval)
    return None


def disagree(study: WordingStudy | None) -> bool:
    """Whether the wordings do not read one belief, so that there is no slope of it."""
    return study is not None and study.status == "weak_reliability"


def withheld(score: S) -> S:
    """What is left of a slope then: its denominators."""
    told = {name: getattr(score, name) for name in ("n_rows", "n_clusters", "n_dropped", "reasons", "params")}
    return type(score)(status=WITHHELD, **told)


def _slope(
    metric_name: str,
    quantity: str,
    pairs: Pairs,
    study: WordingStudy | None,
    how: Resampling,
    weights: Array | None = None,
) -> Line:
    """The slope, within cells where there are several; withheld where the wordings do not read one belief."""
    prior, post, clusters, level = pairs.prior, pairs.posterior, pairs.clusters, how.level or LEVEL
    score: Slope
    if pairs.cell is None or len(set(pairs.cell)) < 2:
        score = martingale_score(prior, post, clusters, se="CR3", weights=weights, level=level)
    else:
        score = martingale_within(prior, post, clusters, pairs.cell, weights=weights, level=level)
        quantity = f"{quantity}, within cells"
    score = withheld(score) if disagree(study) else score
    score = with_drop_reasons(score, pairs, pairs.posterior - pairs.prior)
    return Line(metric_name, quantity, score, _beside(score, study), tosted(score, "martingale"))


def _beside(score: Slope, study: WordingStudy | None) -> Mapping[str, str]:
    """What else is to be known of a slope."""
    slope, found = float(score.estimate), {}
    if isinstance(score, MartingaleWithin) and np.isfinite(score.M_pooled):
        found["between cells"] = f"{score.M_between:.3f}, with {score.between_share:.0%} of the spread of the priors"
        found["over all rows, which mixes the two,"] = f"{score.M_pooled:.3f}"
    if np.isfinite(score.effective_clusters):
        found["clusters that carry it"] = f"{score.effective_clusters:.1f} of {score.n_clusters}"
    if np.isfinite(score.mde):
        found["minimum detectable effect (80% power)"] = f"{score.mde:.3f}"
    if isinstance(score, MartingaleScore) and np.isfinite(score.p_iid):
        found["p as papers print it (rows independent, equal spread)"] = f"{score.p_iid:.3g}"
    if -1 < slope < 0:
        found[f"a prior reading of reliability {1 + slope:.2f}"] = "would show this alone"
    if study is None:
        found["reliability over wordings"] = "not measured"
    elif np.isfinite(study.reliability_one):
        found["reliability of one wording"] = f"{study.reliability_one:.2f} [{study.ci_lo:.2f}, {study.ci_hi:.2f}]"
        found[f"of the mean of {study.n_wordings}"] = f"{study.reliability_mean:.2f}"
    return found


@metric("A3, A4", PAIRED, Updates)
def martingale_tests(sample: Updates, how: Resampling) -> Iterator[Line]:
    """Slope, shift and any other shape of the update, tested as one family of three."""
    for name, pairs in sample.views.items():
        score = battery(pairs.prior, pairs.posterior, pairs.clusters, **how.test)
        each = {f"{test} p": f"{score.p_tests[test]:.3g}, adjusted {p:.3g}" for test, p in score.p_holm.items()}
        if score.joint_status not in ("ok", score.status):
            each["joint p"] += f" ({score.joint_status})"
        score = with_drop_reasons(score, pairs, pairs.posterior - pairs.prior)
        step, suffix = ("_step" if name == STEPWISE else ""), f", {name}" if name else ""
        yield Line(f"tests{step}", f"smallest adjusted p{suffix}", score, each)


@metric("A5, F5", "prior, posterior, item and --replicates", Updates, needs=("repeated",))
def martingale_replicates(sample: Updates, how: Resampling) -> Iterator[Line]:
    """How noisy the readings of the prior are, the M that this noise makes by itself, and M without it."""
    read = _repeated(sample)
    reliability = reliability_of(read.prior, read.clusters, how)
    note = {}
    if reliability.status == "ok":
        note["M of a perfect updater read with this noise"] = f"{reliability.icc1 - 1:.3f}"
    yield Line("reliability_prior", "reliability of one reading of the prior", reliability, note)
    if sample.kind != "exact":  # two orders of the options differ by more than noise
        found = corrected_slope(read.prior, read.posterior, read.clusters, **how.interval)
        together = {"slope on the mean of the readings, and its reliability": f"{found.M:.3f}, {found.reliability:.3f}"}
        yield Line("M_corrected", "M corrected for it", found, together)
    if read.prior.shape[1] > 1:
        note = {"instrument": "the first two readings of the prior, each for the other"}
        first, second = read.prior[:, 0], read.prior[:, 1]
        iv = martingale_iv(first, second, read.posterior, read.clusters, independent=read.independent, **how.interval)
        yield Line("M_iv", "M by split readings", iv, note)


class _Repeated(NamedTuple):
    """A prior that was read several times, and a posterior."""

    prior: Array
    """[n, r]"""
    posterior: Array
    """[n]"""
    clusters: Array
    independent: bool
    """Whether the posterior was read apart from all of these readings."""


def _repeated(sample: Updates) -> _Repeated:
    """Of three readings or more the last is the posterior's, and the prior's are the others."""
    pairs = sample.views[next(iter(sample.views))]
    if pairs.readings is not None:  # an exact belief is read in the same two orders, before and after
        return _Repeated(pairs.readings, pairs.posterior, clusters_of(pairs), sample.kind != "exact")
    prior, posterior = (by_reading(sample, values) for values in (sample.whole.prior, sample.whole.posterior))
    apart = prior.shape[1] > 2
    if apart:
        prior, posterior = prior[:, :-1], posterior[:, -1:]
    return _Repeated(prior, posterior.mean(axis=1), item_clusters(sample), apart)


METRICS = (
    martingale,
    martingale_tests,
    martingale_replicates,
)
