"""Did beliefs come true, and are they what is true? (METRICS A7, A10, D10, E10)"""

from collections.abc import Iterator

import numpy as np

from ....metrics import UNIT, bayes_error, calibration_slope, cluster_mean, logloss_improvement
from ....metrics import brier as brier_score
from ....metrics import brier_update as update_score
from ...tables.cells import Array
from ...tables.rows import take
from ...tables.samples import Forecasts, Hits, Sample
from ...tables.updates import Updates
from ..number import Resampling
from .martingale import LEVEL, PAIRED
from .metric import Compared, Line, bounds, clusters_of, compare_mean, known_outcome, metric, with_drop_reasons

OUTCOMES = np.array([0.0, 1.0])


def _foreseen(belief: Array, less: Array | None = None) -> tuple[Array, Array]:
    """Probability [n, 2] and squared distance of either outcome; `less` the distance of another belief."""
    loss = (belief[:, None] - OUTCOMES) ** 2 - (0.0 if less is None else (less[:, None] - OUTCOMES) ** 2)
    return np.column_stack([1 - belief, belief]), loss


def _compare_brier(sample: Updates | Forecasts) -> Compared:
    outcome = known_outcome(sample)
    if isinstance(sample, Forecasts):
        return compare_mean("brier", (sample.belief - outcome) ** 2, sample, foreseen=_foreseen(sample.belief))
    ended = sample.whole.posterior
    return compare_mean("brier_post", (ended - outcome) ** 2, sample.whole, foreseen=_foreseen(ended))


def _compare_brier_update(sample: Updates) -> Compared:
    pairs, outcome = sample.whole, known_outcome(sample)
    change = (pairs.posterior - outcome) ** 2 - (pairs.prior - outcome) ** 2
    return compare_mean("brier_update", change, pairs, foreseen=_foreseen(pairs.posterior, pairs.prior))


@metric(
    "A7",
    f"outcome, and belief; or {PAIRED}",
    Updates,
    Forecasts,
    needs=("outcome",),
    compare=_compare_brier,
)
def brier(sample: Updates | Forecasts, how: Resampling) -> Iterator[Line]:
    """Mean squared distance from what came true; always saying one half scores 0.25."""
    if isinstance(sample, Forecasts):
        named = {("brier", "Brier score"): sample.belief}
        source: Sample = sample
    else:
        source = sample.whole
        named = {
            ("brier_prior", "Brier score of the prior"): sample.whole.prior,
            ("brier_post", "Brier score of the posterior"): sample.whole.posterior,
        }
    outcome = known_outcome(sample)
    for (name, quantity), belief in named.items():
        squared = (belief - outcome) ** 2
        score = with_drop_reasons(
            brier_score(belief, outcome, source.clusters, **how.interval), source, belief, outcome
        )
        yield Line(name, quantity, score, bounds(squared))


@metric(
    "A7",
    f"outcome, and {PAIRED}",
    Updates,
    needs=("outcome",),
    compare=_compare_brier_update,
)
def brier_update(sample: Updates, how: Resampling) -> Iterator[Line]:
    """What the update did to the Brier score; negative is better."""
    pairs, outcome = sample.whole, known_outcome(sample)
    score = update_score(pairs.prior, pairs.posterior, outcome, pairs.clusters, **how.interval)
    beside = {
        "mean square of the update (raises it, whatever its direction)": f"{score.mean_sq_update:.3f}",
        "earned by the direction": f"{score.cross:.3f}",
    }
    yield Line(
        "brier_update",
        "change of the Brier score",
        with_drop_reasons(score, pairs, pairs.posterior - pairs.prior, outcome),
        beside,
    )


@metric(
    "A10",
    f"outcome, and belief; or {PAIRED}",
    Updates,
    Forecasts,
    needs=("outcome",),
)
def calibration(sample: Updates | Forecasts, how: Resampling) -> Iterator[Line]:
    """Slope of the outcome on the belief: 1 is calibrated, below 1 too extreme, above 1 too timid."""
    source, belief = (sample, sample.belief) if isinstance(sample, Forecasts) else (sample.whole, sample.whole.prior)
    outcome = known_outcome(sample)
    score = calibration_slope(belief, outcome, source.clusters, level=how.level or LEVEL)
    beside = {"p tests": "a slope of 1", "intercept": f"{score.intercept:.3f}"}
    quantity = "calibration slope" + ("" if isinstance(sample, Forecasts) else " of the prior")
    yield Line("calibration", quantity, with_drop_reasons(score, source, belief, outcome), beside)


@metric("E10", "belief, p_star [, outcome, prompt]", Forecasts, needs=("p_star",))
def truth(sample: Forecasts, how: Resampling) -> Iterator[Line]:
    """How far beliefs are from the true probability; by prompt, where there are several."""
    assert sample.p_star is not None
    owners = clusters_of(sample)
    prompts = np.zeros(len(owners), dtype=str) if sample.prompt is None else sample.prompt.astype(str)
    for prompt in dict.fromkeys(prompts.tolist()):
        here = prompts == prompt
        part = Forecasts(
            belief=sample.belief[here],
            outcome=take(sample.outcome, here),
            p_star=sample.p_star[here],
            clusters=owners[here],
        )
        error = part.belief - sample.p_star[here]
        score = bayes_error(part.belief, sample.p_star[here], part.clusters, **how.interval)
        beside = {"mean absolute error": f"{score.mae:.3f}", "bias": f"{score.bias:+.3f}"}
        if part.outcome is not None:
            loss = logloss_improvement(part.belief, sample.p_star[here], part.outcome)
            briers = [brier_score(p, part.outcome).brier for p in (part.belief, sample.p_star[here])]
            beside["Brier score, and of the truth itself"] = f"{briers[0]:.3f}, {briers[1]:.3f}"
            beside["log-loss, and of the truth itself"] = f"{loss.ll1:.3f}, {loss.ll2:.3f}"
        quantity = "RMSE to the truth" + (f", {prompt}" if prompt else "")
        yield Line("rmse_truth", quantity, with_drop_reasons(score, part, error), beside, part=prompt)


@metric("D10", "k, n [, outcome]", Hits)
def hybrid(sample: Hits, how: Resampling) -> Iterator[Line]:
    """Beliefs that are k of n answers: their mean, and how much of their spread is luck of the draw."""
    p, n = sample.belief, sample.n
    score = with_drop_reasons(cluster_mean(p, clusters_of(sample), within=UNIT, **how.interval), sample, p)
    several = np.isfinite(p) & (n > 1)
    beside = {}
    if several.sum() > 1:
        noise = float((p[several] * (1 - p[several]) / (n[several] - 1)).mean())  # unbiased for the variance of k / n
        spread = float(p[several].var(ddof=1))
        beside["SD of one belief by luck of the draw"] = f"{np.sqrt(noise):.3f}"
        beside["SD of all"] = f"{np.sqrt(spread):.3f}"
        if spread > 0:
            beside["reliability"] = f"{1 - noise / spread:.3f}"
    yield Line("hybrid", "mean of k / n", score, beside)


METRICS = (brier, brier_update, calibration, truth, hybrid)
