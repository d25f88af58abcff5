"""A document as a page: nothing from a network, everything escaped, no script but ours, which it allows by its hash.
Its instances stand in it as data, and parts of a page that is written can be made anew.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from ...base.documents import read_text
from ...base.errors import in_one_line
from ...base.files import OutputFolder, atomic_write
from ...base.text import visible
from .document import SMALL_LINE, Instances, Report
from .findings import Figure
from .legend import legend
from .plotting import SPACES
from .record import read, to_json

FIGURES = "figures"
"""The folder of a page's figures."""
REPORT = ("report.html", "report.json", FIGURES)
"""What `write` leaves in a folder."""


def to_html(document: Report, beside: bool = False) -> str:
    """The text of the page; with its figures as files `beside` it, it leads to them.

    Its script unfolds, copies tables and filters instances. The page allows it by its hash: a browser that finds any
    other text in it runs nothing.
    """
    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_seen,
    )
    pictures = document.pictures.items() if beside else ()
    files = {id(figure): [name for name, _ in _files(stem, figure)] for stem, figure in pictures}
    of_page: dict[str, Any] = {"drawings": _drawings, "packed": _data, "small_line": SMALL_LINE}
    of_page["files"] = lambda figure: files.get(id(figure), ())
    environment.globals |= of_page
    environment.filters |= {"minus": _with_minus, "marked": _marked}
    code = _source("page.js")
    code += _source("instances.js") if any(isinstance(block, Instances) for block in document.blocks) else ""
    return environment.get_template("page.html.j2").render(
        page=document,
        top=document.top,
        sections=document.sections,
        legend=legend(document.terms, document.top, document.blocks),
        script=Markup(code),
        script_hash=base64.b64encode(hashlib.sha256(code.encode()).digest()).decode(),
    )


def write(folder: OutputFolder, document: Report, name: str = "report") -> list[str]:
    """Write a document as a page, as JSON and with its figures, each file whole or not at all, and take out figures of
    a report before. Returns the names of all files.
    """
    written = [f"{name}.html", f"{name}.json"]
    folder.write(written[0], to_html(document, beside=True))
    folder.write_json(written[1], to_json(document))
    for stem, figure in document.pictures.items():
        for file, content in _files(stem, figure):
            written.append(file)
            folder.write_bytes(file, content)
    figures = folder.path / FIGURES
    for old in figures.glob("*") if name == "report" and not figures.is_symlink() else ():
        if f"{FIGURES}/{old.name}" not in written and re.fullmatch(r"\d\d(-.*)?\.(svg|pdf|csv)", old.name):
            old.unlink()
    return written


def _files(stem: str, figure: Figure) -> list[tuple[str, bytes]]:
    """Name and content of each file of a figure."""
    contents = {"svg": figure.svg.encode(), "pdf": figure.pdf, "csv": figure.data.encode()}
    return [(f"{FIGURES}/{stem}.{end}", content) for end, content in contents.items() if content]


def _seen(value: Any) -> Any:
    """Text without what an element may not hold."""
    return visible(value) if type(value) is str else value


def _drawings(figure: Figure) -> Iterator[Markup]:
    """The panels of a figure, or the whole, each with what a reader who does not see it is told."""
    parts = figure.panels or (figure.svg,)
    sentence = re.split(r"(?<=\.) ", figure.caption)[0]
    for i, svg in enumerate(parts, 1):
        part = f", panel {i} of {len(parts)}" if len(parts) > 1 else ""
        before, end, inner = svg.replace(SPACES, "", 1).partition(">")
        named = f"<title>{escape(visible(figure.title + part))}</title><desc>{escape(visible(sentence))}</desc>"
        yield Markup(before.replace("<svg", '<svg role="img"', 1) + end + named + inner)


def _with_minus(text: str) -> str:
    """Negative numbers with the sign that they have in print."""
    return re.sub(r"(?<![\w.)\]–-])-(?=\.?\d)", "−", text)


def _marked(text: str) -> Markup:
    """Text in which what stands between backticks is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(visible(text)))))


def _data(block: Instances) -> Markup:
    """What a script makes the instances of; no end of an element is in it."""
    shown = {"facets": block.facets, "texts": [visible(text) for text in block.texts], "rows": block.rows}
    text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _source(name: str) -> str:
    return (files("doxascope") / "experiments" / "report" / "templates" / name).read_text("utf-8")


# A page of which some parts have changed: they are made anew in its file, and everything else stays as it stands.

PART = re.compile(r"<!-- part (\S+) -->.*?<!-- end -->", re.DOTALL)
"""What the template writes around the verdict, the gate and each section; no text of a page can hold it unescaped."""


def make_again(folder: Path, parts: Report) -> None:
    """Put the verdict, the gate and the sections of `parts` in the place of those that the report in a folder has.

    Raises UserError for a report that cannot be read or written.
    """
    place = folder / "report.html"
    new = {match[1]: match[0] for match in PART.finditer(to_html(parts))}
    text = PART.sub(lambda match: new.get(match[1], match[0]), read_text(place))
    with in_one_line(place, "make it writable"), atomic_write(place) as temporary:
        temporary.write_text(text, encoding="utf-8")
    before, titled = read(folder / "report.json"), {block.title: block for block in parts.blocks}
    top = replace(before.top, verdict=parts.top.verdict, gate=parts.top.gate)
    again = replace(before, top=top, blocks=[titled.get(block.title, block) for block in before.blocks])
    OutputFolder(folder).write_json("report.json", to_json(again))
