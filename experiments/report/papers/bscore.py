"""The tables of the paper (b-score) from stored runs."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....metrics.bscore.answer_metrics import ALL_VALID, INVALID
from ....metrics.metric import NO_OUTCOME
from ....metrics.tables.samples import ALL
from .paper_tables import (
    DASH,
    READ_AS,
    PaperCell,
    PaperColumn,
    PaperTable,
    RunNumbers,
    across,
    by_method,
    mean_cell,
    number_cell,
    of_parts,
    remarks,
)

PAPER = "b-score"
CATEGORIES = {"Subjective": "top_b", "Random": "top_b", "Easy": "top_b_wrong", "Hard": "top_b_wrong"}
METRICS = {"Single-turn Prob": "single", "Multi-turn Prob": "multi", "Confidence Score": "conf", "B-score": "b"}
HIGHER = {
    "Single-Turn Probability": "top_single",
    "Multi-Turn Probability": "top_multi",
    "Confidence Score": "confidence",
    "B-Score": "top_b",
}
SIZES = {"Single-Turn Probability": "top_single", "B-score": "top_b", "Confidence Score": "confidence"}
LISTS = {"distance": "tv_list", "numbers": "list_length"}
BBQ, WITH_B, OPTIONS = "bbq", "  w/ B-score (Δ)", " options"


def tables(runs: Sequence[RunNumbers]) -> list[PaperTable]:
    """Tables 2 to 4 and T3 to T6, and what Figures 3 and F2 draw; a model's ways of reading are rows, or columns."""
    sizes = [
        PaperColumn(subset, name, metric, subset, written=".2f")
        for subset in _subsets(runs, "top_single", OPTIONS)
        for name, metric in SIZES.items()
    ]
    lists = [PaperColumn(x, name, m, x, written=".2f") for x in _subsets(runs, "tv_list") for name, m in LISTS.items()]
    return [
        scores(runs),
        by_method(runs, PAPER, "Figure 3", "The likeliest option of random questions, by their options.", sizes),
        *(_verified(runs, number) for number in ("3", "4")),
        *_of_models(runs),
        by_method(runs, PAPER, "Figure F2", "Distance of lists from the distribution that was named.", lists),
    ]


def _subsets(runs: Sequence[RunNumbers], metric: str, end: str = "") -> list[str]:
    return sorted({subset for run in runs for name, _, subset in run.rows if name == metric and subset.endswith(end)})


def scores(runs: Sequence[RunNumbers]) -> PaperTable:
    """Table 2; where every likeliest answer of a category is right, the paper counts 0 in the mean, with a star."""
    rows: list[tuple[tuple[str, ...], list[PaperCell]]] = []
    for run in runs:
        for method in run.methods:
            cells = [_score(run, method, metric, name.lower()) for name, metric in CATEGORIES.items()]
            if any(cell.text != DASH or cell.below for cell in cells):
                mean = float(np.mean([cell.value for cell in cells]))
                counted = run.counted("top_b_mean", method)
                cells.append(number_cell(mean, run.ends("top_b_mean", method), written="+.2f", counted=counted))
                rows.append(((run.model + run.mark(method), method), cells))
    for method in dict.fromkeys(labels[1] for labels, _ in rows) if len(runs) > 1 else ():
        own = [cells for labels, cells in rows if labels[1] == method]
        rows.append((("Mean", method), [mean_cell(column) for column in zip(*own, strict=True)]))
    caption = "Mean B-scores of highest-probability single-turn options; of easy and hard ones where they are wrong."
    columns = [("", name) for name in (*CATEGORIES, "Mean")]
    starred = any(cell.text.endswith("*") for _, cells in rows for cell in cells)
    notes = ["* all highest single-turn answers are right, which counts as 0 in the mean"] * starred
    notes += remarks(runs, "Answers that are no option", "top_b", INVALID, ALL_VALID)
    return PaperTable(PAPER, "Table 2", caption, ("Model", READ_AS), columns, rows, notes)


