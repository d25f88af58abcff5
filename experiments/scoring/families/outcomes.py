"""Did beliefs come true? (METRICS A7, A10)"""

from collections.abc import Iterator

from ....metrics import brier as brier_score
from ....metrics import brier_update as update_score
from ....metrics import calibration_slope
from ..cells import Array
from ..samples import Forecasts, Sample, Updates
from .martingale import PAIRED
from .metric import Compared, Line, bounds, compare_mean, counted, metric


def _known(sample: Updates | Forecasts) -> Array:
    """The outcomes, which `Metric.needs` has seen to."""
    assert sample.outcome is not None
    return sample.outcome


def _compare_brier(sample: Updates | Forecasts) -> Compared:
    if isinstance(sample, Forecasts):
        return compare_mean((sample.belief - sample.outcome) ** 2, sample)
    return compare_mean((sample.whole.posterior - _known(sample)) ** 2, sample.whole)


def _compare_brier_update(sample: Updates) -> Compared:
    pairs, outcome = sample.whole, _known(sample)
    change = (pairs.posterior - outcome) ** 2 - (pairs.prior - outcome) ** 2
    return compare_mean(change, pairs)


@metric(
    "A7",
    f"outcome, and belief; or {PAIRED}",
    Updates,
    Forecasts,
    needs=("outcome",),
    compare=_compare_brier,
)
def brier(sample: Updates | Forecasts, seed: int) -> Iterator[Line]:
    """Mean squared distance from what came true; always saying one half scores 0.25."""
    if isinstance(sample, Forecasts):
        named = {"Brier score": sample.belief}
        source: Sample = sample
    else:
        source = sample.whole
        named = {"Brier score of the prior": sample.whole.prior, "Brier score of the posterior": sample.whole.posterior}
    outcome = _known(sample)
    for quantity, belief in named.items():
        squared = (belief - outcome) ** 2
        score = counted(brier_score(belief, outcome, source.clusters, seed=seed), source, belief, outcome)
        yield Line(quantity, score, bounds(squared))


@metric(
    "A7",
    f"outcome, and {PAIRED}",
    Updates,
    needs=("outcome",),
    compare=_compare_brier_update,
)
def brier_update(sample: Updates, seed: int) -> Iterator[Line]:
    """What the update did to the Brier score; negative is better."""
    pairs, outcome = sample.whole, _known(sample)
    score = update_score(pairs.prior, pairs.posterior, outcome, pairs.clusters, seed=seed)
    beside = {
        "mean square of the update (raises it, whatever its direction)": f"{score.mean_sq_update:.3f}",
        "earned by the direction": f"{score.cross:.3f}",
    }
    yield Line("change of the Brier score", counted(score, pairs, pairs.posterior - pairs.prior, outcome), beside)


@metric(
    "A10",
    f"outcome, and belief; or {PAIRED}",
    Updates,
    Forecasts,
    needs=("outcome",),
)
def calibration(sample: Updates | Forecasts, seed: int) -> Iterator[Line]:
    """Slope of the outcome on the belief: 1 is calibrated, below 1 too extreme, above 1 too timid."""
    source, belief = (sample, sample.belief) if isinstance(sample, Forecasts) else (sample.whole, sample.whole.prior)
    outcome = _known(sample)
    score = calibration_slope(belief, outcome, source.clusters)
    beside = {"p tests": "a slope of 1", "intercept": f"{score.intercept:.3f}"}
    quantity = "calibration slope" + ("" if isinstance(sample, Forecasts) else " of the prior")
    yield Line(quantity, counted(score, source, belief, outcome), beside)


METRICS = (
    brier,
    brier_update,
    calibration,
)
