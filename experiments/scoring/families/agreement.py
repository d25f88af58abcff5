"""Do two judges, or two ways of reading, say the same? (METRICS A8, B8)"""

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np

from ....metrics import UNIT, Agreement, cluster_mean, judge_agreement
from ....metrics import readout_agreement as agreement_of
from ...tables.samples import Readouts
from ...tables.updates import Judgements
from ..number import Resampling
from .consistency import sampling_floor
from .metric import Line, bounds, clusters_of, metric, with_drop_reasons

NAMES = {
    "pearson": "correlation",
    "pearson_within": "within questions",
    "icc21": "ICC(2,1)",
    "bias": "mean difference",
}


@metric("A8", "judge_<name> for each of two or more [, question, trajectory, step]", Judgements)
def judges(sample: Judgements, how: Resampling) -> Iterator[Line]:
    """Agreement of each two judges on beliefs, and on updates if there are steps; 1 is the same number throughout."""
    for i, j in combinations(range(len(sample.judges)), 2):
        both = f"{sample.judges[i]} and {sample.judges[j]}"
        part = f"{sample.judges[i]} - {sample.judges[j]}"
        x, y = sample.readings[:, i], sample.readings[:, j]
        score = judge_agreement(x, y, sample.clusters, **how.interval)
        yield Line(
            "agreement", f"concordance of {both}", with_drop_reasons(score, sample, x + y), _beside(score), part=part
        )
        if sample.changes is not None:
            score = judge_agreement(sample.changes[:, i], sample.changes[:, j], sample.change_clusters, **how.interval)
            yield Line("agreement_update", f"concordance of {both}, updates", score, _beside(score), part=part)


def _beside(score: Agreement) -> Mapping[str, str]:
    found = {}
    for name, said in NAMES.items():
        value = getattr(score, name)
        if np.isfinite(value):
            lo, hi = score.intervals.get(name, (np.nan, np.nan))
            found[said] = f"{value:.3f}" + (f" [{lo:.3f}, {hi:.3f}]" if np.isfinite(lo) else "")
    if np.isfinite(score.spearman):
        found["by ranks"] = f"{score.spearman:.3f}"
    return found


@metric("B8, B12", "free_<option> and closed_<option> for each of two or more [, context]", Readouts)
def readout_agreement(sample: Readouts, how: Resampling) -> Iterator[Line]:
    """Do free answers and a closed set give the same belief? 1 if so; it is no calibration to what is true."""
    values = agreement_of(sample.free, sample.closed)
    floor = sampling_floor(sample.free, sample.n_free, sample.n_closed)
    contexts = np.zeros(len(values), dtype=str) if sample.context is None else sample.context.astype(str)
    for context in dict.fromkeys(contexts.tolist()):
        here = np.where(contexts == context, values, np.nan)[contexts == context]
        score = cluster_mean(here, clusters_of(sample)[contexts == context], within=UNIT, **how.interval)
        beside = bounds(here)
        used = (contexts == context) & np.isfinite(values)
        if floor is not None and used.any():
            beside["expected of one belief, counted so often"] = f"{1 - floor[used].mean():.4f}"
        name = f"agreement_{context}" if context else "agreement"
        yield Line(name, "agreement of the read-outs" + (f", {context}" if context else ""), score, beside)


METRICS = (judges, readout_agreement)
