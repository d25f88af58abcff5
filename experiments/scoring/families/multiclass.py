"""Beliefs over the options of a question against the true one: right, proper, calibrated? (METRICS C8, E14-E16, G1)"""

from collections.abc import Iterator

import numpy as np

from ....metrics import (
    LOSS,
    UNIT,
    ClusterMean,
    calibration_error,
    calibration_slope,
    cluster_mean,
    cluster_share,
    option_losses,
    option_scores,
    order_effect,
    ratio_of_sums,
)
from ....metrics.decision.multiclass import PER_BIN
from ...tables.cells import Array
from ...tables.samples import Multiclass
from ..number import Resampling
from .martingale import LEVEL
from .metric import Compared, Line, clusters_of, compare_mean, metric, with_drop_reasons

GUESS, EVEN, UNBINNED = "of a guess", "of equally likely options", "cannot be measured"
"""What is told beside a number: those of a belief that knows nothing, and why there is none."""
TABLE = "a belief table with options and outcome, 1 in the row of the true option"


def _compare_accuracy(sample: Multiclass) -> Compared:
    return compare_mean("accuracy", option_scores(sample.belief, sample.truth).correct, sample)


def _compare_log_loss(sample: Multiclass) -> Compared:
    foreseen = sample.belief, option_losses(sample.belief).log_loss
    return compare_mean("log_loss", option_scores(sample.belief, sample.truth).log_loss, sample, foreseen=foreseen)


@metric("C8", TABLE, Multiclass, compare=_compare_accuracy)
def accuracy(sample: Multiclass, how: Resampling) -> Iterator[Line]:
    """Share of questions whose likeliest option is the true one; tied options share the credit."""
    right = option_scores(sample.belief, sample.truth).correct
    guess = {GUESS: f"{np.mean(1 / sample.sizes):.3f}"}
    score = with_drop_reasons(cluster_share(right, clusters_of(sample), **how.interval), sample, right)
    yield Line("accuracy", "accuracy", score, guess)


@metric("E14", TABLE, Multiclass, compare=_compare_log_loss)
def option_score(sample: Multiclass, how: Resampling) -> Iterator[Line]:
    """How near beliefs over all options are to the true one: Brier score, in [0, 2], and log-loss, in nats."""
    found = option_scores(sample.belief, sample.truth)
    even = {"brier": np.mean(1 - 1 / sample.sizes), "log_loss": np.mean(np.log(sample.sizes))}
    brier, loss = ({EVEN: f"{value:.3f}"} for value in even.values())
    yield _mean("brier_multiclass", "Brier score over all options", sample, found.brier, how, brier, (0.0, 2.0))
    yield _mean("log_loss", "log-loss, nats", sample, found.log_loss, how, loss, LOSS)


@metric("E15, A10", TABLE, Multiclass)
def option_calibration(sample: Multiclass, how: Resampling) -> Iterator[Line]:
    """Is the likeliest option right as often as its probability says? Error 0 and slope 1 if so."""
    found, owners = option_scores(sample.belief, sample.truth), clusters_of(sample)
    level = how.level or LEVEL
    error = calibration_error(found.confidence, found.hit, owners, level=level)
    beside = {
        "as published (ECE)": f"{error.ece:.3f}; of a calibrated model {error.ece_by_chance:.3f}",
        "bins": str(len(error.bins)),
    }
    yield Line(
        "calibration_error",
        "calibration error, RMS, less chance",
        with_drop_reasons(error, sample, found.hit),
        beside if error.bins else {UNBINNED: f"with {error.n_rows} questions; two bins take {2 * PER_BIN}"},
    )
    slope = calibration_slope(found.confidence, found.hit, owners, level=level)
    told = {"p tests": "a slope of 1", "intercept": f"{slope.intercept:.3f}"}
    yield Line(
        "calibration_top",
        "calibration slope of the likeliest option",
        with_drop_reasons(slope, sample, found.hit),
        told,
    )
    yield _mean("confidence", "mean probability of the likeliest option", sample, sample.belief.max(axis=1), how)


@metric("G1", "a belief table with coverage", Multiclass, needs=("coverage",))
def option_coverage(sample: Multiclass, how: Resampling) -> Iterator[Line]:
    """How much of what the model would say the options are together."""
    assert sample.coverage is not None
    median = {"median": f"{np.nanmedian(sample.coverage):.3g}"} if np.isfinite(sample.coverage).any() else {}
    yield _mean("coverage", "coverage", sample, sample.coverage, how, median)


@metric("E16", "questions that were read in several orders of their options", Multiclass, needs=("by_order",))
def option_order(sample: Multiclass, how: Resampling) -> Iterator[Line]:
    """How far the order in which options are listed moves the belief: 0 if only what they say counts."""
    assert sample.by_order is not None
    moved = np.array([order_effect(one).moved for one in sample.by_order])
    yield _mean("order_effect", "distance between orders (total variation)", sample, moved, how)
    sums = np.array([[one.of_order, one.of_options] for one in map(order_effect, sample.by_order)])
    owners, known = clusters_of(sample), np.isfinite(sums).all(axis=1)
    share = ratio_of_sums(sums[known], owners[known], within=UNIT, **how.interval)
    yield Line("order_share", "share of the variance between options that the order makes", share)
    yield Line("by_place", "questions whose belief follows the place of the options", by_place(sample, how))


def by_place(sample: Multiclass, how: Resampling) -> ClusterMean:
    """Share of the questions whose belief follows the place of the options (METRICS E16); what was read in one order
    only is dropped. The sample has orders.
    """
    assert sample.by_order is not None
    follows = np.array([order_effect(one).follows_place for one in sample.by_order])
    return with_drop_reasons(cluster_share(follows, clusters_of(sample), **how.interval), sample, follows)


def _mean(
    name: str,
    quantity: str,
    sample: Multiclass,
    values: Array,
    how: Resampling,
    beside: dict[str, str] | None = None,
    within: tuple[float, float] = UNIT,
) -> Line:
    score = cluster_mean(values, clusters_of(sample), within=within, **how.interval)
    return Line(name, quantity, with_drop_reasons(score, sample, values), beside or {})


METRICS = (accuracy, option_score, option_calibration, option_coverage, option_order)
