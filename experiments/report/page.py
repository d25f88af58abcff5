"""Pages of blocks: nothing from a network, everything escaped, no script but ours, which a page allows by its hash.
Its instances stand in it as data, and parts of a page that is written can be made anew.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from ...base.documents import read_text
from ...base.errors import in_one_line
from ...base.files import OutputFolder, atomic_write
from ...base.text import visible
from .blocks import SMALL_LINE, Block, Instances, Picture, Top
from .findings import Figure, Instance, Transcript
from .svg import SPACES


def packed(block: Instances) -> dict[str, Any]:
    """What the page's script shows the instances by.

    `texts` holds every text once. An instance is its facets, its score (null: undefined), its facts, and its
    conversations: a heading and turns, each of a label, a text, and whether it is the model's.
    """
    texts: dict[str, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts))

    def turns(said: Transcript) -> list[list[int]]:
        told = [[number(one["role"]), number(one["content"]), 0] for one in said["messages"]]
        told.append([number("assistant, read here"), number(f"{said['prefill']}…"), 1])
        if said["options"]:
            told.append([number("options that were read"), number(", ".join(said["options"])), 0])
        for name, drawn in (("thought", said["thoughts"]), ("sampled answer", said["answers"])):
            told += [[number(f"{name} {one['draw']}, {one['status']}"), number(one["text"]), 1] for one in drawn]
        return told

    def row(one: Instance) -> list[Any]:
        score = None if math.isnan(one.score) else float(f"{one.score:.6g}")
        spoken = [[number(heading), turns(said)] for heading, said in one.conversations]
        return [[number(facet) for facet in one.facets], score, number(one.facts), spoken]

    rows = [row(one) for one in block.gallery.instances]
    return {"facets": list(block.gallery.facets), "texts": list(texts), "rows": rows}


# Pages of blocks: nothing from a network, everything escaped, no script but ours, which a page allows by its hash.

FIGURES = "figures"
"""The folder of a page's figures."""


@dataclass(frozen=True)
class Section:
    """Blocks under one heading."""

    title: str
    anchor: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A page, and its figures as files."""

    heading: str
    of: str
    top: Top
    blocks: Sequence[Block]
    """The sections behind it; a block with a title begins one."""
    made: str = ""
    """By what, below everything."""
    unfolded: bool = False
    """Whether its sections are open, and need no contents."""

    @property
    def sections(self) -> list[Section]:
        """Blocks by section, each found by an anchor of its own."""
        found: list[tuple[str, list[Block]]] = []
        for block in self.blocks:
            if block.title or not found:
                found.append((block.title, []))
            found[-1][1].append(block)
        anchors: dict[str, int] = {}
        named = []
        for title, blocks in found:
            plain = f"s-{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}"  # no id of a block begins like that
            anchors[plain] = n = anchors.get(plain, 0) + 1
            named.append(Section(title or "More", plain if n == 1 else f"{plain}-{n}", blocks))
        return named

    @cached_property
    def pictures(self) -> Mapping[str, Figure]:
        """Name of a file without its end -> the figure."""
        first = [self.top.figure] if self.top.figure else []
        figures = [*first, *(block.figure for block in self.blocks if isinstance(block, Picture))]
        names = (re.sub(r"[^a-z0-9]+", "-", one.title.lower()).strip("-")[:60].strip("-") for one in figures)
        return {f"{i:02}-{name}".rstrip("-"): one for i, (name, one) in enumerate(zip(names, figures, strict=True), 1)}

    def html(self) -> str:
        """The text of the page.

        Its script unfolds, copies tables and filters instances. The page allows it by its hash: a browser that finds
        any other text in it runs nothing.
        """
        environment = Environment(
            loader=FunctionLoader(_source),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_seen,
        )
        environment.globals |= {"drawings": _drawings, "told": _told, "packed": _data, "small_line": SMALL_LINE}
        environment.filters |= {"minus": _with_minus, "marked": _marked}
        code = _source("page.js") + (
            _source("instances.js") if any(isinstance(b, Instances) for b in self.blocks) else ""
        )
        return environment.get_template("page.html.j2").render(
            page=self,
            top=self.top,
            sections=self.sections,
            script=Markup(code),
            script_hash=base64.b64encode(hashlib.sha256(code.encode()).digest()).decode(),
        )

    def write(self, folder: OutputFolder, name: str = "report.html") -> list[str]:
        """Write the page and its figures into a folder, each whole or not at all, and take out figures of before.

        Returns the names of all files.
        """
        folder.write(name, self.html())
        written = [name]
        for stem, figure in self.pictures.items():
            for end, content in (("svg", figure.svg.encode()), ("pdf", figure.pdf), ("csv", figure.data.encode())):
                if content:
                    written.append(f"{FIGURES}/{stem}.{end}")
                    folder.write_bytes(written[-1], content)
        for old in (folder.path / FIGURES).glob("*"):
            if f"{FIGURES}/{old.name}" not in written and re.fullmatch(r"\d\d(-.*)?\.(svg|pdf|csv)", old.name):
                old.unlink()
        return written


def _seen(value: Any) -> Any:
    """Text without what an element may not hold."""
    return visible(value) if type(value) is str else value


def _drawings(figure: Figure) -> Iterator[Markup]:
    """The panels of a figure, or the whole, each with what a reader who does not see it is told."""
    parts = figure.panels or (figure.svg,)
    sentence = re.split(r"(?<=[.:;]) ", figure.caption)[0]
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


def _told(status: str) -> str:
    return status.replace("_", " ")


def _data(block: Instances) -> Markup:
    """What a script makes the instances of; no end of an element is in it."""
    text = json.dumps(packed(block), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _source(name: str) -> str:
    return (files("doxascope") / "experiments" / "report" / "templates" / name).read_text("utf-8")


# A page of which some parts have changed: they are made anew in its file, and everything else stays as it stands.

PART = re.compile(r"<!-- part (\S+) -->.*?<!-- end -->", re.DOTALL)
"""What the template writes around the verdict, the gate and each section; no text of a page can hold it unescaped."""


def make_again(path: Path, parts: Page) -> None:
    """Put the verdict, the gate and the sections of `parts` in the place of those that the page at `path` has.

    Raises UserError for a page that cannot be read or written.
    """
    new = {found[1]: found[0] for found in PART.finditer(parts.html())}
    text = PART.sub(lambda found: new.get(found[1], found[0]), read_text(path))
    with in_one_line(path, "make it writable"), atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
