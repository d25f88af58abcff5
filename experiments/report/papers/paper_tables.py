"""Tables as papers print them, of one or many runs together: data, and the same for a terminal and a page."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ....metrics.bscore.answer_metrics import RIGHT
from ....metrics.consistency.competence import NOT_SHOWN, READABLE, UNREADABLE
from ....metrics.number import status_text
from ....metrics.tables.samples import ALL
from ..cells import aligned
from ..document import Cell, TableBlock, grid

DASH = "–"
READ_AS = "read as"
"""Heading of the column that names the way of reading of each row."""
MOST_TOLD = 4
"""Numbers of which a note says how many rows they leave out."""
BY_DEFINITION = (RIGHT,)
"""Why rows are left out that a table is not about."""
FLAT = 1e-9
"""Width of an interval that is none."""
THINK = "Think"
"""Heading of the column with a mark at what thinks before it answers."""
MARKS = {UNREADABLE: "†", NOT_SHOWN: "‡"}
"""Verdict -> what stands behind the name of what is no measured belief."""


@dataclass(frozen=True)
class RunNumbers:
    """The numbers of a stored run, by name."""

    model: str
    dataset: str
    """What it was asked about, where runs of one model differ by it."""
    thinking: bool
    rows: Mapping[tuple[str, str, str], Mapping[str, Any]]
    """(metric, method, subset) -> a row of `scores.json`."""
    readable: Mapping[str, str] | None = None
    """Method -> the verdict on whether it can be read; what was not judged is missing. None: nothing is judged."""
    smoke: Collection[str] = ()
    """Domains whose questions are the few that come with doxascope, and none of a paper's data set."""

    @property
    def methods(self) -> list[str]:
        """Those that have numbers, in their order."""
        return list(dict.fromkeys(method for _, method, _ in self.rows))

    def mark(self, method: str) -> str:
        """What stands behind the name of a method that is not shown to be a measured belief."""
        if self.readable is None:
            return ""
        judged = [name for name in self.readable if method == name or method.startswith(f"{name} ")]  # or drawn from it
        state = self.readable[max(judged, key=len)] if judged else NOT_SHOWN
        return "" if state == READABLE else MARKS.get(state, MARKS[NOT_SHOWN])

    def value(self, metric: str, method: str, subset: str = ALL, name: str = "estimate") -> float:
        """A number, or a field of it; NaN if the run does not hold it."""
        row = self.rows.get((metric, method, subset), {})
        found = row.get(name, row.get("details", {}).get(name))
        return found if isinstance(found, int | float) else math.nan

    def ends(self, metric: str, method: str, subset: str = ALL, name: str = "") -> tuple[float, float]:
        """The interval of a number, or that which a field `name`, with dots, holds; NaN if there is none."""
        row = self.rows.get((metric, method, subset), {})
        found = (row.get("ci_lo"), row.get("ci_hi"))
        if name:
            found = reduce(lambda held, key: (held or {}).get(key), name.split("."), row.get("details"))
        lo, hi = found if isinstance(found, list | tuple) and len(found) == 2 else (None, None)
        return (math.nan if lo is None else lo, math.nan if hi is None else hi)

    def counted(self, metric: str, method: str, subset: str = ALL) -> Mapping[str, Any]:
        """What a number rests on, and its status; empty if the run does not hold it."""
        row = self.rows.get((metric, method, subset), {})
        return {name: row[name] for name in (*COUNTED, "reasons") if name in row}


COUNTED = ("n_rows", "n_clusters", "n_dropped", "status")
OK = "ok"


class PaperCell(NamedTuple):
    """A number of a table."""

    text: str = DASH
    """As the paper prints it, with its stars."""
    interval: str = ""
    """Ours, beside it."""
    value: float = math.nan
    ends: tuple[float, float] = (math.nan, math.nan)
    counted: Mapping[str, Any] = MappingProxyType({})
    """What the number rests on, and its status."""
    written: str = ".4f"
    meant: Collection[str] = BY_DEFINITION
    """Why rows are left out that the number is not about."""

    @property
    def below(self) -> str:
        """What stands under the number: its interval, and its status; where there is no number, why."""
        status = self.counted.get("status", OK)
        if self.text == DASH and (reasons := self.counted.get("reasons")) and not self.counted.get("n_rows"):
            return f"(none of {sum(reasons.values())} rows counts: {', '.join(reasons)})"
        return " ".join(filter(None, (self.interval, "" if status == OK else f"({status_text(status)})")))

    @property
    def left_out(self) -> tuple[int, int, str]:
        """How many rows the number leaves out that the table does not mean to, of how many, and why."""
        reasons = {name: n for name, n in self.counted.get("reasons", {}).items() if name not in self.meant}
        meant = sum(n for name, n in self.counted.get("reasons", {}).items() if name in self.meant)
        n = (self.counted.get("n_dropped") or 0) - meant
        return n, n + (self.counted.get("n_rows") or 0), ", ".join(reasons) or "undefined"


