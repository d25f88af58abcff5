"""An index of runs: what each found, with its figure, and where its page is."""

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ... import __version__
from ...hooks.errors import UserError
from ..runs.folder import RunFolder
from ..runs.sessions import sessions
from .blocks import Entries, Entry, Prose, Top
from .page import FIGURES, Page

INDEX = "index.html"
LARGEST = 300_000
"""Bytes of a figure that is shown."""


def index_page(folder: Path) -> Page:
    """The page of all runs in a folder, and of the probes, comparisons and cards that lie beside them."""
    entries = [_entry(path) for path in sorted(folder.glob("*/report.html"))]
    read = sum(bool(entry.said) for entry in entries)
    top = Top(
        said=f"{len(entries)} pages in {folder.resolve().name}.",
        verdict=Prose(text=f"{read} of them give a verdict.", soft=True),
    )
    blocks = [Entries(title="Pages", entries=entries)]
    return Page("Runs", f"in {folder.resolve().name}", top, blocks, f"doxascope {__version__}.", unfolded=True)


def _entry(path: Path) -> Entry:
    place = path.parent
    figure = next(iter(sorted((place / FIGURES).glob("01*.svg"))), None)
    return Entry(
        name=place.name,
        link=f"{place.name}/{path.name}",
        said=list(_said(place)),
        image=_image(figure) if figure else "",
    )


def _said(place: Path) -> Iterator[str]:
    """When it began and whether it is whole; its verdict, and its primary number."""
    if (place / "manifest.json").is_file():
        try:
            record = RunFolder(place).manifest
            yield f"{record['status']}, began {sessions(place)[0]['began'].partition('T')[0]}"
        except (UserError, KeyError, IndexError, TypeError, AttributeError):
            yield "its manifest cannot be read"
    lead = _stored(place / "scores.json").get("lead")
    if isinstance(lead, Mapping):
        told = lead.get("said")
        lines = [line for line in told if isinstance(line, str)] if isinstance(told, list) else []
        yield str(lead.get("verdict", ""))
        yield from (line for line in lines if line.startswith("primary: "))


def _stored(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, Mapping) else {}


def _image(path: Path) -> str:
    """A drawing as an image, in which no script runs, whoever drew it."""
    data = path.read_bytes() if path.stat().st_size <= LARGEST else b""
    return f"data:image/svg+xml;base64,{base64.b64encode(data).decode()}" if data else ""
