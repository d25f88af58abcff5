"""The tables of the paper (belief-consistency, Tables 1 to 9) from one run: a row per number, with what it rests on."""

from collections.abc import Sequence

import pandas as pd

from ..scoring.number import Number

MAIN = (
    ("2 classes", "c2"),
    ("3 classes", "c3"),
    ("p invalid posterior", "p_invalid_included"),
    ("p invalid posterior, no exclusion", "p_invalid_raw"),
    ("entropy prior", "entropy_prior"),
    ("entropy posterior", "entropy_post"),
    ("verbal error prior", "p_error_prior"),
    ("verbal error posterior", "p_error_post"),
)
ASSOCIATION = ("norm_prior", "norm_post", "wnorm_prior", "wnorm_post", "increase_rate", "pearson", "spearman")
LAYOUT = (
    *((1, "all", name, metric, None) for name, metric in MAIN),
    (2, "all", "JSD", "c2", None),
    (2, "all", "MSE", "mse", None),
    (2, "all", "MAE", "mae", None),
    (3, "all", "Switch", "switch", None),
    (3, "all", "HSwitch", "hswitch", None),
    (4, "all", "2 classes, of this run's words", "c2", None),
    *((5, "reject", name, metric, None) for name, metric in MAIN),
    *((6, "narrow", name, metric, None) for name, metric in MAIN),
    (7, "all", "sampled against exact, prior", "agreement_prior", None),
    (7, "all", "sampled against exact, posterior", "agreement_posterior", None),
    (8, "all", "raw", "p_invalid_raw", None),
    *((8, "all", name, "invalid_association", name) for name in ASSOCIATION),
    (9, "all", "posteriors evaluated", "c2", "n_rows"),
)
"""(table, subset, column, metric, field of the score if not its estimate)."""


def published(numbers: Sequence[Number]) -> pd.DataFrame:
    """table, column, method, kind, value, ci_lo, ci_hi, ci_method, n_rows, n_dropped, status; by table, then method.

    Only an estimate has an interval. Where the paper drops instances without a defined ratio, so does the value, and
    `n_dropped` says how many.
    """
    named = {(number.metric, number.subset, number.method): number for number in numbers}
    methods = dict.fromkeys(number.method for number in numbers if number.metric == "c2")
    windows = dict.fromkeys(number.subset for number in numbers if number.subset.startswith("ranks "))
    rows = []
    for table, subset, column, metric, field in [*LAYOUT, *((4, name, name, "c2", None) for name in windows)]:
        for method in methods:
            if number := named.get((metric, subset, method)):
                score, whole = number.score, field is None or field == number.score.headline
                rows.append(
                    {
                        "table": table,
                        "column": column,
                        "method": method,
                        "kind": number.kind,
                        "value": score.estimate if field is None else getattr(score, field),
                        "ci_lo": score.ci_lo if whole else None,
                        "ci_hi": score.ci_hi if whole else None,
                        "ci_method": score.ci_method if whole else "",
                        "n_rows": score.n_rows,
                        "n_dropped": score.n_dropped,
                        "status": score.status,
                    }
                )
    return pd.DataFrame(rows).sort_values("table", kind="stable", ignore_index=True)