class PaperColumn(NamedTuple):
    """A column of a table whose cells are one number of a method each."""

    group: str
    name: str
    metric: str
    subset: str = ALL
    field: str = "estimate"
    written: str = ".4f"
    p: str = ""
    """Field of the p by which the paper sets stars."""
    stars: Sequence[tuple[float, str]] = ()
    """(level, what stands behind the number below it), the strictest first."""
    interval: str = ""
    """Field that holds the interval of `field`; empty: only an estimate has one."""
    before: bool = False
    """Whether stars stand before the number."""
    repeated: bool = False
    """Whether it is of repeated answers alone."""
    starred_by: tuple[str, str] = ("", "")
    """Metric and subset whose `p` sets the stars; empty: its own."""
    balanced: bool = False
    """Whether it is 1 over the number of options whoever answers, where no row is left out."""


@dataclass(frozen=True)
class PaperTable:
    """A table, in plain data."""

    paper: str
    number: str
    caption: str
    labels: tuple[str, ...]
    """Headings of the columns that name the rows."""
    columns: Sequence[tuple[str, str]]
    """(group, name) of each other column."""
    rows: Sequence[tuple[tuple[str, ...], Sequence[PaperCell]]]
    """Labels and cells."""
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def empty(self) -> bool:
        """Whether no run holds any number of it, defined or not."""
        return all(cell.text == DASH and not cell.counted for _, cells in self.rows for cell in cells)

    @property
    def told(self) -> list[str]:
        """The notes, and how many rows its numbers leave out."""
        places: dict[str, tuple[int, int, str]] = {}
        for labels, cells in self.rows:
            groups: dict[str, tuple[int, int, str]] = {}
            for (group, name), cell in zip(self.columns, cells, strict=True):
                if cell.text != DASH and cell.left_out[0] > 0:
                    groups.setdefault(group or name, cell.left_out)
            for left_out in dict.fromkeys(groups.values()):
                *first, last = [name for name, found in groups.items() if found == left_out]
                of = f"{', '.join(first)} and {last}" if first else last
                places[", ".join(filter(None, (*self._named(labels), of)))] = left_out
        worst = sorted(places.items(), key=lambda place: -place[1][0] / place[1][1])
        told = [f"{n} of {of} ({place}: {why})" for place, (n, of, why) in worst[:MOST_TOLD]]
        more = [f"no larger share in {len(worst) - MOST_TOLD} more"] if len(worst) > MOST_TOLD else []
        return [*self.notes, *([f"Rows left out: {'; '.join(told + more)}"] if told else [])]

    def _named(self, labels: Sequence[str]) -> list[str]:
        """Labels of a row as a sentence names them: whether it thinks in words, where rows differ by it."""
        at = self.labels.index(THINK) if THINK in self.labels else -1
        if at < 0 or len({own[at] for own, _ in self.rows}) < 2:
            return [name for i, name in enumerate(labels) if i != at]
        return [("thinking" if name else "not thinking") if i == at else name for i, name in enumerate(labels)]


def number_cell(
    value: float,
    ends: tuple[float, float] = (math.nan, math.nan),
    *,
    written: str = ".4f",
    stars: str = "",
    before: bool = False,
    counted: Mapping[str, Any] = MappingProxyType({}),
) -> PaperCell:
    """A number as the paper writes it, or a dash; what does not vary has no interval, and says so."""
    status = counted.get("status", OK)
    if math.isnan(value):
        return PaperCell(counted={**counted, "status": "undefined"} if counted and status == OK else counted)
    text = _written(value, written)
    if ends[1] - ends[0] <= FLAT:
        counted, ends = {**counted, "status": "zero_cluster_variance" if status == OK else status}, (math.nan, math.nan)
    interval = "" if math.isnan(ends[0]) else f"[{', '.join(_written(end, written) for end in ends)}]"
    return PaperCell(f"{stars}{text}" if before else f"{text}{stars}", interval, value, ends, counted, written)


