"""The files of scores of a table: JSON for a program, a page for a reader."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ... import __version__
from ...hooks.errors import UserError
from ..runs.folder import RunFolder
from ..scoring.engine import ScoredTable
from ..scoring.families import METRICS
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
    """One page: no scripts, nothing from a network, every byte of the table escaped."""
    named, _ = by_sample(scored, set())
    return render_page(
        "scores.html.j2",
        table=scored.understood.path.name,
        understood=scored.understood.line,
        headings=HEADINGS,
        tables=[
            (name, [((one.quantity, *cells(one.score)), beside(one)) for one in own]) for name, own in named.items()
        ],
        differences=[difference_cells(one) for one in scored.differences],
        difference_headings=DIFFERENCES,
        family_size=family_size(scored.differences),
        metrics=[(m.name, m.code, m.sentence) for m in METRICS if m.name in {one.family for one in scored.numbers}],
        skipped=scored.skipped,
        version=__version__,
        settings=settings,
    )


def prepare(folder: Path) -> RunFolder:
    """The folder that `write` will fill. Raises UserError if it holds anything but scores of a table."""
    try:
        foreign = [p.name for p in folder.iterdir() if p.name not in FILES] if folder.exists() else []
        kept = folder / "scores.json"
        if not foreign and kept.exists() and "understood" not in json.loads(kept.read_text(encoding="utf-8")):
            foreign = [kept.name]
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: cannot be used for scores ({error}); choose another --out") from None
    if foreign:
        raise UserError(f"{folder}: holds {sorted(foreign)[0]!r}, which is no score of a table; choose another --out")
    return RunFolder(folder)


def write(folder: RunFolder, scored: ScoredTable, settings: Mapping[str, Any]) -> None:
    """`scores.json` and `report.html`, each whole or not at all."""
    try:
        folder.write_json("scores.json", as_data(scored, settings))
        folder.write("report.html", as_html(scored, settings))
    except OSError as error:
        raise UserError(f"{folder.path}: cannot be written ({error.strerror}); choose another --out") from None
