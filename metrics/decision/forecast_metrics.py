"""Tables of beliefs and outcomes: did they come true, and are they proper and calibrated? (METRICS A7, A10, C8, D10,
E10, E14-E16)
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..bayes.posterior import bayes_error
from ..contract import Array, Resampling
from ..inference.means import LOSS, UNIT, ClusterMean, ratio_of_sums
from ..inference.reliability import share_text
from ..martingale.brier import brier as brier_score
from ..martingale.brier import brier_update as update_score
from ..martingale.slope import calibration_slope
from ..martingale.update_metrics import PAIRED, compare_calibration
from ..metric import (
    Compared,
    Line,
    bounds,
    clusters_of,
    compare_mean,
    compare_rms,
    known_outcome,
    mean_of,
    metric,
    share_of,
    with_drop_reasons,
)
from ..tables.sample_rows import Updates, part_of
from ..tables.samples import Forecasts, Hits, Multiclass
from .multiclass import PER_BIN, calibration_error, option_losses, option_scores, order_effect
from .prediction import logloss_improvement

OUTCOMES = np.array([0.0, 1.0])
BELIEFS = f"outcome, and belief; or {PAIRED}"


def _foreseen(belief: Array, less: Array | None = None) -> tuple[Array, Array]:
    """Probability [n, 2] and squared distance of either outcome; `less` the distance of another belief."""
    loss = (belief[:, None] - OUTCOMES) ** 2 - (0.0 if less is None else (less[:, None] - OUTCOMES) ** 2)
    return np.column_stack([1 - belief, belief]), loss


def _compare_brier(sample: Updates | Forecasts) -> Compared:
    plain = isinstance(sample, Forecasts)
    name, belief = ("brier", sample.belief) if plain else ("brier_post", sample.whole.posterior)
    squares = (belief - known_outcome(sample)) ** 2
    return compare_mean(name, squares, sample.whole, foreseen=_foreseen(belief), limits=UNIT)


def _compare_brier_update(sample: Updates) -> Compared:
    pairs, outcome = sample.whole, known_outcome(sample)
    change = (pairs.posterior - outcome) ** 2 - (pairs.prior - outcome) ** 2
    foreseen = _foreseen(pairs.posterior, pairs.prior)
    return compare_mean("brier_update", change, pairs, foreseen=foreseen, limits=(-1.0, 1.0))


def _begun(sample: Forecasts | Updates) -> Array:
    """[n] the beliefs, of updates those before."""
    return sample.belief if isinstance(sample, Forecasts) else sample.whole.prior


def _compare_calibration(sample: Forecasts | Updates) -> Compared:
    return compare_calibration("calibration", _begun(sample), known_outcome(sample), sample.whole)


@metric("A7", BELIEFS, Updates, Forecasts, needs=("outcome",), compare=_compare_brier, place=80)
def brier_lines(sample: Updates | Forecasts, how: Resampling) -> Iterator[Line]:
    """Mean squared distance from what came true; always saying one half scores 0.25."""
    outcome, rows = known_outcome(sample), sample.whole
    named = {("brier", "Brier score"): _begun(sample)}
    if isinstance(sample, Updates):
        named = {
            ("brier_prior", "Brier score of the prior"): sample.whole.prior,
            ("brier_post", "Brier score of the posterior"): sample.whole.posterior,
        }
    for (name, quantity), belief in named.items():
        score = with_drop_reasons(brier_score(belief, outcome, rows.clusters, how=how), rows, belief, outcome)
        yield Line(name, quantity, score, bounds((belief - outcome) ** 2))


@metric("A7", f"outcome, and {PAIRED}", Updates, needs=("outcome",), compare=_compare_brier_update, place=90)
def brier_update_lines(sample: Updates, how: Resampling) -> Iterator[Line]:
    """What the update did to the Brier score; negative is better."""
    pairs, outcome = sample.whole, known_outcome(sample)
    score = update_score(pairs.prior, pairs.posterior, outcome, pairs.clusters, how=how)
    beside = {
        "the sum of the mean squared update": f"{score.mean_sq_update:.3f}",
        "and of 2 mean((posterior - prior)(prior - outcome))": f"{score.cross:z.3f}",
    }
    score = with_drop_reasons(score, pairs, pairs.posterior - pairs.prior, outcome)
    yield Line("brier_update", "change of the Brier score", score, beside)


@metric("A10", BELIEFS, Updates, Forecasts, needs=("outcome",), compare=_compare_calibration, place=100)
def calibration_lines(sample: Updates | Forecasts, how: Resampling) -> Iterator[Line]:
    """Slope of the outcome on the belief: 1 is calibrated, below 1 too extreme, above 1 too timid."""
    belief, outcome, rows = _begun(sample), known_outcome(sample), sample.whole
    score = calibration_slope(belief, outcome, rows.clusters, how=how)
    beside = {"p tests": "a slope of 1", "intercept": f"{score.intercept:z.3f}"}
    quantity = "calibration slope" + ("" if isinstance(sample, Forecasts) else " of the prior")
    yield Line("calibration", quantity, with_drop_reasons(score, rows, belief, outcome), beside)


def _compare_truth(sample: Forecasts) -> Compared | None:
    """Of one prompt: where there are several, the number of each is another."""
    assert sample.p_star is not None
    if sample.prompt is not None and len(set(sample.prompt.tolist())) > 1:
        return None
    return compare_rms("rmse_truth", sample.belief - sample.p_star, sample)


@metric(
    "E10", "belief, p_star [, outcome, prompt]", Forecasts, needs=("p_star",), compare=_compare_truth, place=110,
    margin="rmse",
)  # fmt: skip
def truth_lines(sample: Forecasts, how: Resampling) -> Iterator[Line]:
    """How far beliefs are from the true probability; by prompt, where there are several."""
    assert sample.p_star is not None
    known = replace(sample, why=None, clusters=clusters_of(sample))
    prompts = np.zeros(len(known.belief), dtype=str) if sample.prompt is None else sample.prompt.astype(str)
    for prompt in dict.fromkeys(prompts.tolist()):
        part, truth = part_of(known, prompts == prompt, prompt), sample.p_star[prompts == prompt]
        score = bayes_error(part.belief, truth, part.clusters, how=how)
        beside = {"mean absolute error": f"{score.mae:.3f}", "bias": f"{score.bias:+z.3f}"}
        if part.outcome is not None:
            loss = logloss_improvement(part.belief, truth, part.outcome)
            briers = [brier_score(p, part.outcome).brier for p in (part.belief, truth)]
            beside["Brier score, and of the truth itself"] = f"{briers[0]:.3f}, {briers[1]:.3f}"
            beside["log-loss, and of the truth itself"] = f"{loss.ll1:.3f}, {loss.ll2:.3f}"
        quantity = "RMSE to the truth" + (f", {prompt}" if prompt else "")
        yield Line("rmse_truth", quantity, with_drop_reasons(score, part, part.belief - truth), beside, part=prompt)


@metric("D10", "k, n [, outcome]", Hits, place=120)
def hybrid_lines(sample: Hits, how: Resampling) -> Iterator[Line]:
    """Beliefs that are k of n answers: their mean, and how much of their spread is luck of the draw."""
    p, n = sample.belief, sample.n
    several = np.isfinite(p) & (n > 1)
    beside = {}
    if several.sum() > 1:
        noise = float((p[several] * (1 - p[several]) / (n[several] - 1)).mean())  # unbiased for the variance of k / n
        spread = float(p[several].var(ddof=1))
        beside["SD of one belief by luck of the draw"] = f"{np.sqrt(noise):.3f}"
        beside["SD of all"] = f"{np.sqrt(spread):.3f}"
        if spread > 0:
            beside["share of the spread that luck does not make"] = share_text(1 - noise / spread)
    yield Line("hybrid", "mean of k / n", mean_of(sample, p, how, UNIT), beside)


# Beliefs over the options of a question against the true one: right, proper, calibrated? (METRICS C8, E14-E16, G1)

CHANCE, UNBINNED = "chance:", "cannot be measured"
"""What is told beside a number: that of equally likely options, and why there is none."""
TABLE = "a belief table with options and outcome, 1 in the row of the true option"


def _compare_accuracy(sample: Multiclass) -> Compared:
    return compare_mean("accuracy", option_scores(sample.belief, sample.truth).correct, sample, limits=UNIT)


def _compare_scores(sample: Multiclass) -> list[Compared]:
    scores, (brier, log_loss) = option_scores(sample.belief, sample.truth), option_losses(sample.belief)
    return [
        compare_mean("brier_multiclass", scores.brier, sample, foreseen=(sample.belief, brier), limits=(0.0, 2.0)),
        compare_mean("log_loss", scores.log_loss, sample, foreseen=(sample.belief, log_loss), limits=LOSS),
    ]


def _compare_top(sample: Multiclass) -> Compared:
    scores = option_scores(sample.belief, sample.truth)
    return compare_calibration("calibration_top", scores.confidence, scores.hit, sample)


@metric("C8", TABLE, Multiclass, compare=_compare_accuracy, place=130)
def accuracy_lines(sample: Multiclass, how: Resampling) -> Iterator[Line]:
    """Share of questions whose likeliest option is the true one; tied options share the credit."""
    right = option_scores(sample.belief, sample.truth).correct
    yield Line("accuracy", "accuracy", share_of(sample, right, how), {CHANCE: f"{np.mean(1 / sample.sizes):.3f}"})


@metric("E14", TABLE, Multiclass, compare=_compare_scores, place=140)
def option_score_lines(sample: Multiclass, how: Resampling) -> Iterator[Line]:
    """How near beliefs over all options are to the true one: Brier score, in [0, 2], and log-loss, in nats."""
    scores = option_scores(sample.belief, sample.truth)
    brier, loss = mean_of(sample, scores.brier, how, (0.0, 2.0)), mean_of(sample, scores.log_loss, how, LOSS)
    yield Line(
        "brier_multiclass", "Brier score over all options", brier, {CHANCE: f"{np.mean(1 - 1 / sample.sizes):.3f}"}
    )
    yield Line("log_loss", "log-loss, nats", loss, {CHANCE: f"{np.mean(np.log(sample.sizes)):.3f}"})


@metric("E15, A10", TABLE, Multiclass, compare=_compare_top, place=150)
def option_calibration_lines(sample: Multiclass, how: Resampling) -> Iterator[Line]:
    """Is the likeliest option right as often as its probability says? Error 0 and slope 1 if so."""
    scores, owners = option_scores(sample.belief, sample.truth), clusters_of(sample)
    error = calibration_error(scores.confidence, scores.hit, owners, how=how)
    beside = {
        "as published (ECE)": f"{error.ece:.3f}; of a calibrated model {error.ece_by_chance:.3f}",
        "bins": str(len(error.bins)),
    }
    beside = beside if error.bins else {UNBINNED: f"with {error.n_rows} questions; two bins take {2 * PER_BIN}"}
    error = with_drop_reasons(error, sample, scores.hit)
    yield Line("calibration_error", "calibration error, RMS, minus chance", error, beside)
    slope = calibration_slope(scores.confidence, scores.hit, owners, how=how)
    notes = {"p tests": "a slope of 1", "intercept": f"{slope.intercept:z.3f}"}
    slope = with_drop_reasons(slope, sample, scores.hit)
    yield Line("calibration_top", "calibration slope of the likeliest option", slope, notes)
    confidence = mean_of(sample, sample.belief.max(axis=1), how, UNIT)
    yield Line("confidence", "mean probability of the likeliest option", confidence)


@metric("G1", "a belief table with coverage", Multiclass, needs=("coverage",), place=160)
def option_coverage_lines(sample: Multiclass, how: Resampling) -> Iterator[Line]:
    """How much of what the model would say the options are together."""
    assert sample.coverage is not None
    median = {"median": f"{np.nanmedian(sample.coverage):.3g}"} if np.isfinite(sample.coverage).any() else {}
    yield Line("coverage", "coverage", mean_of(sample, sample.coverage, how, UNIT), median)


@metric(
    "E16", "questions that were read in several orders of their options", Multiclass, needs=("by_order",), place=170
)
def option_order_lines(sample: Multiclass, how: Resampling) -> Iterator[Line]:
    """How far the order in which options are listed moves the belief: 0 if only what they say counts."""
    assert sample.by_order is not None
    moved, *sums = np.array([order_effect(readings) for readings in sample.by_order]).T
    yield Line("order_effect", "distance between orders (total variation)", mean_of(sample, moved, how, UNIT))
    of_both = np.column_stack(sums)
    known = np.isfinite(of_both).all(axis=1)
    share = ratio_of_sums(of_both[known], clusters_of(sample)[known], within=UNIT, how=how)
    yield Line("order_share", "share of the variance between options that the order makes", share)
    yield Line("by_place", "questions whose belief follows the place of the options", by_place(sample, how))


def by_place(sample: Multiclass, how: Resampling) -> ClusterMean:
    """Share of questions whose belief follows the options' place (METRICS E16), of a sample read in several orders."""
    assert sample.by_order is not None
    follows = np.array([order_effect(readings).follows_place for readings in sample.by_order])
    return share_of(sample, follows, how)