def _written(value: float, how: str) -> str:
    """A number in a format; what rounds to zero has no sign."""
    text = format(value, how)
    return text if any(digit in text for digit in "123456789") else text.lstrip("+-")


def starred(run: RunNumbers, method: str, p: float, stars: Sequence[tuple[float, str]]) -> str:
    """What a paper sets at a number of this p; nothing at one of a method that cannot be read."""
    unread = run.mark(method) == MARKS[UNREADABLE]
    return "" if unread else next((mark for level, mark in stars if p < level), "")


def cell_of(run: RunNumbers, method: str, column: PaperColumn) -> PaperCell:
    """The number of a column that a method of a run holds."""
    if column.repeated and method and not method.endswith(" sampled"):  # of a table every row was
        return PaperCell()
    one = (column.metric, method, column.subset)
    tested, part = column.starred_by if any(column.starred_by) else (column.metric, column.subset)
    ends = run.ends(*one, column.interval) if column.interval or column.field == "estimate" else (math.nan, math.nan)
    stars = starred(run, method, run.value(tested, method, part, column.p), column.stars) if column.p else ""
    value, counted = run.value(*one, column.field), run.counted(*one)
    alike = column.balanced and value > 0 and math.isclose(1 / value, round(1 / value))
    if alike or (column.field in COUNTED and not math.isnan(value)):  # neither it nor a count has a status
        counted = {**counted, "status": OK}
    return number_cell(
        value, ends, written=column.written, stars=stars, before=column.before, counted=counted,
    )  # fmt: skip


def by_method(
    runs: Sequence[RunNumbers],
    paper: str,
    number: str,
    caption: str,
    columns: Sequence[PaperColumn],
    *,
    labels: Sequence[str] = ("Model",),
    notes: Sequence[str] = (),
) -> PaperTable:
    """A row for each method of each run that holds any of the columns."""
    several = len({run.dataset for run in runs}) > 1
    thinks = THINK in labels
    rows: list[tuple[tuple[str, ...], list[PaperCell]]] = []
    for run in runs:
        for method in run.methods:
            cells = [cell_of(run, method, column) for column in columns]
            if any(cell.text != DASH or cell.below for cell in cells):
                name = f"{run.dataset}-{run.model}" if several else run.model
                think = ("✓" if run.thinking else "",) if thinks else ()
                rows.append(((name + run.mark(method), *think, method), cells))
    return PaperTable(
        paper, number, caption, (*labels, READ_AS), [(one.group, one.name) for one in columns], rows, notes
    )


def remarks(
    runs: Sequence[RunNumbers], told: str, metric: str, name: str, without: str = "", subsets: Collection[str] = (ALL,)
) -> list[str]:
    """A note of what stands beside a number of some subsets under a name, but where it begins with `without`."""
    found: dict[str, None] = {}
    for run in runs:
        for (known, method, subset), row in run.rows.items():
            text = (row.get("beside") or {}).get(name)
            place = ", ".join(filter(None, (run.dataset, run.model, method, "" if subset == ALL else subset)))
            if known == metric and subset in subsets and text and not (without and text.startswith(without)):
                found[f"{text} ({place})"] = None
    return [f"{told}: {'; '.join(found)}"] if found else []


def across(
    runs: Sequence[RunNumbers],
    paper: str,
    number: str,
    caption: str,
    rows: Iterable[tuple[tuple[str, ...], Callable[[RunNumbers, str], PaperCell]]],
    *,
    labels: Sequence[str],
    mean: str,
) -> PaperTable:
    """A column for each method of each run that some row holds, and the `mean` of a method that several runs have."""
    ways = [(run, method) for run in runs for method in run.methods]
    made = [(names, [cell(*way) for way in ways]) for names, cell in rows]
    kept = [i for i in range(len(ways)) if any(cells[i].text != DASH for _, cells in made)]
    of_method: dict[str, list[int]] = {}
    for i in kept:
        of_method.setdefault(ways[i][1], []).append(i)
    several = {method: places for method, places in of_method.items() if len(places) > 1}
    found = []
    for names, cells in made:
        if any(cells[i].text != DASH for i in kept):
            means = [mean_cell([cells[i] for i in places]) for places in several.values()]
            found.append((names, [*(cells[i] for i in kept), *means]))
    columns = [(ways[i][0].model + ways[i][0].mark(ways[i][1]), ways[i][1]) for i in kept]
    columns += [(mean, method) for method in several]
    return PaperTable(paper, number, caption, tuple(labels), columns, found)


