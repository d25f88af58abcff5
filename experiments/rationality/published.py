"""The tables of the paper (rational-agents, Tables 1 to 5) from one run: a row per number, with what it rests on."""

from collections.abc import Sequence

import pandas as pd

from ..scoring.number import Number
from .own import PAIRS, PUBLISHED_CMI, PUBLISHED_CMI_ISOTONIC, PUBLISHED_ORDER, SPREAD
from .samples import CONTROL, OUTCOME, prompted

OURS, AS_PUBLISHED, VOID = "ours", "as published", "negative control: true by construction"
ALTERNATIVES = ("squared", "absolute", "bayesian", "log")
LAYOUT = (
    (1, "kNN CMI", PUBLISHED_CMI, "all", None, AS_PUBLISHED),
    (1, "CMI, debiased", "cmi", "all", None, OURS),
    (1, "CMI, exact", "cmi_exact", "all", None, OURS),
    (1, "% improvement, belief v. belief and outcome", "logloss_gain", OUTCOME, "pct", AS_PUBLISHED),
    (1, "nats, belief v. belief and outcome", "logloss_gain", OUTCOME, None, OURS),
    (1, "% improvement, given the evidence", "logloss_gain", CONTROL, "pct", VOID),
    *((2, name, PUBLISHED_ORDER, name, None, AS_PUBLISHED) for name in PAIRS),
    *((2, f"{name}, exact pairs of contexts", "discordant_pair", name, None, OURS) for name in PAIRS),
    (3, "SD, standard prompt", "prize_effect", prompted("squared"), "sd_pooled", AS_PUBLISHED),
    (3, "SD, standard prompt, exact", SPREAD, "all", None, OURS),
    *((3, f"RMSE, {name}", "prize_effect", prompted(name), "rmse_means", AS_PUBLISHED) for name in ALTERNATIVES),
    *((3, f"debiased mean square, {name}", "prize_effect", prompted(name), None, OURS) for name in ALTERNATIVES),
    (4, "RMSE to the truth, standard", "rmse_truth", "all", None, OURS),
    *((4, f"RMSE to the truth, {name}", "rmse_truth", prompted(name), None, OURS) for name in ALTERNATIVES),
    (5, "kNN CMI, raw", PUBLISHED_CMI, "all", None, AS_PUBLISHED),
    (5, "kNN CMI, isotonic in sample", PUBLISHED_CMI_ISOTONIC, "all", None, AS_PUBLISHED),
    (5, "CMI, isotonic cross-fitted", "cmi_isotonic", "all", None, OURS),
)
"""(table, column, metric, subset, field of the score if not its estimate, whose way it is)."""


def published(numbers: Sequence[Number]) -> pd.DataFrame:
    """table, column, way, method, kind, value, ci_lo, ci_hi, ci_method, n_rows, n_clusters, n_dropped, status.

    Only an estimate has an interval.
    """
    named = {(one.metric, one.subset, one.method): one for one in numbers}
    methods = dict.fromkeys(one.method for one in numbers if one.metric == "sufficiency")
    rows = []
    for table, column, metric, subset, field, way in LAYOUT:
        for method in methods:
            if found := named.get((metric, subset, method)):
                score = found.score
                rows.append(
                    {
                        "table": table,
                        "column": column,
                        "way": way,
                        "method": method,
                        "kind": found.kind,
                        "value": score.estimate if field is None else getattr(score, field),
                        "ci_lo": score.ci_lo if field is None else None,
                        "ci_hi": score.ci_hi if field is None else None,
                        "ci_method": score.ci_method if field is None else "",
                        "n_rows": score.n_rows,
                        "n_clusters": score.n_clusters,
                        "n_dropped": score.n_dropped,
                        "status": score.status,
                    }
                )
    return pd.DataFrame(rows)
