"""Do the model's own chains move its belief on average? (METRICS A9)"""

from collections.abc import Iterator

import numpy as np

from ....metrics import Drift, drift_covariance, drift_variance
from ...tables.updates import Chains
from ..number import Resampling
from .metric import Line, clusters_of, metric


@metric("A9", "question, chain, prior, posterior [, half]", Chains)
def drift(sample: Chains, how: Resampling) -> Iterator[Line]:
    """Mean square over questions of what chains sampled at temperature 1 move the belief on average; 0 is coherent."""
    update = sample.whole.posterior - sample.whole.prior if sample.update is None else sample.update
    question = sample.question.astype(str)
    questions, first = np.unique(question, return_index=True)
    clusters = clusters_of(sample)[first]
    begun = [np.nanmean(sample.whole.prior[question == name]) for name in questions]
    if sample.half is None:
        updates = [update[question == name] for name in questions]
        score = drift_variance(updates, begun if sample.update is None else None, clusters, **how.interval)
        beside = _alone(score)
    else:
        parts = [sample.half == half for half in np.unique(sample.half.astype(str))]
        one, two = ([update[part & (question == name)] for name in questions] for part in parts)
        score = drift_covariance(one, two, clusters, prior=begun, **how.interval)
        beside = {"product of two halves,": "each with its own reading of the prior"}
    moved = score.mean_drift[np.isfinite(score.mean_drift)]
    beside["chains"] = str(score.n_chains)
    if len(moved):
        beside["mean drift"] = f"{moved.mean():+.3f}"
    yield Line("drift2", "mean square drift", score, beside)


def _alone(score: Drift) -> dict[str, str]:
    """What is known of single questions, and what so many chains could show at all."""
    tested = np.isfinite(score.p_question)
    if not tested.any():
        return {}
    found = {
        "questions that drift, after Holm": f"{score.n_drifting} of {tested.sum()}",
        "questions that have chains enough to be found": str(score.n_attainable),
        "smallest p that so many chains could reach": f"{np.nanmin(score.smallest_p):.2g}",
    }
    if score.n_at_bound:
        found["questions whose prior is 0 or 1, not tested"] = str(score.n_at_bound)
    return found


METRICS = (drift,)
