"""The tables of the papers from a table that was scored by the levels of its columns: an author's raw data."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

from ....metrics.bayes.evidence_metrics import RAW_ERROR
from ....metrics.forms.synonyms import role_of
from ....metrics.number import Number
from ....metrics.scoring.engine import ScoredTable
from ....metrics.tables.samples import ALL
from ..cells import as_row
from . import bscore, consistency, martingale, rationality, sycophancy
from .paper_tables import READ_AS, PaperColumn, PaperTable, RunNumbers, by_method

Column = tuple[tuple[str, str], ...]
"""Levels of the factors that go across: (factor, level)."""
Make = Callable[[Sequence[RunNumbers], Mapping[str, Column]], list[PaperTable]]
"""From the rows, and the columns by what they are called in a row."""


@dataclass(frozen=True)
class PaperLayout:
    """How a paper's tables are filled from levels."""

    of: Collection[str]
    """Numbers of which any is enough."""
    make: Make
    across: Collection[str] = ()
    """Factors whose levels are columns; those of the others are rows."""
    called: Callable[[str], str] = str
    """Level of such a factor -> what a run's numbers of it are called."""


def tables_of_levels(scored: ScoredTable) -> list[PaperTable]:
    """The papers' tables that the numbers of the levels fill; none of a table that was scored as a whole."""
    known = {number.metric for number in scored.numbers} if scored.understood.cells else set()
    made = [layout.make(*_rows(scored, layout)) for layout in LAYOUTS if known & {*layout.of}]
    return [_of_one_reading(table) for tables in made for table in tables if not table.empty]


def _of_one_reading(table: PaperTable) -> PaperTable:
    """The table without the column that says how each row was read, where none says it."""
    kept = [i for i, name in enumerate(table.labels) if name != READ_AS or any(labels[i] for labels, _ in table.rows)]
    rows = [(tuple(labels[i] for i in kept), cells) for labels, cells in table.rows]
    return replace(table, labels=tuple(table.labels[i] for i in kept), rows=rows)


def _rows(scored: ScoredTable, layout: PaperLayout) -> tuple[list[RunNumbers], dict[str, Column]]:
    """The numbers of each row of a table, under the level of its columns as their subset; and these columns in order.
    What is told over all columns is under `all`.
    """
    factors = [name.removeprefix("factor_") for name in scored.understood.factors]
    across = [factor for factor in factors if role_of(factor) in layout.across]
    rows: dict[tuple[str, str, bool], dict[tuple[str, str, str], Mapping[str, Any]]] = {}
    columns: dict[str, Column] = {}
    places: dict[str, tuple[tuple[str, str, bool], str]] = {}
    totals: dict[str, tuple[tuple[str, str, bool], str]] = {}
    known = {level: layout.called(level) for levels in scored.understood.cells.values() for level in levels}
    shared = {name for name, n in Counter(known.values()).items() if n > 1}  # two levels of one name stay apart

    def named(column: Column) -> str:
        return ", ".join(level if known[level] in shared else known[level] for _, level in column)

    for name, levels in scored.understood.cells.items():
        own = list(zip(factors, levels, strict=True))
        column = tuple((factor, level) for factor, level in own if factor in across)
        rest = [(factor, level) for factor, level in own if factor not in across]
        row = _row(rest)
        called = named(column)
        columns |= {called: column} if called else {}
        places[name] = row, called
        totals[", ".join(f"{factor}={level}" for factor, level in rest)] = row, ""
        for part in column if len(column) > 1 else ():  # over the other factors of the columns
            kept = [level for level in own if level in rest or level == part]
            totals[", ".join(f"{factor}={level}" for factor, level in kept)] = row, named((part,))
    for names in (places, totals):
        for number in scored.numbers:
            if (found := _place(number, names)) is not None:
                (row, called), part = found
                method = "/".join(filter(None, (number.kind, number.method)))
                key = (number.metric, method, ", ".join(filter(None, (called, part))) or ALL)
                rows.setdefault(row, {}).setdefault(key, as_row(replace(number, run="")))
    columns = {called: tuple((role_of(factor), level) for factor, level in own) for called, own in columns.items()}
    return [RunNumbers(model, dataset, thinks, own) for (model, dataset, thinks), own in rows.items()], columns


