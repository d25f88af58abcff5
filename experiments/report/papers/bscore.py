"""The tables of the paper (b-score) from stored runs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .paper_tables import PaperCell, PaperColumn, PaperTable, RunNumbers, by_method, number_cell

PAPER = "b-score"
CATEGORIES = {"Subjective": "top_b", "Random": "top_b", "Easy": "top_b_wrong", "Hard": "top_b_wrong"}
METRICS = {"Single-turn Prob": "single", "Multi-turn Prob": "multi", "Confidence Score": "conf", "B-score": "b"}
HIGHER = {
    "top_single": "Single-Turn Probability",
    "top_multi": "Multi-Turn Probability",
    "confidence": "Confidence Score",
}
HIGHER |= {"top_b": "B-Score"}
BBQ, WITH_B = "bbq", "  w/ B-score (Δ)"


def tables(runs: Sequence[RunNumbers]) -> list[PaperTable]:
    """Tables 2 to 4 and T3 to T6."""
    higher = [PaperColumn("Higher", name, metric, BBQ, written=".2f") for metric, name in HIGHER.items()]
    accuracy = [
        PaperColumn("Single-Turn", "accuracy", "accuracy_single", written=".1%"),
        PaperColumn("Multi-Turn", "accuracy", "accuracy_multi", written=".1%"),
    ]
    return [
        scores(runs),
        *_verified(runs),
        by_method(runs, PAPER, "Table T3", "The higher single-turn option on BBQ.", higher),
        _turns(runs),
        by_method(runs, PAPER, "Table T6", "Task accuracy between single-turn and multi-turn.", accuracy),
    ]


def scores(runs: Sequence[RunNumbers]) -> PaperTable:
    """Table 2; where every likeliest answer of a category is right, the paper counts 0 in the mean, with a star."""
    rows, means = [], []
    for run in runs:
        for method in run.methods:
            cells, counted = [], []
            for name, metric in CATEGORIES.items():
                cell, value = _score(run, method, metric, name.lower())
                cells.append(cell)
                counted.append(value)
            if any(cell.value == cell.value for cell in cells):
                cells.append(number_cell(float(np.mean(counted)), written="+.2f"))
                rows.append(((run.model + run.mark(method), method), cells))
                means.append([*counted, cells[-1].value])
    caption = "Mean B-scores of highest-probability single-turn options; of easy and hard ones where they are wrong."
    columns = [("", name) for name in (*CATEGORIES, "Mean")]
    notes = ["* all highest single-turn answers are right, which counts as 0 in the mean"]
    return PaperTable(PAPER, "Table 2", caption, ("Model", "read as"), columns, rows, notes)


def _score(run: RunNumbers, method: str, metric: str, category: str) -> tuple[PaperCell, float]:
    """B of a category, and what it counts in the mean."""
    value = run.value(metric, method, category)
    never_wrong = math.isnan(value) and run.value("accuracy_single", method, category) == 1
    if never_wrong and metric == "top_b_wrong":
        return PaperCell("+0.00*", "", 0.0), 0.0
    return number_cell(value, run.ends(metric, method, category), written="+.2f"), value


VERIFIED = {"3": ("random", "easy", "hard"), "4": ("csqa", "mmlu", "hle"), "T4": ("random",)}
"""Table -> the categories whose answers it verifies; those of BBQ alone are random ones."""


def _verified(runs: Sequence[RunNumbers]) -> list[PaperTable]:
    """Tables 3, 4 and T4: the accuracy of accepting by each score, alone and with the B-score; by what was verified."""
    rules = [(*one, rule) for name, rule in METRICS.items() for one in ((name, rule), (WITH_B, f"{rule}+b"))]
    found = []
    for number, wanted in VERIFIED.items():
        rows = []
        for run in runs:
            of_bbq = any(subset == BBQ for _, _, subset in run.rows)
            for method in run.methods:
                for shown, which, rule in rules:
                    row = run.rows.get(("accept_accuracy", method, which))
                    verified = set(row["details"].get("tuned_categories") or ()) if row else set()
                    alone = "T4" if of_bbq and verified == {"random"} else "3" if verified & {*VERIFIED["3"]} else "4"
                    if row and verified & {*wanted} and alone == number:
                        labels = (run.model + run.mark(method), method, shown)
                        rows.append((labels, _accuracies(run, row, rule, wanted)))
        names = [("", "Threshold"), *(("", x.upper() if number == "4" else x.capitalize()) for x in wanted)]
        columns = [*names, ("", "Avg"), ("held out", "Avg")]
        caption = (
            "2-step threshold-based verification, accuracy in %; thresholds tuned on the same answers, as published."
        )
        found.append(PaperTable(PAPER, f"Table {number}", caption, ("Model", "read as", "Metric"), columns, rows))
    return found


def _accuracies(run: RunNumbers, row: Mapping[str, Any], rule: str, wanted: Sequence[str]) -> list[PaperCell]:
    details, method = row["details"], row["method"]
    alone = run.value("accept_accuracy", method, rule, "tuned")
    tuned = details.get("tuned")
    change = f" ({100 * (tuned - alone):+.1f})" if row["subset"].endswith("+b") and tuned is not None else ""
    thresholds = [details.get(name) for name in ("tau", "tau_b") if isinstance(details.get(name), int | float)]
    told = (
        f"({', '.join(f'{x:.2f}' for x in thresholds)})"
        if len(thresholds) > 1
        else "".join(f"{x:.2f}" for x in thresholds)
    )
    each = [details.get("tuned_categories", {}).get(name) for name in wanted]
    average = number_cell(math.nan if tuned is None else 100 * tuned, written=".1f")
    low, high = run.ends("accept_accuracy", method, row["subset"])
    held = number_cell(
        100 * run.value("accept_accuracy", method, row["subset"]), (100 * low, 100 * high), written=".1f"
    )
    cells = [number_cell(math.nan if x is None else 100 * x, written=".1f") for x in each]
    return [PaperCell(told) if told else PaperCell(), *cells, average._replace(text=average.text + change), held]


def _turns(runs: Sequence[RunNumbers]) -> PaperTable:
    """Table T5: a row for each number of queries, a column for each model and method."""
    cuts = sorted({int(s.split("k = ")[1]) for run in runs for _, _, s in run.rows if "k = " in s})
    ways = [
        (run, method)
        for run in runs
        for method in run.methods
        if any(m == method and "k = " in s for _, m, s in run.rows)
    ]
    rows = []
    for k in cuts:
        cells = []
        for run, method in ways:
            values = [run.value(metric, method, f"{name.lower()}, k = {k}") for name, metric in CATEGORIES.items()]
            known = [0.0 if math.isnan(value) else value for value in values]
            cells.append(
                number_cell(float(np.mean(known)) if not all(map(math.isnan, values)) else math.nan, written="+.2f")
            )
        rows.append(((f"k = {k}",), cells))
    columns = [(run.model + run.mark(method), method) for run, method in ways]
    return PaperTable(
        PAPER, "Table T5", "Mean B-score under varying number of queries k.", ("#Samples",), columns, rows
    )
