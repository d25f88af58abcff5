"""A report as one document: blocks for runs, scores, probes, comparisons, cards, and for what an add-on shows.

It is written once, and rendered by `html.to_html`, `terminal.to_text` and `record.to_json`.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from ...metrics.number import status_text
from .findings import Figure, Gallery, Instance, Transcript

LINE, SMALL_LINE = 60, 36
"""Characters that a cell, and the small print below it, show in one line."""
NARROW = 3
"""Columns of short cells that fit on a telephone."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a document."""

    kind: str = ""
    """By which the renderers know it."""
    title: str = ""
    """Of the section that it begins; empty: it belongs to the section before."""
    chapter: str = ""
    """Of its section: the part of the page that a reader unfolds to find it; empty: a part of its own."""
    short: bool = False
    """Whether a terminal prints it unasked."""


@dataclass(frozen=True, kw_only=True)
class Prose(Block):
    """A paragraph."""

    kind: Literal["prose"] = "prose"
    text: str
    soft: bool = False
    """What qualifies rather than tells."""
    strong: bool = False
    """What a reader must not miss."""


@dataclass(frozen=True, kw_only=True)
class Stamp(Block):
    """What must be read before any number."""

    kind: Literal["stamp"] = "stamp"
    says: str
    lines: Sequence[tuple[str, str]] = ()
    """(what, why)."""
    note: str = ""


def stamped(says: str, failures: Sequence[tuple[str, str]], note: str = "") -> Prose | Stamp:
    """What a report says first: a stamp with what fails and why, if anything does."""
    return Stamp(says=says, lines=failures, note=note) if failures else Prose(text=says, strong=True)


@dataclass(frozen=True, kw_only=True)
class Primary(Block):
    """The one number that a page leads with."""

    kind: Literal["primary"] = "primary"
    title: str = "Primary number"
    label: str
    value: str
    lines: Sequence[str] = ()
    """What is to be read with it."""


@dataclass(frozen=True)
class Cell:
    """The text of a table's cell, and what stands small below it."""

    value: str
    below: Sequence[str] = ()
    code: bool = False
    """Whether it is what a model wrote."""
    struck: bool = False
    """Whether it is shown and does not count."""
    grey: bool = False
    """Whether it is a number without an interval."""
    status: str = ""
    """What qualifies its number, if that is not `ok`."""
    known: bool | None = None
    """Of a number: whether there is one. If not, `status` says why."""
    score: Mapping[str, Any] | None = None
    """Of a number: what it is to all digits, with interval and counts, for a program."""

    @property
    def flag(self) -> str:
        """Its status in words."""
        return status_text(self.status)

    @property
    def kinds(self) -> str:
        """Classes of the page's style."""
        marks = {"long": len(self.value) > LINE, "broad": self.broad}
        return " ".join(name for name, holds in marks.items() if holds)

    @property
    def broad(self) -> bool:
        """Whether a narrow column cannot hold its text, or its small print."""
        return len(self.value) > LINE or any(len(line) > SMALL_LINE for line in self.below)


@dataclass(frozen=True, kw_only=True)
class TableBlock(Block):
    """A table. The first cell of each row names it."""

    kind: Literal["table"] = "table"
    name: str = ""
    """What a reader who does not see it is told that it is; empty: its title, or that of its section."""
    caption: str = ""
    head: Sequence[tuple[str, str]]
    """(title, explanation) of each column."""
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[tuple[str, str]] = ()
    """(term, explanation) below it."""
    folded: bool = False
    """Whether it is folded within its section."""

    def __post_init__(self) -> None:
        """Raise ValueError for a row of other length than the heading: its cells would have no names."""
        if odd := [row for row in self.rows if len(row) != len(self.head)]:
            raise ValueError(f"{self.name or self.title}: {len(odd[0])} cells under {len(self.head)} headings")

    @property
    def by_row(self) -> bool:
        """Whether a narrow screen shows each row as a block of named values, since a line cannot hold it."""
        return len(self.head) > NARROW or any(cell.broad for row in self.rows for cell in row)

    @property
    def told(self) -> list[Sequence[Cell]]:
        """The rows that say something."""
        return [row for row in self.rows if not _is_empty(row)]

    @property
    def empty(self) -> list[Sequence[Cell]]:
        """The rows without any number; none if all are."""
        return [row for row in self.rows if _is_empty(row)]

    @property
    def why_empty(self) -> str:
        """What their first number lacks, with counts."""
        reasons = Counter(next(cell.flag for cell in row if cell.known is False) for row in self.empty)
        return ", ".join(f"{reason} ({n})" if len(reasons) > 1 else reason for reason, n in reasons.items())