ON = ("on", "yes", "true", "1", "✓")


def _row(levels: Sequence[tuple[str, str]]) -> tuple[str, str, bool]:
    """What a row is called, its data set, and whether its model thought."""
    thinks = any(role_of(factor) == "think" and level.lower() in ON for factor, level in levels)
    name = ", ".join(level for factor, level in levels if role_of(factor) not in ("think", "dataset"))
    return name, next((level for factor, level in levels if factor == "dataset"), ""), thinks


def _place(number: Number, names: Mapping[str, Any]) -> tuple[Any, str] | None:
    """What stands under the name of what a number is of, and the part of it; None if it is of no single one."""
    if number.run or number.subset == ALL:
        return (names[number.run], "" if number.subset == ALL else number.subset) if number.run in names else None
    own = [name for name in names if number.subset == name or number.subset.startswith(f"{name}, ")]
    if not own:
        return None
    name = max(own, key=len)
    return names[name], number.subset[len(name) + 2 :]


def _updates(rows: Sequence[RunNumbers], columns: Mapping[str, Column]) -> list[PaperTable]:
    named = {}
    for called, levels in {name: dict(column) for name, column in (columns or {ALL: ()}).items()}.items():
        named[called] = levels.get("domain", ""), levels.get("reasoning", ""), levels.get("prompt", "")
    return martingale.tables_of(martingale.setups_of(rows, named), rows)


def _testimonies(rows: Sequence[RunNumbers], columns: Mapping[str, Column]) -> list[PaperTable]:
    held = {
        (metric, subset) for row in rows for metric, of, subset in row.rows if not isnan(row.value(metric, of, subset))
    }
    errors = [name for name in columns if (RAW_ERROR, name) in held]
    shifts = [name for name in columns if ("shift", name) in held]
    arms = {name: ", ".join(x for factor, x in columns[name] if factor != EVIDENCE) or name for name in columns}
    if len({arms[name] for name in errors}) < len(errors):
        arms |= {name: name for name in errors}
    argued = {dict(columns[name]).get(EVIDENCE, "") for name in errors}
    overall = next((x for x in argued if len(argued) == 1 and (RAW_ERROR, x) in held), ALL)
    over = {dict(columns[name]).get(EVIDENCE, ""): "" for name in shifts if len(columns[name]) > 1}  # both arms
    over = [level for level in over if level and ("shift", level) in held]
    two = [(level, name) for level in over for name in (level, *(x for x in shifts if (EVIDENCE, level) in columns[x]))]
    two = two or [(name, name) for name in shifts] or [("", "")]
    titles = {name: f"{level}, {arms[name]}" if name != level else level for level, name in two}
    associated = [name for name in errors or (ALL,) if ("brier_vs_bayes", name) in held]
    shown = (
        (
            "Table 1",
            "Average errors without and with sycophancy.",
            [x for name in (overall, *errors) for x in sycophancy.errors(arms.get(name, "Overall"), name)],
            sycophancy.error_notes(rows, {overall, *errors}),
        ),
        (
            "Table 2",
            "Impacts of sycophancy on the predicted posterior.",
            [x for _, name in two for x in sycophancy.shifts(titles[name], name or ALL)],
            [*sycophancy.SHIFTS, *(["Both arms together first, as published"] if over else [])],
        ),
        (
            "Figure 2",
            sycophancy.ASSOCIATED,
            [PaperColumn("", arms.get(name, "Overall"), "brier_vs_bayes", name) for name in associated],
            [],
        ),
    )
    return [
        by_method(rows, sycophancy.PAPER, number, caption, made, notes=notes) for number, caption, made, notes in shown
    ]


