"""What is answered, and how spread out. (METRICS B1, B4)"""

from collections.abc import Iterator

import numpy as np

from ....metrics import UNIT, cluster_mean, counts_to_probabilities, entropy_bits
from ...tables.samples import Frequencies
from ..number import Resampling
from .bscore import FEW_OPTIONS
from .metric import Line, clusters_of, metric, with_drop_reasons


@metric("B1, B4, B12", "count_<option> for each of two or more [, count_other]", Frequencies)
def entropy(sample: Frequencies, how: Resampling) -> Iterator[Line]:
    """How spread out answers are over the options, in bits; what fraction of all each of them is."""
    k = len(sample.options)
    values = entropy_bits(counts_to_probabilities(sample.shares[:, :-1]))
    score = cluster_mean(values, clusters_of(sample), within=(0.0, float(np.log2(k))), **how.interval)
    beside = {"at most": f"{np.log2(k):.3f}"}
    if sample.n_answers is not None and score.n_rows:
        low = (k - 1) / (2 * np.log(2) * sample.n_answers[np.isfinite(values)])
        beside["so few answers lower it by about"] = f"{low.mean():.3f} (Miller-Madow)"
    yield Line("entropy", "entropy of the options", with_drop_reasons(score, sample, values), beside)
    if k <= FEW_OPTIONS:
        for name, share in zip((*sample.options, "no option"), sample.shares.T, strict=True):
            mean = cluster_mean(share, clusters_of(sample), within=UNIT, **how.interval)
            yield Line("share", f"share of {name}", with_drop_reasons(mean, sample, share), part=name)


METRICS = (entropy,)
