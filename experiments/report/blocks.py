"""What a page is made of: blocks for runs, scores, probes, comparisons, cards, and for what an add-on shows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from .findings import Figure, Gallery

LINE, SMALL_LINE = 60, 36
"""Characters that a cell, and the small print below it, show in one line."""
NARROW = 3
"""Columns of short cells that fit on a telephone."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A section of a page."""

    macro: ClassVar[str]
    """Of the template."""
    title: str = ""
    """Of the section that it begins, which a reader unfolds; empty: it belongs to the section before."""


@dataclass(frozen=True, kw_only=True)
class Prose(Block):
    """A paragraph."""

    macro = "prose"
    text: str
    soft: bool = False
    """What qualifies rather than tells."""
    strong: bool = False
    """What a reader must not miss."""


@dataclass(frozen=True, kw_only=True)
class Stamp(Block):
    """What must be read before any number."""

    macro = "stamp"
    says: str
    lines: Sequence[tuple[str, str]] = ()
    """(what, why)."""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Primary(Block):
    """The one number that a page leads with."""

    macro = "primary"
    label: str
    value: str
    lines: Sequence[str]
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

    @property
    def kinds(self) -> str:
        """Classes of the page's style."""
        own = {"long": len(self.value) > LINE, "broad": self.broad}
        return " ".join(name for name, holds in own.items() if holds)

    @property
    def broad(self) -> bool:
        """Whether a narrow column cannot hold its text, or its small print."""
        return len(self.value) > LINE or any(len(line) > SMALL_LINE for line in self.below)


@dataclass(frozen=True, kw_only=True)
class TableBlock(Block):
    """A table. The first cell of each row names it."""

    macro = "table"
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
        reasons = Counter(next(cell.status for cell in row if cell.known is False) for row in self.empty)
        return ", ".join(f"{reason} ({n})" if len(reasons) > 1 else reason for reason, n in reasons.items())


def _is_empty(row: Sequence[Cell]) -> bool:
    found = {cell.known for cell in row}
    return False in found and True not in found


@dataclass(frozen=True, kw_only=True)
class Picture(Block):
    """A drawing of ours."""

    macro = "picture"
    figure: Figure


@dataclass(frozen=True, kw_only=True)
class Instances(Block):
    """The comparisons that the numbers are made of, to be filtered."""

    macro = "instances"
    gallery: Gallery

    @property
    def choices(self) -> list[tuple[str, list[str]]]:
        """Each facet, with the values that it has among the instances."""
        columns = zip(*(instance.facets for instance in self.gallery.instances), strict=True)
        return [(name, list(dict.fromkeys(values))) for name, values in zip(self.gallery.facets, columns, strict=False)]


@dataclass(frozen=True, kw_only=True)
class Folded(Block):
    """Texts to unfold."""

    macro = "folded"
    texts: Sequence[tuple[str, str]] = field(default_factory=tuple)
    """(summary, text)."""


@dataclass(frozen=True, kw_only=True)
class Top:
    """What every page begins with: a verdict, the gates behind it, one figure and one number."""

    said: str
    """What the page is about, in a sentence."""
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

    macro = "entries"
    entries: Sequence[Entry]