def _directions(rows: Sequence[RunNumbers], columns: Mapping[str, Column]) -> list[PaperTable]:
    shown = [x for name in columns or (ALL,) for x in sycophancy.directions("" if name == ALL else name, name)]
    return [by_method(rows, sycophancy.PAPER, "Figure 1", sycophancy.DIRECTED, shown)]


def _decisions(rows: Sequence[RunNumbers], columns: Mapping[str, Column]) -> list[PaperTable]:
    """Predictions of the action are from the belief, without the outcome and with it, unless a column says `given`."""
    if any("given" in dict(column) for column in columns.values()):
        return rationality.tables(rows)

    def named(metric: str, method: str, subset: str) -> tuple[str, str, str]:
        return metric, method, rationality.WITHOUT if (metric, subset) == ("logloss_gain", ALL) else subset

    return rationality.tables([replace(row, rows={named(*key): one for key, one in row.rows.items()}) for row in rows])


def _readouts(rows: Sequence[RunNumbers], columns: Mapping[str, Column]) -> list[PaperTable]:
    """Table 7, whose columns say what answers are compared with."""
    named = [replace(row, rows={(*key[:2], CLOSED): one for key, one in row.rows.items()}) for row in rows]
    return consistency.tables(named)


def _rejections(rows: Sequence[RunNumbers], columns: Mapping[str, Column]) -> list[PaperTable]:
    made = consistency.tables(rows)
    unnamed = [
        dict(column) for called, column in columns.items() if not {*called.split(", ")} & {*consistency.TEMPLATES}
    ]
    unknown = dict.fromkeys(repr(column["template"]) for column in unnamed if "template" in column)
    if not unknown:
        return made
    known = " and ".join(f"{name!r} or {asked!r}" for name, asked in consistency.TEMPLATES.items())
    note = f"Tables 5 and 6 are of templates called {known}; not of {', '.join(unknown)}."
    return [replace(table, notes=[*table.notes, note]) if table.number == "Table 1" else table for table in made]


def _by_name(names: Mapping[str, str]) -> Callable[[str], str]:
    """What a level is called, by its name in small letters; others stay as they are."""
    return lambda level: names.get(level.lower(), level)


EVIDENCE = "evidence"
"""The factor of the columns of Table 2 that its groups are named by."""
CLOSED = consistency.AGREEMENTS["free against closed set"]
CATEGORIES = {name.lower(): name.lower() for name in (*bscore.CATEGORIES, *bscore.VERIFIED["4"], bscore.BBQ)}
PROMPTS = {"standard": ALL, "p": rationality.WITHOUT, "p, x": rationality.CONTROL} | {
    name.lower(): subset for name, subset in (*rationality.PROMPTS.items(), *rationality.TRUTH.items())
}
WINDOWS = {name.removeprefix("ranks "): name for name in consistency.WINDOWS}
LAYOUTS = (
    PaperLayout(("M", "M_step"), _updates, ("domain", "reasoning", "prompt")),
    PaperLayout((RAW_ERROR, "shift"), _testimonies, ("arm", EVIDENCE)),
    PaperLayout(("top_b", "accept_accuracy"), lambda rows, _: bscore.tables(rows), ("category",), _by_name(CATEGORIES)),
    PaperLayout(("incorrect",), _directions, ("arm",)),
    PaperLayout(("agreement_prior", "agreement_posterior"), _readouts),
    PaperLayout(
        ("c2",), _rejections, ("template", "ranks"), lambda level: WINDOWS.get(level) or consistency.template(level)
    ),
    PaperLayout(
        ("cmi_knn", "rmse_truth", "lie_ratio", "prize_effect", "logloss_gain"),
        _decisions,
        ("prompt", "given"),
        _by_name(PROMPTS),
    ),
)
