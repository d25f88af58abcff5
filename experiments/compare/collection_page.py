"""The page of a collection: a forest, a table for each experiment with models as rows, lines over sizes or steps."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...base.files import OutputFolder
from ...base.text import as_csv, shown
from ...base.version import __version__
from ...metrics import SeedMean
from ..report.cells import qualified
from ..report.document import Block, Cell, Picture, Prose, Report, TableBlock, Top, grid
from ..report.figures import Panel, Row, chart, forests
from ..report.findings import Figure
from ..report.html import FIGURES
from ..report.html import write as write_report
from ..report.marks import AWAY, Axis, Mark, line, ranges, rule
from ..report.plotting import MARK
from ..report.score_files import prepared
from ..report.svg import INK
from .collection import OF_GROUP, SIZE, STEP, STEPS, CollectedRun, Collection, called, each

FILES = ("report.json", "report.html", FIGURES, "runs.csv", "runs.parquet", "pooled.csv", "pooled.parquet")
POOLING = (
    "Each number is the mean over seeds, and SD the standard deviation between them. The interval is for other items "
    "and other seeds: of the variance of a run's items, which seeds may share, and that between seeds over their "
    "number (METRICS F10)."
)
COLOURS = (MARK, AWAY, INK, "#7a6bb0", "#4f8f5b", "#b08d3f")
MOST_ROWS = 40
"""Of a panel."""


def prepare(folder: Path) -> OutputFolder:
    """The folder that a collection is to be written into. Raises UserError if it holds anything else."""
    return prepared(folder, FILES, "Collection", "collection")


def write(folder: OutputFolder, found: Collection, document: Report) -> None:
    """The tables, as CSV and Parquet, and the page."""
    for name, table in (("runs", found.rows), ("pooled", found.pooled)):
        folder.write(f"{name}.csv", as_csv(table))
        folder.write_table(f"{name}.parquet", table)
    write_report(folder, document)


def page(found: Collection, metrics: Sequence[str] = (), over: str | None = None) -> Report:
    """One page: the forest, then a table for each experiment, then lines, then each run. Raises UserError for a metric
    that no run has.
    """
    rows = found.named(metrics)
    counts = {name: found.rows[name].nunique() for name in ("experiment", "model", "seed")}
    held = ", ".join(f"{n} {name}{'s' * (n != 1)}" for name, n in counts.items())
    said = [f"{experiment}: {_verdict(own)}" for experiment, own in rows.groupby("experiment", sort=False)]
    top = Top(
        said=f"{len(found.runs)} runs: {held}.",
        verdict=Prose(text=(*said, "No number of the whole data is there.")[0], strong=True),
        further=[Prose(text=text, strong=True) for text in said[1:]],
        figure=forest_of(found, metrics),
    )
    drawn = lines_of(found, metrics, over)
    blocks: list[Block] = [
        *(_table(str(experiment), own) for experiment, own in rows.groupby("experiment", sort=False)),
        Prose(text=POOLING, soft=True, short=True),
        *(Prose(text=text, short=True) for text in found.left_out),
        *([Picture(title=drawn.title, figure=drawn)] if drawn else []),
        *(
            [Prose(text=f"Not drawn over {over}: fewer than two values are known.", short=True)]
            if over and not drawn
            else []
        ),
        _by_run(found, rows),
    ]
    return Report("Collection", f"of {len(found.runs)} runs", top, blocks, f"doxascope {__version__}.", unfolded=True)


def _verdict(rows: pd.DataFrame) -> str:
    """What is said of the models, those of which the same is said together."""
    alike: dict[str, list[str]] = {}
    for row in each(rows):
        alike.setdefault(str(row.verdict) or "not judged", []).append(_named(row))
    return ". ".join(f"{', '.join(dict.fromkeys(names))}: {said}" for said, names in alike.items()) + "."


def _named(row: Any) -> str:
    return ", ".join(filter(None, (row.model, row.setting)))


def _table(experiment: str, rows: pd.DataFrame) -> TableBlock:
    """Models as rows, and a column for each metric and method."""
    titles = list(dict.fromkeys((row.metric, called(row)) for row in each(rows)))
    at = {(_named(row), row.metric, called(row)): row for row in each(rows)}
    names = list(dict.fromkeys(_named(row) for row in each(rows)))
    seeds = {name: max(row.seeds for row in each(rows) if _named(row) == name) for name in names}
    several = len({metric for metric, _ in titles}) > 1
    head = ["model", *(f"{metric}, {method}" if several else method for metric, method in titles), "seeds"]
    cells = [
        [Cell(name), *(_cell(at.get((name, *title))) for title in titles), Cell(str(seeds[name]))] for name in names
    ]
    metric = titles[0][0] if not several else "numbers"
    return grid(f"{experiment}: {metric}", head, cells, short=True)


def _cell(row: Any) -> Cell:
    if row is None or not np.isfinite(row.estimate):
        return Cell("–", known=False, status="" if row is None else qualified(row.status))
    bare = not np.isfinite(row.ci_lo)
    interval = "no interval" if bare else f"[{shown(row.ci_lo)}, {shown(row.ci_hi)}]"
    spread = f"SD {shown(row.sd)}" if np.isfinite(row.sd) else ""
    exact = {name: None if pd.isna(value) else value for name, value in row._asdict().items() if name != "Index"}
    below = [interval, *([spread] if spread else [])]
    return Cell(shown(row.estimate), below, grey=bare, status=qualified(row.status), known=True, score=exact)


def _by_run(found: Collection, rows: pd.DataFrame) -> TableBlock:
    """Each run by itself, of the numbers that are shown."""
    shown_here = set(zip(rows["experiment"], rows["metric"], strict=True))
    own = found.rows[found.rows["subset"].eq("all")]
    lines = [
        [
            row.run, str(row.seed), f"{row.metric}, {called(row)}",
            Cell(shown(row.estimate), ["" if np.isnan(row.ci_lo) else f"[{shown(row.ci_lo)}, {shown(row.ci_hi)}]"],
                 status=qualified(str(row.status))),
            f"{row.n} in {row.clusters}", row.verdict,
        ]
        for row in each(own) if (row.experiment, row.metric) in shown_here
    ]  # fmt: skip
    return grid("Each run", ["run", "seed", "number", "estimate", "n, in clusters", "verdict"], lines)


# The two figures.


def forest_of(found: Collection, metrics: Sequence[str] = ()) -> Figure | None:
    """A panel for each experiment and metric, models as rows; of a registered number its method alone."""
    panels = []
    for experiment, metric, runs, rows in _shown(found, metrics):
        methods = {called(row) for row in each(rows)}
        failed = {(run.model, *key) for run in runs for key in run.unreadable}
        drawn: list[Row] = [
            (
                ", ".join([_named(row), *([called(row)] if len(methods) > 1 else [])]),
                _score(found, row),
                (row.model, row.method, row.kind) in failed,
            )
            for row in each(rows)
            if np.isfinite(row.estimate)
        ]
        if drawn:
            method = f", {methods.pop()}" if len(methods) == 1 else ""
            panels.append((f"{experiment}: {metric}{method}", drawn[:MOST_ROWS], _coherent(runs, metric)))
    if not panels:
        return None
    hollow = any(failed for _, rows, _ in panels for *_, failed in rows)
    caption = "The mean over seeds, with its interval for other items and seeds."
    caption += " Dashed: coherent." if any(at is not None for *_, at in panels) else ""
    return forests("Models side by side", panels, caption + (" Hollow: cannot be read." if hollow else ""))


def _shown(found: Collection, metrics: Sequence[str]) -> Iterator[tuple[str, str, list[CollectedRun], pd.DataFrame]]:
    """Experiment, metric, the runs, and the rows that are drawn."""
    for (experiment, metric), rows in found.named(metrics).groupby(["experiment", "metric"], sort=False):
        runs = [run for run in found.runs if run.experiment == experiment]
        yield str(experiment), str(metric), runs, _of_registered(rows, runs, str(metric))


def _of_registered(rows: pd.DataFrame, runs: Sequence[CollectedRun], metric: str) -> pd.DataFrame:
    plans = {run.headline for run in runs if run.headline[0] == metric and run.headline[1]}
    own = rows[[(metric, row.method, row.kind) in plans for row in each(rows)]]
    return own if len(own) else rows


def _coherent(runs: Sequence[CollectedRun], metric: str) -> float | None:
    values = {run.coherent for run in runs if run.headline[0] == metric and np.isfinite(run.coherent)}
    return values.pop() if len(values) == 1 else None


def _score(found: Collection, row: Any) -> SeedMean:
    score = found.scores[tuple(getattr(row, name) for name in OF_GROUP)]
    return SeedMean(mean=score.mean, ci_lo=row.ci_lo, ci_hi=row.ci_hi, n_rows=score.n_rows)


def lines_of(found: Collection, metrics: Sequence[str] = (), over: str | None = None) -> Figure | None:
    """Each number over the steps of checkpoints, the sizes of models, or a setting; None where fewer than two values of
    it are known. Not said over what: steps where a name has one, else sizes.
    """
    places, axis = _places(found, over)
    panels = []
    for experiment, metric, runs, rows in _shown(found, metrics):
        families = _families(rows, places, by_model=over not in (None, SIZE, STEPS))
        if families:
            alone = "".join(f", {name}" for name in families if len(families) == 1)
            marks = list(_lines(families, places, named=len(families) > 1))
            reference = _coherent(runs, metric)
            marks += [rule(reference, "coherent")] if reference is not None else []
            panels.append(Panel(f"{experiment}: {metric}{alone}", marks))
    if len(set(places.values())) < 2 or not panels:
        return None
    caption = "The mean over seeds, with its interval."
    return chart(f"Over {axis.label}", panels, caption, x=axis, columns=3, side=(2.2, 1.6))


def _places(found: Collection, over: str | None) -> tuple[Mapping[tuple[str, str], float], Axis]:
    """(model, setting) -> where it stands, and the axis."""
    pairs = {(row.model, row.setting) for row in each(found.pooled[["model", "setting"]].drop_duplicates())}
    steps = {pair: float(match[1]) for pair in pairs if (match := STEP.search(pair[0]))}
    if over == STEPS or (over is None and len(set(steps.values())) > 1):
        return steps, Axis("step", most=4)
    if over in (None, SIZE):
        known = {run.model: run.n_parameters for run in found.runs if np.isfinite(run.n_parameters)}
        sizes = {pair: float(np.log10(known[pair[0]])) for pair in pairs if pair[0] in known}
        ticks = sorted(set(sizes.values()))
        return sizes, Axis("size (parameters)", ticks=ticks, names=[_size(10**tick) for tick in ticks], size=7)
    named = [
        (run, text) for run in found.runs for name, text in run.settings.items() if f".{name}".endswith(f".{over}")
    ]
    settings = {(run.model, run.setting): float(text) for run, text in named if NUMBER.fullmatch(text)}
    return settings, Axis(str(over), most=4)


NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?")
"""Of a setting that is one."""


def _size(n: float) -> str:
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if n >= unit:
            return f"{n / unit:.3g}{name}"
    return f"{n:.0f}"


def _families(
    rows: pd.DataFrame, places: Mapping[tuple[str, str], float], *, by_model: bool
) -> Mapping[str, Sequence[Any]]:
    """The rows of each line, in their order: one for each method, and where there are steps, each family of models; or
    for each model.
    """
    families: dict[str, list[Any]] = {}
    for row in each(rows):
        if (row.model, row.setting) in places and np.isfinite(row.estimate):
            family = STEP.sub("", row.model).strip("-_ ,") if STEP.search(row.model) else row.model if by_model else ""
            families.setdefault(", ".join(filter(None, (family, called(row)))), []).append(row)
    return {name: sorted(own, key=lambda row: places[row.model, row.setting]) for name, own in families.items()}


def _lines(
    families: Mapping[str, Sequence[Any]], places: Mapping[tuple[str, str], float], *, named: bool
) -> Iterator[Mark]:
    for i, (name, own) in enumerate(families.items()):
        x = [places[row.model, row.setting] for row in own]
        colour = COLOURS[i % len(COLOURS)]
        yield ranges(x, [row.ci_lo for row in own], [row.ci_hi for row in own], color=colour, alpha=0.6)
        yield line(x, [row.estimate for row in own], name if named else "", color=colour, dots=4)
