"""The paper's Table 1 (martingale-score) from one run: a row for each cell and kind, with ours beside the published."""

from collections.abc import Sequence

import pandas as pd

from ...metrics import MartingaleScore, MartingaleWithin
from ..scoring.number import Number


def published(numbers: Sequence[Number]) -> pd.DataFrame:
    """table, cell, method, kind; then

    - `M_published`, `p_published`: the slope per step over all rows, with p of independent rows of equal spread;
    - `M`, `ci_lo`, `ci_hi`, `p`: the same slope within cells, with questions weighing the same, by leaving out
      questions;
    - `M_first_last`: from the first belief to the last;
    - `minimum_detectable_effect`: the smallest |M| that this many questions would have shown with 80% power;
    - n_rows, n_clusters, n_dropped, status.
    """
    scores = {(number.metric, number.subset, number.method): number.score for number in numbers}
    rows = []
    for number in numbers:
        if number.metric == "M_step":
            step, balanced = number.score, scores["M_balanced", number.subset, number.method]
            assert isinstance(step, MartingaleScore)
            assert isinstance(balanced, MartingaleScore | MartingaleWithin)
            rows.append(
                {
                    "table": 1,
                    "cell": number.subset,
                    "method": number.method,
                    "kind": number.kind,
                    "M_published": step.M,
                    "p_published": step.p_iid,
                    "M": balanced.estimate,
                    "ci_lo": balanced.ci_lo,
                    "ci_hi": balanced.ci_hi,
                    "p": balanced.p,
                    "M_first_last": scores["M", number.subset, number.method].estimate,
                    "minimum_detectable_effect": balanced.mde,
                    "n_rows": balanced.n_rows,
                    "n_clusters": balanced.n_clusters,
                    "n_dropped": balanced.n_dropped,
                    "status": balanced.status,
                }
            )
    return pd.DataFrame(rows)
