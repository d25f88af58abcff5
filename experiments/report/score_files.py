"""The files of scores of a table: JSON for a program, a page for a reader."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import UserError
from ...base.files import OutputFolder
from ...base.version import __version__
from ...metrics.claims import verdicts
from ...metrics.coherence import COHERENCE
from ...metrics.martingale.update_metrics import as_cells
from ...metrics.metric import registered
from ...metrics.number import Number
from ...metrics.scoring.engine import ScoredTable
from ...metrics.tables.sample_rows import Updates
from ...metrics.tables.samples import ALL, Cells
from .cells import adjusted_over, as_row, beside, family_size, scored_table
from .document import Block, Picture, Prose, Report, grid, in_chapter
from .figures import forest
from .findings import Figure
from .html import REPORT
from .html import write as write_report
from .lead import Lead
from .papers.martingale import setup_figure
from .papers.of_levels import tables_of_levels
from .papers.paper_tables import as_blocks

FILES = ("scores.json", *REPORT)


def as_data(scored: ScoredTable, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same for `scores.json`."""
    return {
        "doxascope": __version__,
        "table": scored.understood.path.name,
        "understood": scored.understood.line,
        "settings": dict(settings),
        "scores": [as_row(number) for number in scored.all],
        "not_scored": dict(scored.skipped),
    }


def page_of(scored: ScoredTable, settings: Mapping[str, Any]) -> Report:
    """One document: a table for each sample, and behind those of all of it the numbers of its parts."""
    skipped = [Prose(text=f"Not scored: {name} {why}.", short=True) for name, why in scored.skipped.items()]
    named: dict[str, tuple[list[Number], list[Number]]] = {}
    parts = {sample.subset for sample in scored.understood.samples if sample.subset != ALL}
    for number in scored.numbers:
        of_part = number.subset in parts or number.subset.startswith(tuple(f"{part}, " for part in parts))
        named.setdefault(number.name, ([], []))[of_part].append(number)
    blocks: list[Block] = []
    for name, (whole, rest) in named.items():
        title = name or "Scores"
        blocks += [scored_table(whole, _notes, title=title, short=True)] if whole else []
        blocks += [scored_table(rest, _notes, title="" if whole else title, caption="Of parts.")] if rest else []
    blocks = in_chapter("Scores", blocks)
    if scored.differences:
        caption = f"Clusters of both resampled together; {adjusted_over(family_size(scored.differences))}."
        title = "Differences on the same items"
        blocks.append(scored_table(scored.differences, lambda _: (), title=title, caption=caption, short=True))
    blocks += skipped
    blocks += [Picture(figure=drawn)] if (drawn := setup_figure(_with_forecasts(scored))) else []
    blocks += as_blocks(tables_of_levels(scored))
    families = {number.family for number in scored.numbers}
    known = [[metric.name, metric.code, metric.sentence] for metric in registered() if metric.name in families]
    blocks.append(grid("Definitions", ["metric", "definition", "what it asks"], known))
    chosen = "".join(f", {key} {value}" for key, value in settings.items())
    top = Lead.of_table(scored).top(f"{scored.understood.line}.".replace("..", "."), _lead_figure(scored))
    made_with, of = f"doxascope {__version__}{chosen}.", f"of {scored.understood.path.name}"
    return Report("Scores", of, top, blocks, made_with, terms=scored.terms)


def _with_forecasts(scored: ScoredTable) -> Iterator[Cells]:
    """Cells that have a Brier score, as they were given or from updates under several conditions with outcomes."""
    for sample in scored.understood.samples:
        if isinstance(sample, Cells) and sample.subset == ALL and not sample.run:
            yield sample
        elif isinstance(sample, Updates) and sample.factors is not None and sample.whole.outcome is not None:
            yield as_cells(sample)


def _lead_figure(scored: ScoredTable) -> Figure | None:
    """The registered number, or the first one that has an interval, of every sample that has it."""
    plan = scored.registered
    whole = [number for number in scored.numbers if number.subset == ALL]
    lead = None if plan is None else plan.among(scored.all)
    lead = lead or next((number for number in whole if math.isfinite(number.score.ci_lo)), None)
    if lead is None:
        return None
    failed = {(number.method, number.kind) for number in verdicts(scored.numbers) if not number.passed}
    rows = [
        (
            number.name or "all rows",
            number.score,
            (", ".join(filter(None, (number.method, number.run))), number.kind) in failed,
        )
        for number in whole
        if (number.metric, number.quantity) == (lead.metric, lead.quantity)
    ]
    name = lead.quantity or lead.metric
    coherent = COHERENCE[lead.metric].coherent if lead.metric in COHERENCE else None
    caption = "This number with its interval, of everything that has it."
    caption += "" if coherent is None else f" Dashed: {coherent:g}, a coherent belief."
    return forest(name[:1].upper() + name[1:], rows, name, caption, reference=coherent)


def _notes(number: Number) -> list[str]:
    part = [number.subset] if number.subset != ALL and number.subset not in number.quantity else []
    return [*part, *(f"{key} {value}" for key, value in beside(number).items())]


def prepare(folder: Path) -> OutputFolder:
    """The folder that `write` will fill. Raises UserError if it holds anything but scores of a table."""
    return prepared(folder, FILES, "understood", "score of a table")


def prepared(folder: Path, files: Sequence[str], mark: str, what: str, begun: Sequence[str] = ()) -> OutputFolder:
    """A folder for `files`, the first of them JSON that has the key, or is the report of the heading, `mark`; before it
    is there, those of `begun` may be.

    Raises UserError if it holds anything else, which is no `what`.
    """
    try:
        kept = folder / files[0]
        known = files if kept.exists() else begun
        foreign = [p.name for p in folder.iterdir() if p.name not in known] if folder.exists() else []
        data = json.loads(kept.read_text(encoding="utf-8")) if not foreign and kept.exists() else {mark: ""}
        if not isinstance(data, dict) or mark not in (*data, data.get("heading")):
            foreign = [kept.name]
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: cannot be used for a {what} ({error}); choose another --out") from None
    if foreign:
        raise UserError(f"{folder}: holds {sorted(foreign)[0]!r}, which is no {what}; choose another --out")
    return OutputFolder(folder)


def write(folder: OutputFolder, scored: ScoredTable, settings: Mapping[str, Any]) -> Report:
    """`scores.json` and the report, each file whole or not at all; returns the report."""
    try:
        folder.write_json("scores.json", as_data(scored, settings))
        write_report(folder, document := page_of(scored, settings))
        return document
    except OSError as error:
        raise UserError(f"{folder.path}: cannot be written ({error.strerror}); choose another --out") from None
