"""A document as text for a terminal: the lead, and the parts that are marked as short, or all of it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from textwrap import wrap

from ...base.text import listed, visible
from .cells import NONE, aligned
from .document import (
    SMALL_LINE,
    Block,
    Cell,
    Coloured,
    Entries,
    Folded,
    Instances,
    Picture,
    Primary,
    Prose,
    Report,
    Stamp,
    TableBlock,
    Top,
)
from .findings import Figure
from .legend import legend

LEGEND = "Names and marks"
WIDTH = 120
"""Characters of a line where there is no terminal."""


def to_text(document: Report, width: int = WIDTH, full: bool = False) -> str:
    """The text, in lines of at most `width` characters where words allow it.

    Args:
        width: of the terminal, in characters.
        full: print every section; else what is short, and the names of the others.
    """
    lines = [*_wrapped(f"{document.heading} {document.of}", width), *_top(document.top, width, full)]
    left_out: list[str] = []
    printed: list[Block] = []
    for section in document.sections:
        shown = [block for block in section.blocks if full or block.short]
        printed += shown
        left_out += [] if shown else [section.title]
        if shown:
            lines += ["", *_wrapped(section.title, width), "-" * min(len(section.title), width)]
            lines += [line for block in shown for line in _block(block, width, full)]
    names = legend(document.terms, _printed(document.top, full), printed, document.top.gate)
    lines += ["", LEGEND, "-" * len(LEGEND)] if names else []
    lines += [line for name, means in names for line in _wrapped(f"{name}: {means}", width)]
    lines += ["", *_wrapped(document.made, width)] if full and document.made else []
    lines += ["", *_wrapped(f"--full prints also: {', '.join(left_out)}", width)] if left_out else []
    return "\n".join(lines)


def _top(top: Top, width: int, full: bool) -> Iterator[str]:
    yield from _wrapped(top.said, width)
    for block in (*top.alarms, top.verdict, *top.further):
        yield ""
        yield from _block(block, width, full)
    if top.gate and (full or top.gate.short):
        yield from ["", *_wrapped(top.gate.title, width), *_table(top.gate, width, full)]
    if top.primary:
        yield from ["", *_primary(top.primary, width)]
    if top.figure and full:
        yield from ["", *_figure(top.figure, width)]


def _printed(top: Top, full: bool) -> Top:
    """What of it is printed."""
    return top if full else replace(top, figure=None, gate=top.gate if top.gate and top.gate.short else None)


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of a text that may hold anything: what a terminal would obey is shown."""
    plain = visible(" ".join(text.split()))
    return wrap(plain, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False,
                break_on_hyphens=False)  # fmt: skip


def _block(block: Block, width: int, full: bool) -> Iterator[str]:
    match block:
        case Prose():
            yield from _wrapped(block.text, width)
        case Stamp():
            yield from _wrapped(block.says, width)
            for what, why in block.lines:
                yield from _wrapped(f"{what}: {why}" if why else what, width, "  ")
            yield from _wrapped(block.note, width, "  ")
        case Primary():
            yield from _primary(block, width)
        case TableBlock():
            yield from _table(block, width, full)
        case Picture():
            yield from _figure(block.figure, width)
        case Instances():
            yield from _instances(block, width)
        case Folded() | Coloured():
            for summary, text in block.texts:
                yield from [*_wrapped(summary, width), *(f"  {visible(line)}" for line in text.splitlines())]
        case Entries():
            for entry in block.entries:
                yield from [
                    *_wrapped(entry.name, width),
                    *(part for one in entry.said for part in _wrapped(one, width, "  ")),
                ]
        case _:
            raise ValueError(f"{block.kind}: a terminal knows no such block")


def _primary(block: Primary, width: int) -> Iterator[str]:
    value = "" if block.value in ("", NONE) else f": {block.value}"
    yield from _wrapped(f"{block.title}: {block.label}{value}", width)
    for line in block.lines:
        yield from _wrapped(line, width, "  ")