def in_chapter(chapter: str, blocks: Iterable[Block]) -> list[Block]:
    """Blocks whose sections are of a part of the page, unless they are of another one already."""
    return [replace(block, chapter=block.chapter or chapter) if block.title else block for block in blocks]


def grid(
    title: str,
    head: Sequence[str | tuple[str, str]],
    rows: Iterable[Iterable[Cell | str]],
    caption: str = "",
    **more: Any,
) -> TableBlock:
    """A table of texts and cells under headings, each with an explanation or without one."""
    titled = [(one, "") if isinstance(one, str) else one for one in head]
    filled = [[Cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    return TableBlock(title=title, head=titled, rows=filled, caption=caption, **more)


def _is_empty(row: Sequence[Cell]) -> bool:
    known = {cell.known for cell in row}
    return False in known and True not in known


@dataclass(frozen=True, kw_only=True)
class Picture(Block):
    """A drawing of ours."""

    kind: Literal["picture"] = "picture"
    figure: Figure


@dataclass(frozen=True, kw_only=True)
class Instances(Block):
    """The comparisons that the numbers are made of, to be filtered. Every text stands in it once."""

    kind: Literal["instances"] = "instances"
    caption: str
    """Of how many, and how they were chosen."""
    score: str
    """The name of their score."""
    facets: Sequence[str]
    """The names of what a reader may choose them by."""
    texts: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """Of each: facets, score (None: undefined), facts, and conversations: a heading and turns, each of a label, a text,
    and whether it is the model's. Texts are given by their places in `texts`.
    """

    @classmethod
    def of(cls, gallery: Gallery, title: str) -> Self:
        """The instances of a gallery."""
        texts: dict[str, int] = {}

        def number(text: str) -> int:
            return texts.setdefault(text, len(texts))

        def turns(transcript: Transcript) -> list[list[int]]:
            lines = [[number(message["role"]), number(message["content"]), 0] for message in transcript["messages"]]
            lines.append([number("assistant, read here"), number(f"{transcript['prefill']}…"), 1])
            if read := transcript.get("belief") or ", ".join(transcript["options"]):
                lines.append(
                    [
                        number("belief in this reading" if "belief" in transcript else "options that were read"),
                        number(read),
                        0,
                    ]
                )
            for name, draws in (("thought", transcript["thoughts"]), ("sampled answer", transcript["answers"])):
                lines += [[number(f"{name} {d['draw']}, {d['status']}"), number(d["text"]), 1] for d in draws]
            return lines

        def row(instance: Instance) -> list[Any]:
            score = None if math.isnan(instance.score) else float(f"{instance.score:.6g}")
            spoken = [[number(heading), turns(transcript)] for heading, transcript in instance.conversations]
            return [[number(facet) for facet in instance.facets], score, number(instance.facts), spoken]

        rows = [row(instance) for instance in gallery.instances]
        named: dict[str, Any] = {"caption": gallery.caption, "score": gallery.score, "facets": list(gallery.facets)}
        return cls(title=title, texts=list(texts), rows=rows, **named)

    @property
    def choices(self) -> list[tuple[str, list[str]]]:
        """Each facet, with the values that it has among the instances."""
        columns = zip(*(row[0] for row in self.rows), strict=True)
        values = ([self.texts[int(place)] for place in dict.fromkeys(column)] for column in columns)
        return list(zip(self.facets, values, strict=False))


@dataclass(frozen=True, kw_only=True)
class Folded(Block):
    """Texts to unfold."""

    kind: Literal["folded"] = "folded"
    texts: Sequence[tuple[str, str]] = ()
    """(summary, text)."""


@dataclass(frozen=True, kw_only=True)
class Coloured(Block):
    """A text whose parts are coloured by a share."""

    kind: Literal["coloured"] = "coloured"
    first: str
    """Of what the share is."""
    parts: Sequence[tuple[str, float, str]]
    """(text, share in [0, 1], what is told of it)."""

    @property
    def texts(self) -> list[tuple[str, str]]:
        """As `Folded` has them: each part under its numbers."""
        return [(told, text) for text, _, told in self.parts]


@dataclass(frozen=True, kw_only=True)
class Top:
    """What every document begins with: a verdict, the gates behind it, one figure and one number."""

    said: str
    """What it is about, in a sentence."""
    verdict: Prose | Stamp
    alarms: Sequence[Stamp] = ()
    """What must be read before all."""
    further: Sequence[Prose] = ()
    """Behind the verdict."""
    gate: TableBlock | None = None
    """Folded."""
    figure: Figure | None = None
    primary: Primary | None = None


@dataclass(frozen=True)
class Entry:
    """A page that an index leads to."""

    name: str
    link: str
    said: Sequence[str]
    image: str
    """Of its figure, as a data URL; empty: it has none."""


@dataclass(frozen=True, kw_only=True)
class Entries(Block):
    """What an index lists."""

    kind: Literal["entries"] = "entries"
    entries: Sequence[Entry]


@dataclass(frozen=True)
class Section:
    """Blocks under one heading."""

    title: str
    anchor: str
    blocks: Sequence[Block]

    @property
    def chapter(self) -> str:
        """Of which part of the page it is."""
        return self.blocks[0].chapter or self.title


@dataclass(frozen=True)
class Report:
    """A report."""

    heading: str
    of: str
    top: Top
    blocks: Sequence[Block]
    """The sections behind it; a block with a title begins one."""
    made: str = ""
    """By what, below everything."""
    unfolded: bool = False
    """Whether its sections are open, and need no contents."""
    opened: str = ""
    """The chapter that is open from the start."""
    terms: Sequence[tuple[str, str]] = ()
    """(name, what it means) of what an experiment calls by names of its own."""

    @property
    def sections(self) -> list[Section]:
        """Blocks by section, each found by an anchor of its own."""
        sections: list[tuple[str, list[Block]]] = []
        for block in self.blocks:
            if block.title or not sections:
                sections.append((block.title, []))
            sections[-1][1].append(block)
        anchors: dict[str, int] = {}
        named = []
        for title, blocks in sections:
            plain = f"s-{_slug(title)}"  # no id of a block begins like that
            anchors[plain] = n = anchors.get(plain, 0) + 1
            named.append(Section(title or "More", plain if n == 1 else f"{plain}-{n}", blocks))
        return named

    @property
    def chapters(self) -> Mapping[str, Sequence[Section]]:
        """Sections by the part of the page that a reader unfolds, in the order in which the parts begin."""
        chapters: dict[str, list[Section]] = {}
        for section in self.sections:
            chapters.setdefault(section.chapter, []).append(section)
        return chapters

    @property
    def pictures(self) -> Mapping[str, Figure]:
        """Name of a file without its end -> the figure."""
        first = [self.top.figure] if self.top.figure else []
        figures = [*first, *(block.figure for block in self.blocks if isinstance(block, Picture))]
        names = (_slug(figure.title)[:60].strip("-") for figure in figures)
        return {f"{i:02}-{name}".rstrip("-"): one for i, (name, one) in enumerate(zip(names, figures, strict=True), 1)}


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
