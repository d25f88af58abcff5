"""A paper's table as a section of a report."""

from collections.abc import Sequence

from ..document import Cell, TableBlock, grid
from .paper_tables import DASH, PaperTable, marks_of


def as_blocks(tables: Sequence[PaperTable]) -> list[TableBlock]:
    """Those that hold anything, each with its intervals below its numbers and with what its marks mean; the first is
    told in a terminal, too.
    """
    return [_block(table, first=i == 0) for i, table in enumerate(table for table in tables if not table.empty)]


def _block(table: PaperTable, first: bool) -> TableBlock:
    head = [*table.labels, *(": ".join(filter(None, column)) for column in table.columns)]
    rows = [
        [*labels, *(Cell(x.text, [x.interval] if x.interval else [], known=x.text != DASH) for x in cells)]
        for labels, cells in table.rows
    ]
    caption = " ".join(f"{told.rstrip('.')}." for told in (table.caption, *table.notes, *marks_of([table])))
    return grid(f"{table.number} of {table.paper}", head, rows, caption, short=first, chapter="Tables of the paper")
