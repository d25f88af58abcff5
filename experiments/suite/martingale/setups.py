"""Setups (a domain, a kind of reasoning, a system prompt; of several runs also a model) as martingale-score has them:
its Table 1, its names, its mean |M|, its Figure 4 and the regressions of Figure 5.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

from ....metrics import brier_on_abs_martingale, cluster_mean
from ....metrics.number import Number
from ....metrics.tables.samples import ALL
from ...report.figures import chart
from ...report.findings import Figure
from ...report.marks import Axis, points, rule
from .ask import RECALL

NAMES: Mapping[str, str] = {
    "forecasting": "Forecasting",
    RECALL: "Forecasting (resolved before training ended)",
    "values": "ChangeMyView",
    "review": "OpenReview",
    "cot": "CoT",
    "debate": "Debate",
    "none": "No Prompt",
    "critical": "CT Prompt",
    "prior-conforming": "PC Prompt",
}
"""Of this product -> of the paper; what it does not have keeps its name."""
FACTORS = ("domain", "reasoning", "model", "prompt")
CONTROLS: Sequence[tuple[str, ...]] = ((), *((name,) for name in FACTORS), FACTORS)
"""Of the regressions, each beside |M|: none, one, all."""
LEVEL = 0.95


def named(cell: str) -> dict[str, str]:
    """The factors of a cell of a run, by the paper's names; of all cells together none."""
    parts = cell.split(", ")
    return {key: NAMES.get(part, part) for key, part in zip(("domain", "reasoning", "prompt"), parts, strict=False)}


def setups(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of setups among those of Table 1, those of all cells together left out."""
    return table[(table["table"] == 1) & table["prompt"].notna()] if "prompt" in table else table.iloc[:0]


def summaries(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Of each method, the mean |M| by prompt, by domain, and by domain and reasoning, with its interval over setups;
    and the regressions of the Brier score on |M| under each set of controls that differ.

    Args:
        table: Table 1 of a run, or of several with a column `model`.
    """
    for (method, kind), rows in setups(table).groupby(["method", "kind"], sort=False):
        base = {"method": method, "kind": kind}
        for by in (["prompt"], ["domain"], ["domain", "reasoning"]):
            for level, of_level in rows.groupby(by, sort=False):
                values = of_level["M_published"].abs().to_numpy(dtype=np.float64)
                score = cluster_mean(values, np.arange(len(values)))
                shown = {"value": score.estimate, "ci_lo": score.ci_lo, "ci_hi": score.ci_hi, "p": np.nan}
                counted = {"n_rows": score.n_rows, "n_dropped": score.n_dropped, "status": score.status}
                yield {"table": "mean |M|", "cell": ", ".join(map(str, level)), **base, **shown, **counted}
        for controls in CONTROLS:
            differ = [name for name in controls if name in rows and rows[name].nunique() > 1]
            if len(differ) == len(controls) or (len(controls) > 1 and len(differ) > 1):
                yield {"table": "Figure 5", **base, **_regression(rows, differ)}


def _regression(rows: pd.DataFrame, controls: Sequence[str]) -> dict[str, Any]:
    known = rows[rows["brier"].notna() & rows["M_published"].notna()]
    dummies = pd.get_dummies(known[[*controls]], drop_first=True, dtype=float) if controls else pd.DataFrame()
    columns = [dummies[name].to_numpy() for name in dummies]
    found = brier_on_abs_martingale(known["M_published"], known["brier"], columns)
    reach = scipy.stats.t.ppf((1 + LEVEL) / 2, found.df) * found.se if found.df > 0 else np.nan
    counted = {"p": found.p, "r2": found.r2, "n_rows": found.n_rows, "n_dropped": len(rows) - len(known)}
    cell = f"controls: {', '.join(controls) or 'none'}"
    ends = {"ci_lo": found.coef - reach, "ci_hi": found.coef + reach}
    status = found.status if np.isfinite(found.coef) or found.status != "ok" else "undefined"
    return {"cell": cell, "value": found.coef, **ends, **counted, "status": status}


def setup_figure(table: pd.DataFrame) -> Figure | None:
    """The Brier score against |M|, a dot for each setup, a panel for each method (Figure 4); None without outcomes."""
    every = setups(table)
    if every.empty or every["brier"].isna().all():
        return None
    panels = []
    for method, rows in every[every["brier"].notna()].groupby("method", sort=False):
        marks = [
            points(of_domain["M_published"].abs(), of_domain["brier"], str(domain), marker=marker)
            for (domain, of_domain), marker in zip(rows.groupby("domain", sort=False), "os^Dv", strict=False)
        ]
        panels.append((str(method), [rule(0.25, "a coin"), *marks]))
    return chart(
        "Do setups with a larger |M| forecast worse?",
        panels,
        "A dot is a setup: domain, reasoning and system prompt; |M| per step and the Brier score of the last belief, "
        "of the same questions, as published. Noisier updates have more of both, so that dots rise where no belief is "
        "entrenched.",
        x=Axis("|M| per step", (0, None)),
        y=Axis("Brier score", (0, None)),
    )


# The paper's Table 1 (martingale-score) from one run: a row for each cell and kind, with ours beside the published.

PUBLISHED = {
    "M_published": ("M_step", "M"),
    "p_published": ("M_step", "p_iid"),
    **{name: ("M_balanced", field) for name, field in (("M", "estimate"), ("ci_lo", "ci_lo"), ("ci_hi", "ci_hi"))},
    "p": ("M_balanced", "p"),
    "M_first_last": ("M", "estimate"),
    "minimum_detectable_effect": ("M_balanced", "mde"),
    **{name: ("M_balanced", name) for name in ("n_rows", "n_clusters", "n_dropped", "status")},
}
"""Column -> metric, and field of its score."""


def published(numbers: Sequence[Number]) -> pd.DataFrame:
    """table, cell, method, kind; then

    - `M_published`, `p_published`: the slope per step over all rows, with p of independent rows of equal spread;
    - `M`, `ci_lo`, `ci_hi`, `p`: the same slope within cells, with questions weighing the same, by leaving out
      questions;
    - `M_first_last`: from the first belief to the last;
    - `minimum_detectable_effect`: the smallest |M| that this many questions would have shown with 80% power;
    - n_rows, n_clusters, n_dropped, status;
    - `brier`, of the last belief, and `domain`, `reasoning`, `prompt` by the paper's names (Figure 4).

    Then, with `value` and its interval, the mean |M| by prompt, domain and reasoning, and Figure 5: the slope of the
    Brier score on |M| under each set of controls that differ within the run.
    """
    scores = {(number.metric, number.subset, number.method): number.score for number in numbers}
    rows = []
    for number in numbers:
        if number.metric == "M_step":
            cell = (number.subset, number.method)
            found = {name: getattr(scores[metric, *cell], field) for name, (metric, field) in PUBLISHED.items()}
            after = scores.get(("brier_post", *cell))
            found |= {"brier": np.nan if after is None else after.estimate} | (named(cell[0]) if cell[0] != ALL else {})
            rows.append({"table": 1, "cell": cell[0], "method": cell[1], "kind": number.kind, **found})
    table = pd.DataFrame(rows)
    return pd.concat([table, pd.DataFrame(summaries(table))], ignore_index=True)
