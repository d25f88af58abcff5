"""Do the model's own chains move its belief on average? (METRICS A9)"""

from collections.abc import Iterator

import numpy as np

from ....metrics import drift_covariance, drift_variance
from ...tables.samples import Chains
from ..number import Resampling
from .metric import Line, metric


@metric("A9", "question, chain, prior, posterior [, half]", Chains)
def drift(sample: Chains, how: Resampling) -> Iterator[Line]:
    """Mean square over questions of what chains sampled at temperature 1 move the belief on average; 0 is coherent."""
    update = sample.whole.posterior - sample.whole.prior if sample.update is None else sample.update
    question = sample.question.astype(str)
    questions = np.unique(question)
    if sample.half is None:
        updates = [update[question == name] for name in questions]
        begun = [np.nanmean(sample.whole.prior[question == name]) for name in questions]
        score = drift_variance(updates, begun if sample.update is None else None, **how.interval)
        tested = np.isfinite(score.p_holm)
        beside = {"questions that drift, after Holm": f"{(score.p_holm[tested] < 0.05).sum()} of {tested.sum()}"}
        if tested.any():
            beside["smallest p that so many chains could reach"] = f"{np.nanmin(score.smallest_p):.2g}"
    else:
        parts = [sample.half == half for half in np.unique(sample.half.astype(str))]
        first, second = ([update[part & (question == name)] for name in questions] for part in parts)
        score = drift_covariance(first, second, **how.interval)
        beside = {"product of two halves,": "each with its own reading of the prior"}
    moved = score.mean_drift[np.isfinite(score.mean_drift)]
    beside["chains"] = str(score.n_chains)
    if len(moved):
        beside["mean drift"] = f"{moved.mean():+.3f}"
    yield Line("drift2", "mean square drift", score, beside)


METRICS = (drift,)