def mean_cell(cells: Sequence[PaperCell], *, apart: bool = False) -> PaperCell:
    """The mean of what is known, as written there; of cells that were sampled `apart`, with the interval that theirs
    give: half-widths add in squares. Models that read the same questions are not apart.
    """
    known = [cell for cell in cells if cell.text != DASH]
    if not known:
        return PaperCell()
    value = float(np.mean([cell.value for cell in known]))
    widths = np.array([[cell.value - cell.ends[0], cell.ends[1] - cell.value] for cell in known])
    below, above = np.sqrt((widths**2).sum(axis=0)) / len(known) if apart else (math.nan, math.nan)
    counted = of_parts([cell.counted for cell in cells])
    return number_cell(value, (value - below, value + above), written=known[0].written, counted=counted)


def of_parts(counted: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The status of a mean: those of its parts that are not `ok`, also of the parts that have no number."""
    statuses = dict.fromkeys(str(part["status"]) for part in counted if part.get("status", OK) != OK)
    return {"status": ", ".join(map(status_text, statuses))} if statuses else {}


def as_rows(tables: Iterable[PaperTable]) -> pd.DataFrame:
    """table, a column for each label, column, shown, value, ci_lo, ci_hi, n_rows, n_clusters, n_dropped, status: a row
    for each number, and for each that a run holds and that is undefined.
    """
    return pd.DataFrame(
        {"table": table.number, **dict(zip((name.lower() for name in table.labels), labels, strict=True))}
        | {"column": ", ".join(filter(None, column)), "shown": cell.text, "value": cell.value}
        | {"ci_lo": cell.ends[0], "ci_hi": cell.ends[1]}
        | {name: cell.counted.get(name) for name in COUNTED}
        for table in tables
        for labels, cells in table.rows
        for column, cell in zip(table.columns, cells, strict=True)
        if cell.text != DASH or cell.counted
    )


def marks_of(tables: Iterable[PaperTable]) -> list[str]:
    """What the marks at numbers, and at the names of rows and columns, mean, of those that occur."""
    rows = [text for table in tables for labels, cells in table.rows for text in (*labels, *(c.text for c in cells))]
    names = [*rows, *(group for table in tables for group, _ in table.columns)]
    told = {UNREADABLE: "unreadable: no belief is measured", NOT_SHOWN: "not shown to be readable"}
    return [f"{MARKS[state]} {says}" for state, says in told.items() if any(x.endswith(MARKS[state]) for x in names)]


def as_lines(table: PaperTable) -> Iterator[str]:
    """The lines of a terminal; each interval under its number."""
    heads = [list(table.labels) + [group for group, _ in table.columns], [""] * len(table.labels)]
    heads[1] += [name for _, name in table.columns]
    if not any(heads[0][len(table.labels) :]):
        heads = [list(table.labels) + heads[1][len(table.labels) :]]
    lines = [_grouped(heads[0]), *heads[1:]] if len(heads) > 1 else heads
    for labels, cells in table.rows:
        lines.append([*labels, *(cell.text for cell in cells)])
        if any(cell.below for cell in cells):
            lines.append([*("" for _ in labels), *(cell.below for cell in cells)])
    yield f"{table.number} ({table.paper}): {table.caption}"
    yield from (f"  {line}".rstrip() for line in aligned(lines, range(len(table.labels))))
    yield from (f"  {note}" for note in table.told)


def _grouped(heads: Sequence[str]) -> list[str]:
    """The headings of groups, each once."""
    return [head if i == 0 or head != heads[i - 1] else "" for i, head in enumerate(heads)]


# The same as a section of a report.


def as_blocks(tables: Sequence[PaperTable]) -> list[TableBlock]:
    """Those that hold anything, each with its intervals and what its marks mean; the first in a terminal, too."""
    return [_block(table, first=i == 0) for i, table in enumerate(table for table in tables if not table.empty)]


def _block(table: PaperTable, first: bool) -> TableBlock:
    head = [*table.labels, *(": ".join(filter(None, column)) for column in table.columns)]
    rows = [
        [*labels, *(Cell(x.text, [x.below] if x.below else []) for x in cells)]  # rows of dashes stay in their place
        for labels, cells in table.rows
    ]
    caption = " ".join(f"{told.rstrip('.')}." for told in (table.caption, *table.told, *marks_of([table])))
    return grid(f"{table.number} of {table.paper}", head, rows, caption, short=first, chapter="Tables of the paper")