def _figure(figure: Figure, width: int) -> Iterator[str]:
    yield from _wrapped(f"Figure: {figure.title}{'' if figure.title.endswith('?') else '.'} {figure.caption}", width)


def _table(block: TableBlock, width: int, full: bool) -> Iterator[str]:
    """Under its headings, or, where that is too wide, row by row."""
    yield from _wrapped(block.caption, width)
    kept = block.rows if full else block.told
    head = [visible(title) for title, _ in block.head]
    if kept:
        split = [[_split(cell, named=i == 0) for i, cell in enumerate(row)] for row in kept]
        lines = list(aligned([head, *([text for text, _ in row] for row in split)]))
        by_row = max(map(len, lines)) > width
        yield from [] if by_row else lines[:1]
        for row, line in zip(split, lines[1:], strict=True):
            if by_row:
                yield from _by_row(head, row, width)
            else:
                yield line
                yield from _notes(_by_column(head, [below for _, below in row]), width)
    if block.empty and not full:
        n = len(block.empty)
        yield from _wrapped(f"{n} row{'s' * (n > 1)} without a number: {block.why_empty}", width)
    for term, explanation in block.notes if full or block.short else ():
        yield from _wrapped(f"{term}: {explanation}", width, "  ")


def _split(cell: Cell, named: bool) -> tuple[str, list[str]]:
    """What a line shows of a cell, and what stands below the line: all small print of the cell that names the row."""
    short = [] if named else [line for line in cell.below if line and len(line) <= SMALL_LINE]
    value = f"{cell.value} (struck out)" if cell.struck else cell.value
    intervals = [line for line in short if line.startswith("[")]
    plain = [line[1:-1] if f"{line[0]}{line[-1]}" == "()" else line for line in short if line not in intervals]
    apart = [f"({said})" for said in ("; ".join(plain), cell.flag) if said]
    text = " ".join([value, *intervals, *apart])
    return visible(" ".join(text.split())), [line for line in cell.below if line and line not in short]


def _by_row(head: Sequence[str], row: Sequence[tuple[str, list[str]]], width: int) -> Iterator[str]:
    """What names the row, then each number with what stands below it."""
    cells = [(title, *cell) for title, cell in zip(["", *head[1:]], row, strict=True)]
    untitled = [(text, below) for title, text, below in cells if not title]
    yield from _wrapped(", ".join(filter(None, (text for text, _ in untitled))), width)
    yield from _notes((note for _, below in untitled for note in below), width)
    for title, text, below in cells:
        if title:
            yield from _wrapped(f"{title}: {text}", width, "  ") if text else ()
            yield from _notes(below, width)


def _by_column(head: Sequence[str], below: Sequence[Sequence[str]]) -> Iterator[str]:
    """What stands below the cells of a row, alike notes once; where several columns have some, with their titles."""
    titles: dict[str, list[str]] = {}
    for title, notes in zip(head, below, strict=True):
        for note in notes:
            titles.setdefault(note, []).append(title)
    several = sum(map(bool, below[1:])) > 1
    for note, of in titles.items():
        yield f"{listed(of)}: {note}" if several and head[0] not in of else note


def _notes(notes: Iterable[str], width: int) -> Iterator[str]:
    for note in notes:
        yield from _wrapped(note, width, "    ")


def _instances(block: Instances, width: int) -> Iterator[str]:
    yield from _wrapped(block.caption, width)

    def text(place: int) -> str:
        return block.texts[place]

    for facets, score, facts, spoken in block.rows:
        named = ", ".join(
            f"{name} {text(facet)}" for name, facet in zip(block.facets, facets, strict=True) if text(facet)
        )
        value = "undefined" if score is None else f"{score:g}"
        yield from ["", *_wrapped(f"{named}: {block.score} {value}; {text(facts)}", width)]
        for heading, turns in spoken:
            yield from _wrapped(text(heading), width, "  ")
            for label, words, _ in turns:
                yield from _wrapped(f"{text(label)}: {text(words)}", width, "    ")
