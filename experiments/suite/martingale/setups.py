"""Setups (a domain, a kind of reasoning, a system prompt; of several runs also a model) as martingale-score has them:
its names, its mean |M|, its Figure 4 and the regressions of Figure 5.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

from ....metrics import brier_on_abs_martingale, cluster_mean
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
                yield {"table": "mean |M|", "cell": ", ".join(level), **base, **shown, **counted}
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
