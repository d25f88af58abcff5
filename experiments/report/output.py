"""The files of scores of a table: JSON for a program, a page for a reader."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ... import __version__
from ...hooks.errors import UserError
from ..runs.folder import RunFolder
from ..scoring.engine import ScoredTable
from ..scoring.families import METRICS
from ..scoring.number import Number
from ..tables.samples import ALL
from .blocks import Block, Cell, Prose, TableBlock
from .lead import Lead
from .page import render_page
from .rows import as_row
from .text import DIFFERENCES, HEADINGS, beside, by_sample, cells, difference_cells, family_size

FILES = ("scores.json", "report.html")


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


def as_html(scored: ScoredTable, settings: Mapping[str, Any]) -> str:
    """One page, a table for each sample."""
    named, _ = by_sample(scored, set())
    blocks: list[Block] = [Prose(text=scored.understood.line), *Lead.of_table(scored).blocks]
    for name, numbers in named.items():
        rows = [(Cell(one.quantity, _notes(one)), *map(Cell, cells(one.score))) for one in numbers]
        blocks.append(TableBlock(title=name or "Scores", head=_head(HEADINGS), rows=rows))
    if scored.differences:
        blocks.append(
            TableBlock(
                title="Differences on the same items",
                caption="Clusters of both resampled together; p adjusted by Holm over all "
                f"{family_size(scored.differences)} comparisons of this table.",
                head=_head(DIFFERENCES),
                rows=[list(map(Cell, difference_cells(one))) for one in scored.differences],
            )
        )
    families = {one.family for one in scored.numbers}
    blocks.append(
        TableBlock(
            title="What was measured",
            head=_head(("metric", "definition", "what it asks")),
            rows=[[Cell(m.name), Cell(m.code), Cell(m.sentence)] for m in METRICS if m.name in families],
            notes=[(name, f"was not scored: it {why}") for name, why in scored.skipped.items()],
        )
    )
    chosen = "".join(f", {key} {value}" for key, value in settings.items())
    blocks.append(Prose(text=f"doxascope {__version__}{chosen}.", soft=True))
    return render_page("Scores", f"of {scored.understood.path.name}", blocks)


def _head(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, "") for name in names]


def _notes(number: Number) -> list[str]:
    part = [number.subset] if number.subset != ALL else []
    return [*part, *(f"{key} {value}" for key, value in beside(number).items())]


def prepare(folder: Path) -> RunFolder:
    """The folder that `write` will fill. Raises UserError if it holds anything but scores of a table."""
    return prepared(folder, FILES, "understood", "score of a table")


def prepared(folder: Path, files: Sequence[str], mark: str, what: str) -> RunFolder:
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
    return RunFolder(folder)


def write(folder: RunFolder, scored: ScoredTable, settings: Mapping[str, Any]) -> None:
    """`scores.json` and `report.html`, each whole or not at all."""
    try:
        folder.write_json("scores.json", as_data(scored, settings))
        folder.write("report.html", as_html(scored, settings))
    except OSError as error:
        raise UserError(f"{folder.path}: cannot be written ({error.strerror}); choose another --out") from None
