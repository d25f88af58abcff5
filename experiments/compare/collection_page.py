"""The page of a collection: a forest, a table for each experiment with models as rows, lines over sizes or steps."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...base.files import OutputFolder
from ...base.text import as_csv, listed, shown
from ...base.version import __version__
from ...metrics.number import interval_text
from ...metrics.tables.samples import ALL
from ..report.cells import qualified
from ..report.document import Block, Cell, Picture, Prose, Report, TableBlock, Top, grid
from ..report.html import FIGURES
from ..report.html import write as write_report
from ..report.score_files import prepared
from ..run.terms import KINDS, numbers_named, terms_of
from .collection import Collection
from .collection_figures import LEGEND, called, each, forest_of, lines_of, mark_of, named

FILES = ("report.json", "report.html", FIGURES, "runs.csv", "runs.parquet", "pooled.csv", "pooled.parquet")
POOLING = (
    "Each number is the mean over seeds; behind SD stands the standard deviation between them. A row of one seed has "
    "the interval of its run. That of several seeds generalises to other items and other seeds: its variance is that "
    "over the items of one run, as seeds may have items in common, plus the variance between seeds divided by their "
    "number (F10 in docs/metrics/definitions.md)."
)


def prepare(folder: Path) -> OutputFolder:
    """The folder that a collection is to be written into. Raises UserError if it holds anything else."""
    return prepared(folder, FILES, "Collection", "collection")


def write(folder: OutputFolder, collection: Collection, document: Report) -> None:
    """The tables, as CSV and Parquet, and the page."""
    for name, table in (("runs", collection.rows), ("pooled", collection.pooled)):
        folder.write(f"{name}.csv", as_csv(table))
        folder.write_table(f"{name}.parquet", table)
    write_report(folder, document)


def page(collection: Collection, metrics: Sequence[str] = (), over: str | None = None) -> Report:
    """The forest, a table for each experiment, lines, each run. Raises UserError for a metric that no run has."""
    rows = collection.named(metrics)
    counts = {name: collection.rows[name].nunique() for name in ("experiment", "model", "seed")}
    parts = ", ".join(f"{n} {name}{'s' * (n != 1)}" for name, n in counts.items())
    findings = [
        f"{experiment}: {_verdict(of_experiment)}"
        for experiment, of_experiment in rows.groupby("experiment", sort=False)
    ]
    top = Top(
        said=f"{len(collection.runs)} runs: {parts}.",
        verdict=Prose(text=(*findings, "No number of the whole data is there.")[0], strong=True),
        further=[Prose(text=text, strong=True) for text in findings[1:]],
        figure=forest_of(collection, metrics),
    )
    drawn = lines_of(collection, metrics, over)
    blocks: list[Block] = [
        *(
            _table(str(experiment), of_experiment)
            for experiment, of_experiment in rows.groupby("experiment", sort=False)
        ),
        *([Prose(text=f"{LEGEND}.", soft=True, short=True)] if any(map(mark_of, each(rows))) else []),
        Prose(text=POOLING, soft=True, short=True),
        *(Prose(text=text, short=True) for text in collection.left_out),
        *([Picture(title=drawn.title, figure=drawn)] if drawn else []),
        *(
            [
                Prose(
                    text=f"Nothing is drawn over {over}: fewer than two of its values are known as numbers.", short=True
                )
            ]
            if over and not drawn
            else []
        ),
        _by_run(collection, rows),
    ]
    return Report(
        "Collection", f"of {len(collection.runs)} runs", top, blocks, f"doxascope {__version__}.", unfolded=True,
        terms=_terms(collection, rows),
    )  # fmt: skip


def _terms(collection: Collection, rows: pd.DataFrame) -> list[tuple[str, str]]:
    """What the methods of the rows ask, and what their kinds are."""
    terms: dict[str, dict[str, None]] = {}
    for experiment, of_experiment in rows.groupby("experiment", sort=False):
        where = f"in {experiment}, " if rows["experiment"].nunique() > 1 else ""
        methods, kinds = of_experiment["method"].unique().tolist(), of_experiment["kind"].unique().tolist()
        for run in collection.runs:
            if run.experiment == experiment:
                for name, means in terms_of(run.config, methods, kinds):
                    terms.setdefault(name, {})[means if name in KINDS else f"{where}{means}"] = None
    scores = (score for run in collection.runs for score in run.scores if score["metric"] in {*rows["metric"]})
    named = ((s["metric"], s.get("quantity", ""), s.get("family", "")) for s in scores if s["subset"] == ALL)
    return [*((name, "; ".join(several)) for name, several in terms.items()), *numbers_named(named)]


def _verdict(rows: pd.DataFrame) -> str:
    """What is said of the models, alike ones together; where the experiment has several methods, of which of them."""
    several = len({called(row) for row in each(rows)}) > 1
    alike: dict[str, dict[str, dict[str, None]]] = {}
    for row in each(rows):
        models = alike.setdefault(str(row.verdict) or "not judged", {})
        models.setdefault(named(row), {}).setdefault(called(row))
    said = {
        verdict: [f"{listed([*methods])} of {model}" if several else model for model, methods in models.items()]
        for verdict, models in alike.items()
    }
    return ". ".join(f"{', '.join(names)}: {verdict}" for verdict, names in said.items()) + "."


def _table(experiment: str, rows: pd.DataFrame) -> TableBlock:
    """Models as rows, and a column for each metric and method."""
    titles = list(dict.fromkeys((row.metric, called(row)) for row in each(rows)))
    at = {(named(row), row.metric, called(row)): row for row in each(rows)}
    names = list(dict.fromkeys(named(row) for row in each(rows)))
    seeds = {name: max(row.seeds for row in each(rows) if named(row) == name) for name in names}
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
    return Cell(
        shown(row.estimate) + mark_of(row), below, grey=bare, status=qualified(row.status), known=True, score=exact
    )


def _by_run(collection: Collection, rows: pd.DataFrame) -> TableBlock:
    """Each run by itself, of the numbers that are shown."""
    shown_here = set(zip(rows["experiment"], rows["metric"], strict=True))
    whole = collection.rows[collection.rows["subset"].eq("all")]
    lines = [
        [
            row.run, str(row.seed), f"{row.metric}, {called(row)}",
            Cell(shown(row.estimate) + mark_of(row), [interval_text(row.ci_lo, row.ci_hi)],
                 status=qualified(str(row.status))),
            f"{row.n} in {row.clusters}", row.verdict,
        ]
        for row in each(whole) if (row.experiment, row.metric) in shown_here
    ]  # fmt: skip
    return grid("Each run", ["run", "seed", "number", "estimate", "n, in clusters", "verdict"], lines)
