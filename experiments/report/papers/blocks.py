"""A paper's table as a section of a page."""

from collections.abc import Sequence

from ..blocks import Cell, TableBlock
from .paper_tables import DASH, PaperTable, marks_of


def as_blocks(tables: Sequence[PaperTable]) -> list[TableBlock]:
    """Those that hold anything, each with its intervals below its numbers and with what its marks mean."""
    return [_block(table) for table in tables if not table.empty]


def _block(table: PaperTable) -> TableBlock:
    head = [*table.labels, *(f"{group}: {name}" if group else name for group, name in table.columns)]
    rows = [
        [
            *map(Cell, labels),
            *(Cell(one.text, [one.interval] if one.interval else [], known=one.text != DASH) for one in cells),
        ]
        for labels, cells in table.rows
    ]
    return TableBlock(
        title=f"{table.number} of {table.paper}",
        caption=" ".join([table.caption, *table.notes, *(f"{mark}." for mark in marks_of([table]))]),
        head=[(name, "") for name in head],
        rows=rows,
    )
