"""The tables of the papers from a table that was scored by the levels of its columns: an author's raw data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....metrics.scoring.engine import ScoredTable
from ....metrics.tables.samples import ALL
from ..cells import as_row
from . import bscore, consistency, martingale, sycophancy
from .paper_tables import PaperColumn, PaperTable, RunNumbers, by_method

CATEGORY = ("category",)
ACROSS = {
    "M": ("domain", "reasoning", "technique"),
    "sycophancy_error": ("arm", "involvement", "sycophancy", "condition", "evidence"),
    "shift": ("arm", "involvement", "sycophancy", "condition", "evidence"),
    "top_b": CATEGORY,
    "c2": (),
    "rmse_truth": (),
    "lie_ratio": (),
}
"""Number that a paper's table is of -> the factors whose levels are its columns; those of the others are rows."""
Layout = Callable[[Sequence[RunNumbers], Sequence[str]], PaperTable]
"""From the rows and the levels across."""


def tables_of_levels(scored: ScoredTable) -> list[PaperTable]:
    """The paper's tables that the numbers of the levels fill; none of a table that was scored as a whole."""
    known = {number.metric for number in scored.numbers}
    found = []
    for metric, layout in LAYOUTS.items():
        if metric in known and scored.understood.cells:
            rows, levels = _rows(scored, ACROSS[metric])
            found.append(layout(rows, levels))
    return [table for table in found if not table.empty]


def _rows(scored: ScoredTable, across: Sequence[str]) -> tuple[list[RunNumbers], list[str]]:
    """The numbers of each row of a table, under the level of its columns as their subset, and these levels in order."""
    factors = [name.removeprefix("factor_") for name in scored.understood.factors]
    wide = [name in across for name in factors]
    rows: dict[str, dict[tuple[str, str, str], Mapping[str, Any]]] = {}
    levels: dict[str, None] = {}
    for number in scored.numbers:
        place = _place(number.run, number.subset, scored.understood.cells)
        if place is None:
            continue
        name, part = place
        told = list(zip(scored.understood.cells[name], wide, strict=True))
        row = ", ".join(level for level, is_wide in told if not is_wide)
        column = ", ".join(level for level, is_wide in told if is_wide)
        column = column.lower() if across == CATEGORY else column
        levels |= {column: None} if column else {}
        method = "/".join(filter(None, (number.kind, number.method)))
        key = (number.metric, method, ", ".join(filter(None, (column, part))) or ALL)
        rows.setdefault(row, {})[key] = as_row(replace(number, run=""))
    lone = [name for name, is_wide in zip(factors, wide, strict=True) if not is_wide]
    if len(lone) == 1:  # the level over all columns
        for number in scored.numbers:
            name = number.run.removeprefix(f"{lone[0]}=")
            if number.run and name != number.run and name in rows and number.subset == ALL:
                method = "/".join(filter(None, (number.kind, number.method)))
                rows[name].setdefault((number.metric, method, ALL), as_row(replace(number, run="")))
    return [RunNumbers(name, "", False, own) for name, own in rows.items()], list(levels)


def _place(run: str, subset: str, cells: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """The cell that a number is of, and the part of it; None if it is of no single cell."""
    if run:
        return (run, "" if subset == ALL else subset) if run in cells else None
    own = [name for name in cells if subset == name or subset.startswith(f"{name}, ")]
    if not own:
        return None
    name = max(own, key=len)
    return name, subset[len(name) + 2 :]


def _updates(rows: Sequence[RunNumbers], levels: Sequence[str]) -> PaperTable:
    steps = any(metric == "M_step" for row in rows for metric, _, _ in row.rows)
    metric, told = ("M_step", "per reasoning step") if steps else ("M", "from prior to posterior")
    columns = [
        PaperColumn("", level or "M", metric, level or ALL, written="+.4f", p="p_iid", stars=martingale.STARS)
        for level in levels or ("",)
    ]
    caption = f"Martingale Scores under different setups, {told}."
    return by_method(rows, martingale.PAPER, "Table 1", caption, columns, labels=("Setup",), notes=[martingale.TOLD])


def _errors(rows: Sequence[RunNumbers], levels: Sequence[str]) -> PaperTable:
    columns = [one for level in ("", *levels) for one in sycophancy.errors(level or "Overall", level or ALL)]
    caption = "Average errors without and with sycophancy."
    return by_method(rows, sycophancy.PAPER, "Table 1", caption, columns, notes=[sycophancy.TOLD])


def _beliefs(rows: Sequence[RunNumbers], levels: Sequence[str]) -> PaperTable:
    columns = [one for level in levels or ("",) for one in sycophancy.shifts(level, level or ALL)]
    caption = "Impacts of sycophancy on the predicted posterior."
    return by_method(rows, sycophancy.PAPER, "Table 2", caption, columns, notes=[sycophancy.TOLD])


def _answers(rows: Sequence[RunNumbers], levels: Sequence[str]) -> PaperTable:
    return bscore.scores(rows)


def _options(rows: Sequence[RunNumbers], levels: Sequence[str]) -> PaperTable:
    return by_method(rows, consistency.PAPER, "Table 1", "Main results.", consistency.main(ALL))


def _truth(rows: Sequence[RunNumbers], levels: Sequence[str]) -> PaperTable:
    columns = [
        PaperColumn("", "CMI, debiased", "cmi"),
        PaperColumn("", "RMSE vs. ground truth", "rmse_truth"),
        PaperColumn("", "Brier score", "brier"),
    ]
    caption = "Conditional independence and RMSE against the ground truth."
    return by_method(rows, "rational-agents", "Tables 1 and 4", caption, columns, labels=("Dataset / Model",))


def _cases(rows: Sequence[RunNumbers], levels: Sequence[str]) -> PaperTable:
    columns = [PaperColumn("", "median of Δ / p", "lie_ratio")]
    caption = "Internal consistency error via the law of iterated expectation."
    return by_method(rows, "rational-agents", "Figure 2", caption, columns, labels=("Dataset / Model",))


LAYOUTS: Mapping[str, Layout] = {
    "M": _updates,
    "sycophancy_error": _errors,
    "shift": _beliefs,
    "top_b": _answers,
    "c2": _options,
    "rmse_truth": _truth,
    "lie_ratio": _cases,
}
