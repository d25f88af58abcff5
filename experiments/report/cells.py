"""How numbers are written: as cells of a page (estimate, interval, and whatever qualifies it), as rows of
`scores.json`, and as rows of texts under each other for a terminal.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...base.text import shown
from ...metrics import Score
from ...metrics.number import Number
from .blocks import Cell

NONE = "–"
OK = "ok"


def score_cell(
    score: Score, written: Callable[[float], str] = shown, *, below: Sequence[str] = (), struck: bool = False
) -> Cell:
    """The estimate with its interval; grey without one; with its status where that is not `ok`. What is undefined is a
    dash.
    """
    if math.isnan(score.estimate):
        return absent(score.status)
    bare = math.isnan(score.ci_lo)
    interval = (score.ci_method or "no interval") if bare else f"[{written(score.ci_lo)}, {written(score.ci_hi)}]"
    return Cell(
        written(score.estimate),
        [interval, *below],
        struck=struck,
        grey=bare,
        status=qualified(score.status),
        known=True,
    )


def absent(status: str, below: Sequence[str] = ()) -> Cell:
    """No number, and why."""
    return Cell(NONE, below, status=qualified(status) or "undefined", known=False)


def qualified(status: str) -> str:
    """A status that a reader must see; empty if it is `ok`."""
    return "" if status == OK else status


# Numbers as rows: what `scores.json` holds of each, the same for runs and tables.

COMMON = {"estimate", *(field.name for field in dataclasses.fields(Score))}
"""What every score has."""


def as_row(number: Number) -> dict[str, Any]:
    """A number in what JSON has: its name, the fields that every score has, those of its own under `details`, and what
    is to be read beside it. NaN is null; the status says why.
    """
    fields = number.score.as_dict()
    own = {name: value for name, value in fields.items() if name not in COMMON | {number.score.headline}}
    named = {"metric": number.metric, "method": number.method, "subset": number.subset, "kind": number.kind}
    return jsonable(
        (named | {"run": number.run} if number.run else named)
        | {"quantity": number.quantity, "family": number.family, "code": number.code}
        | {name: value for name, value in fields.items() if name in COMMON}
        | {"details": own, "beside": number.beside}
        | {"equivalence": number.equivalence and number.equivalence.as_dict()}
    )


def jsonable(value: Any) -> Any:
    """The same in what JSON has."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [jsonable(inner) for inner in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


# Rows of texts under each other, for a terminal.


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