def _score(run: RunNumbers, method: str, metric: str, category: str) -> PaperCell:
    """B of a category; 0 where none of its likeliest options is wrong."""
    value, counted = run.value(metric, method, category), run.counted(metric, method, category)
    if metric == "top_b_wrong" and math.isnan(value) and run.value("accuracy_single", method, category) == 1:
        return PaperCell("+0.00*", "", 0.0, counted=counted, written="+.2f")
    return number_cell(value, run.ends(metric, method, category), written="+.2f", counted=counted)


# Verification: of the paper's questions (Table 3), of benchmarks (4), and of BBQ alone (T4), whose answers count as
# random ones.

VERIFIED = {"3": ("random", "easy", "hard"), "4": ("csqa", "mmlu", "hle")}
"""Table -> the categories whose answers it verifies."""
RULES = [(*one, rule) for name, rule in METRICS.items() for one in ((name, rule), (WITH_B, f"{rule}+b"))][:-1]
"""(as the paper calls it, subset of its accuracy, subset of the first threshold alone)."""


def _accepted(run: RunNumbers, method: str, rule: str) -> Mapping[str, Any]:
    """What is known of accepting by a rule; empty if nothing is."""
    row = run.rows.get(("accept_accuracy", method, rule))
    return row["details"] if row and row["details"].get("tuned_categories") else {}


def _table_of(run: RunNumbers, details: Mapping[str, Any]) -> str:
    """Which table verifies these answers."""
    verified = set(details.get("tuned_categories", ()))
    if verified == {"random"} and any(subset == BBQ for _, _, subset in run.rows):
        return "T4"
    return next((number for number, wanted in VERIFIED.items() if verified & {*wanted}), "")


def _verified(runs: Sequence[RunNumbers], number: str) -> PaperTable:
    """Table 3 or 4: the accuracy of accepting by each score, alone and with the B-score, by what was verified."""
    wanted, rows = VERIFIED[number], []
    for run in runs:
        for method in run.methods:
            for shown, which, rule in RULES:
                details = _accepted(run, method, which)
                if _table_of(run, details) == number:
                    first = _accepted(run, method, rule)["tuned_categories"]
                    each = [_percent(details["tuned_categories"].get(name), first.get(name)) for name in wanted]
                    cells = [PaperCell(_thresholds(details)), *each, _average(run, method, which, rule)]
                    ends = [100 * end for end in run.ends("accept_accuracy", method, which)]
                    held_out = 100 * run.value("accept_accuracy", method, which)
                    counted = run.counted("accept_accuracy", method, which)
                    cells.append(number_cell(held_out, (ends[0], ends[1]), written=".1f", counted=counted))
                    rows.append(((run.model + run.mark(method), method, shown), cells))
    names = [("", "Threshold"), *(("", x.upper() if number == "4" else x.capitalize()) for x in wanted)]
    columns = [*names, ("", "Avg"), ("held out", "Avg")]
    caption = "2-step threshold-based verification, accuracy in %; thresholds tuned on the same answers, as published."
    notes = ["↑ the B-score raises it"]
    return PaperTable(PAPER, f"Table {number}", caption, ("Model", READ_AS, "Metric"), columns, rows, notes)


def _percent(share: float | None, first: float | None) -> PaperCell:
    """An accuracy, marked where it is above that of the first threshold alone."""
    raised = share is not None and first is not None and f"{share:.3f}" > f"{first:.3f}"
    return number_cell(math.nan if share is None else 100 * share, written=".1f", stars=" ↑" * raised)


def _thresholds(details: Mapping[str, Any]) -> str:
    told = [f"{x:.2f}" for name in ("tau", "tau_b") if isinstance(x := details.get(name), int | float)]
    return f"({', '.join(told)})" if len(told) > 1 else "".join(told)


def _average(run: RunNumbers, method: str, which: str, rule: str) -> PaperCell:
    """Over categories, with what the B-score adds behind that of a cascade."""
    tuned, alone = (_accepted(run, method, name).get("tuned", math.nan) for name in (which, rule))
    change = f" ({100 * (tuned - alone):+.1f})" if which != rule else ""
    return number_cell(100 * tuned, written=".1f", stars=change)


# Tables whose columns are models.


