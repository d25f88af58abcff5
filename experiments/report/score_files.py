"""The files of scores of a table: JSON for a program, a page for a reader."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import UserError
from ...base.files import OutputFolder
from ...base.version import __version__
from ...metrics.claims import verdicts
from ...metrics.metric import registered
from ...metrics.number import Number
from ...metrics.scoring.engine import ScoredTable
from ...metrics.tables.samples import ALL
from .blocks import Block, Cell, TableBlock
from .cells import as_row, score_cell
from .figures import forest
from .findings import Figure
from .lead import Lead
from .page import FIGURES, Page
from .papers.blocks import as_blocks
from .papers.of_levels import tables_of_levels
from .text import adjusted_over, beside, by_sample, cells, difference_cells, family_size

FILES = ("scores.json", "report.html", FIGURES)


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


def page_of(scored: ScoredTable, settings: Mapping[str, Any]) -> Page:
    """One page, a table for each sample."""
    named, _ = by_sample(scored, set())
    blocks: list[Block] = []
    for name, numbers in named.items():
        rows = [(Cell(one.quantity, _notes(one)), score_cell(one.score), *map(Cell, _counts(one))) for one in numbers]
        blocks.append(TableBlock(title=name or "Scores", head=_head(COLUMNS), rows=rows))
    if scored.differences:
        blocks.append(
            TableBlock(
                title="Differences on the same items",
                caption=f"Clusters of both resampled together; {adjusted_over(family_size(scored.differences))}.",
                head=_head((*COLUMNS[:1], "difference", "adjusted p", *COLUMNS[3:])),
                rows=[
                    [Cell(one.quantity), score_cell(one.score), *map(Cell, difference_cells(one)[3:7])]
                    for one in scored.differences
                ],
            )
        )
    blocks += as_blocks(tables_of_levels(scored))
    families = {one.family for one in scored.numbers}
    blocks.append(
        TableBlock(
            title="Definitions",
            head=_head(("metric", "definition", "what it asks")),
            rows=[[Cell(m.name), Cell(m.code), Cell(m.sentence)] for m in registered() if m.name in families],
            notes=[(name, f"was not scored: it {why}") for name, why in scored.skipped.items()],
        )
    )
    chosen = "".join(f", {key} {value}" for key, value in settings.items())
    top = Lead.of_table(scored).top(f"{scored.understood.line}.".replace("..", "."), _lead_figure(scored))
    return Page("Scores", f"of {scored.understood.path.name}", top, blocks, f"doxascope {__version__}{chosen}.")


COLUMNS = ("", "estimate", "p", "n", "clusters", "dropped")


def _counts(number: Number) -> tuple[str, ...]:
    """p, rows, clusters, and what was dropped."""
    return cells(number.score)[2:6]


def _lead_figure(scored: ScoredTable) -> Figure | None:
    """The registered number, or the first one that has an interval, of every sample that has it."""
    plan = scored.registered
    whole = [one for one in scored.numbers if one.subset == ALL]
    lead = (plan and plan.among(scored.all)) or next((one for one in whole if math.isfinite(one.score.ci_lo)), None)
    if lead is None:
        return None
    failed = {(one.method, one.kind) for one in verdicts(scored.numbers) if not one.passed}
    rows = [
        (one.name or one.quantity, one.score, (", ".join(filter(None, (one.method, one.run))), one.kind) in failed)
        for one in whole
        if (one.metric, one.quantity) == (lead.metric, lead.quantity)
    ]
    name = lead.quantity or lead.metric
    return forest(name[:1].upper() + name[1:], rows, name, "With its interval, of everything that has this number.")


def _head(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, "") for name in names]


def _notes(number: Number) -> list[str]:
    part = [number.subset] if number.subset != ALL else []
    return [*part, *(f"{key} {value}" for key, value in beside(number).items())]


def prepare(folder: Path) -> OutputFolder:
    """The folder that `write` will fill. Raises UserError if it holds anything but scores of a table."""
    return prepared(folder, FILES, "understood", "score of a table")


def prepared(folder: Path, files: Sequence[str], mark: str, what: str) -> OutputFolder:
    """A folder for `files`, the first of them JSON that has the key `mark`.

    Raises UserError if it holds anything else, which is no `what`.
    """
    try:
        foreign = [p.name for p in folder.iterdir() if p.name not in files] if folder.exists() else []
        kept = folder / files[0]
        if not foreign and kept.exists() and mark not in json.loads(kept.read_text(encoding="utf-8")):
            foreign = [kept.name]
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: cannot be used for a {what} ({error}); choose another --out") from None
    if foreign:
        raise UserError(f"{folder}: holds {sorted(foreign)[0]!r}, which is no {what}; choose another --out")
    return OutputFolder(folder)


def write(folder: OutputFolder, scored: ScoredTable, settings: Mapping[str, Any]) -> None:
    """`scores.json`, `report.html` and its figures, each whole or not at all."""
    try:
        folder.write_json("scores.json", as_data(scored, settings))
        page_of(scored, settings).write(folder)
    except OSError as error:
        raise UserError(f"{folder.path}: cannot be written ({error.strerror}); choose another --out") from None
