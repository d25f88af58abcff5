"""What a page is made of: the same blocks for a run, for scores of a table, and for what an add-on shows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from markupsafe import Markup

from ..experiment import Gallery


@dataclass(frozen=True, kw_only=True)
class Block:
    """A section of a page."""

    macro: ClassVar[str]
    """Of the template."""
    title: str = ""
    """Empty: it belongs to the section before."""


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


@dataclass(frozen=True, kw_only=True)
class TableBlock(Block):
    """A table. The first cell of each row names it."""

    macro = "table"
    caption: str = ""
    head: Sequence[tuple[str, str]]
    """(title, explanation) of each column."""
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[tuple[str, str]] = ()
    """(term, explanation) below it."""
    folded: bool = False


@dataclass(frozen=True, kw_only=True)
class Picture(Block):
    """A drawing of ours."""

    macro = "picture"
    svg: Markup
    caption: str


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
