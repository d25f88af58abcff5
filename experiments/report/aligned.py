"""Rows of texts under each other, for a terminal."""

from collections.abc import Iterable, Iterator, Sequence


def in_lines(lines: Iterable[str]) -> str:
    """A text of these lines and no others: a name that a stranger gave may hold more of them."""
    return "\n".join(" ".join(line.splitlines()) for line in lines)


def aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Rows of a table, first and last column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    ends = (0, len(widths) - 1)
    for row in rows:
        yield "  ".join(
            cell.ljust(width) if i in ends else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
