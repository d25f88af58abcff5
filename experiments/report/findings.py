"""What an experiment shows on its page: columns, tables, figures, and instances with what was said in them."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from ...base.errors import UserError, in_one_line

if TYPE_CHECKING:
    from ...hooks.prompts.chat import Message


class Drawn(TypedDict):
    """A sampled thought or answer."""

    draw: int
    text: str
    status: str
    logp: NotRequired[Sequence[float] | None]
    """Of a thought: of each option after it, natural log."""
    readout_id: NotRequired[str]
    """Of a sampled step: what it was asked for as."""
    ids: NotRequired[Sequence[int]]
    """Of a sampled step: its tokens."""


class Transcript(TypedDict):
    """What was said in one read-out."""

    readout_id: str
    messages: "Sequence[Message]"
    prefill: str
    prompt: NotRequired[str]
    """Digest of the rendered prompt with its prefill. A trajectory, which is many prompts, has none."""
    options: Sequence[str]
    thoughts: Sequence[Drawn]
    answers: Sequence[Drawn]
    belief: NotRequired[str]
    """What was read here, of each option; on a page alone."""


@dataclass(frozen=True)
class Column:
    """A column of a report's table."""

    metric: str
    title: str
    explanation: str
    percent: bool = False
    whole: bool = False
    """Whether it is a whole number."""
    to: str | None = None
    """A second metric: the column then shows the range from the first to it."""
    field: str | None = None
    """A number of the score to show instead of its estimate, which has no interval of its own."""
    beside: str | None = None
    """What of `Number.beside` stands below the number, which it is read against."""


@dataclass(frozen=True)
class Table:
    """A further table of a report: rows are methods and subsets that have the metric, columns are metrics."""

    title: str
    caption: str
    columns: Sequence[Column]
    subsets: Sequence[str]
    metric: str | None = None
    """That a row must have; None: the first column's."""
    leads: bool = False
    """Whether it stands with the first table, and on the terminal."""


DRAWN = {"kept": False}
"""Marks what JSON leaves out."""


@dataclass(frozen=True)
class Figure:
    """An SVG and what it shows."""

    title: str
    svg: str = field(default="", metadata=DRAWN)
    caption: str = ""
    panels: Sequence[str] = field(default=(), metadata=DRAWN)
    """The same in parts, which a page lays out by its width; they share definitions, and belong together."""
    pdf: bytes = field(default=b"", metadata=DRAWN)
    data: str = ""
    """What is drawn, as CSV."""

    def __repr__(self) -> str:
        return f"Figure({self.title!r}; .save('figure.pdf'), .svg, .data)"

    def _repr_html_(self) -> str:
        """An image, in which no script runs, whoever drew it."""
        return f'<img src="data:image/svg+xml;base64,{base64.b64encode(self.svg.encode()).decode()}">'

    def save(self, path: Path | str) -> None:
        """Write it as its ending says: .svg, .pdf, or .csv, which is what is drawn. Raises UserError for another."""
        place = Path(path)
        contents = {".svg": self.svg.encode(), ".pdf": self.pdf, ".csv": self.data.encode()}
        if place.suffix not in contents:
            raise UserError(f"{path}: a figure is saved as {', '.join(contents)}; give a name that ends so")
        with in_one_line(path, "choose another place"):
            place.write_bytes(contents[place.suffix])


@dataclass(frozen=True)
class Instance:
    """One of the comparisons that the numbers are made of, with what was said in it."""

    facets: Sequence[str]
    """What a reader may choose it by."""
    score: float
    """NaN: undefined."""
    facts: str
    conversations: Sequence[tuple[str, Transcript]]
    """(heading, what was said)."""


@dataclass(frozen=True)
class Gallery:
    """Instances to look at."""

    caption: str
    """Of how many, and how they were chosen."""
    facets: Sequence[str]
    """The names of an instance's facets."""
    score: str
    """The name of its score."""
    instances: Sequence[Instance]


@dataclass(frozen=True)
class Findings:
    """What an experiment shows on its report page."""

    question: str
    """What was measured, in a few sentences for a reader who has not seen the configuration."""
    columns: Sequence[Column]
    """Of the first table, the experiment's headline before all."""
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    lead: Figure | None = None
    """What the page begins with; None: the headline of each method."""
    gallery: Gallery | None = None
    """None: there is nothing to look at but the numbers."""
    advice: Sequence[str] = ()
    """What a reader of the terminal may do about what was found."""