def _of_models(runs: Sequence[RunNumbers]) -> list[PaperTable]:
    """Tables T3 to T6."""
    cuts = sorted({int(subset.split("k = ")[1]) for subset in _subsets(runs, "top_b") if "k = " in subset})
    known = {name for metric in ("accuracy_single", "accuracy_multi") for name in _subsets(runs, metric)}
    tested = [name for name in (*VERIFIED["4"], *VERIFIED["3"]) if name in known]
    shown = (
        ("T3", "Higher and lower single-turn options on BBQ.", ("Metric",), "Avg", _bbq()),
        (
            "T4",
            "Verification accuracy (%) on BBQ; thresholds tuned on the same answers.",
            ("Metric",),
            "Avg",
            [((name,), _bbq_accuracy(which, rule)) for name, which, rule in RULES],
        ),
        (
            "T5",
            "Mean B-score under varying number of queries k.",
            ("#Samples",),
            "Mean",
            [((f"k = {k}",), _after(k)) for k in cuts],
        ),
        (
            "T6",
            "Task accuracy between single-turn and multi-turn, in %.",
            ("Task", "Accuracy"),
            "Avg",
            [
                ((told, name), cell)
                for told, subset in (*((name.upper(), name) for name in tested), ("Overall", ALL))
                for name, cell in (("Single-Turn", _accuracy(subset)), ("Multi-Turn (Δ)", _accuracy(subset, "multi")))
            ],
        ),
    )
    return [
        across(runs, PAPER, f"Table {number}", caption, rows, labels=labels, mean=mean)
        for number, caption, labels, mean, rows in shown
    ]


Cell = Callable[[RunNumbers, str], PaperCell]


def _bbq() -> list[tuple[tuple[str], Cell]]:
    """Of two options the lower has the rest to one, and the opposite B; a confidence is the mean of both."""
    rows = []
    for name, metric in HIGHER.items():
        rows.append(((f"{name} ({'both' if metric == 'confidence' else 'Higher'})",), _read(metric, BBQ)))
        if metric != "confidence":
            rows.append(((f"{name} (Lower)",), _read(metric, BBQ, 0.0 if metric == "top_b" else 1.0)))
    return rows


def _read(metric: str, subset: str, less_from: float | None = None) -> Cell:
    """A number, or what it lacks to another."""

    def cell(run: RunNumbers, method: str) -> PaperCell:
        value, (low, high) = run.value(metric, method, subset), run.ends(metric, method, subset)
        if less_from is not None:
            value, low, high = less_from - value, less_from - high, less_from - low
        return number_cell(value, (low, high), written=".2f", counted=run.counted(metric, method, subset))

    return cell


def _bbq_accuracy(which: str, rule: str) -> Cell:
    def cell(run: RunNumbers, method: str) -> PaperCell:
        ours = _table_of(run, _accepted(run, method, which)) == "T4"
        return _average(run, method, which, rule) if ours else PaperCell()

    return cell


def _after(k: int) -> Cell:
    """Table 2's mean after k turns: a category that is never wrong counts 0."""

    def cell(run: RunNumbers, method: str) -> PaperCell:
        places = [(metric, method, f"{name.lower()}, k = {k}") for name, metric in CATEGORIES.items()]
        values = [run.value(*place) for place in places]
        asked = [("accuracy_single", method, name) in run.rows for name in ("easy", "hard")]
        wrong = [0.0 if there and math.isnan(x) else x for x, there in zip(values[2:], asked, strict=True)]
        counted = of_parts(run.counted(*place) for place, x in zip(places, [*values[:2], *wrong], strict=True) if x)
        return number_cell(float(np.mean([*values[:2], *wrong])), written="+.2f", counted=counted)

    return cell


def _accuracy(subset: str, arm: str = "single") -> Cell:
    """In conversation, with what it is above that afresh."""

    def cell(run: RunNumbers, method: str) -> PaperCell:
        metric = f"accuracy_{arm}"
        value, alone = (100 * run.value(name, method, subset) for name in (metric, "accuracy_single"))
        low, high = (100 * end for end in run.ends(metric, method, subset))
        change = f" ({value - alone:+.1f})" if arm == "multi" else ""
        counted = run.counted(metric, method, subset)
        made = number_cell(value, (low, high), written=".1f", stars=change, counted=counted)
        return made._replace(meant=(NO_OUTCOME,)) if subset == ALL else made  # subjective and random ones have none

    return cell
