"""From the cells of a table to numbers: what is no number of its kind is named by row and column."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...base.errors import UserError, in_one_line

if TYPE_CHECKING:
    from .source import TableSource

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
SLACK = 1e-9
"""How far rounding may put a probability outside [0, 1]; the metrics clip it."""
LOGP_SLACK = 1e-6
"""How far float32 may put a log-probability above 0."""

Array = NDArray[Any]


def load_columns(source: "TableSource", roles: Mapping[str, str]) -> dict[str, Array]:
    """Read the columns that have a role, each converted by it.

    Roles: `probability`, `difference` (of two of them), `mass` (a count or a probability), `logp`, `outcome` (0 or 1),
    `real` (any finite number), `number` (the same, none missing), `count` (a whole number), and `label` (text, None if
    missing). NaN is a missing number; a truth value is a number only as an outcome.

    Raises UserError naming the first row (1 is the first under the header) and column that break their role, or if
    there are no rows.
    """
    parts: dict[str, list[Array]] = {name: [] for name in roles}
    same: dict[str, str] = {}
    spelt: dict[str, dict[str, str]] = {name: {} for name in roles}
    row = 1
    for chunk in source.chunks(list(roles)):
        n = 0
        for name, role in roles.items():
            cells = chunk[name]
            n = len(cells)
            if role == "label":
                with in_one_line(f"{source.path}: {name}"):
                    parts[name].append(_labels(cells, same, spelt[name]))
                continue
            values = _numbers(cells, truth=role == "outcome")
            wrong, allowed = ROLES[role](values)
            for bad, why in ((_unread(values, cells), "is not a number"), (wrong, allowed)):
                if bad.any():
                    at = int(np.argmax(bad))
                    raise UserError(f"{source.path}: row {row + at}, {name}: {str(cells[at])!r} {why}")
            parts[name].append(values)
        row += n
    if row == 1:
        raise UserError(f"{source.path}: has columns but no rows")
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def complete(path: Any, name: str, labels: Array) -> Array:
    """The labels, or UserError if one is missing."""
    empty = np.array([label is None for label in labels], dtype=bool)
    refuse_row(path, empty, lambda at: f", {name}: is missing; every row needs one")
    return labels


def refuse_row(path: Any, wrong: Array, fault: Callable[[int], str]) -> None:
    """Raise UserError for the first of the rows [n] that are wrong, if one is; `fault` says what, from its index."""
    if wrong.any():
        at = int(np.argmax(wrong))
        raise UserError(f"{path}: row {at + 1}{fault(at)}")


def padded(beliefs: Sequence[Sequence[float] | Array]) -> Array:
    """[n, k] beliefs over up to k options; one that a question lacks has 0. A belief that is not known is all NaN."""
    table = np.zeros((len(beliefs), max(map(len, beliefs))))
    for row, belief in zip(table, beliefs, strict=True):
        row[: len(belief)] = belief
    table[np.isnan(table).any(axis=1)] = np.nan
    return table


def _probability(x: Array) -> tuple[Array, str]:
    wrong = (x < -SLACK) | (x > 1 + SLACK)
    percent = wrong.any() and 2 < np.nanmax(x) <= 100 and np.nanmin(x) >= 0
    return wrong, "is not in [0, 1]" + ("; divide percentages by 100" if percent else "")


ROLES: Mapping[str, Callable[[Array], tuple[Array, str]]] = {
    "probability": _probability,
    "difference": lambda x: (np.abs(x) > 1 + SLACK, "is no difference of two probabilities; give [-1, 1]"),
    "logp": lambda x: (x > LOGP_SLACK, "is above 0, which a log-probability cannot be"),
    "real": lambda x: (np.isinf(x), "is infinite"),
    "mass": lambda x: ((x < 0) | np.isinf(x), "is negative or infinite"),
    "outcome": lambda x: (~(np.isnan(x) | (x == 0) | (x == 1)), "is not an outcome; give 0, 1 or nothing"),
    "number": lambda x: (~np.isfinite(x), "is missing or infinite; every row needs a number"),
    "count": lambda x: ((x < 0) | np.isinf(x) | (np.nan_to_num(x) % 1 != 0), "is no count; give a whole number from 0"),
}
"""Role -> (values -> which of them are wrong, and what to say of those)."""


def _numbers(cells: Sequence[Any], truth: bool) -> Array:
    """Cells as float64; NaN for what is missing, and for what is no number."""
    try:
        values = np.asarray(cells, dtype=np.float64)
        if values.shape == (len(cells),) and not _disguised(cells):
            return values
    except (TypeError, ValueError, OverflowError):
        pass
    return np.array([_one(cell, truth) for cell in cells], dtype=np.float64)


def _disguised(cells: Sequence[Any]) -> bool:
    """Whether Python would read a number where a reader sees none: `0.1_5`, or true."""
    if isinstance(cells, np.ndarray):
        return cells.dtype == bool
    try:
        return "_" in "".join(cells)
    except TypeError:
        return any(isinstance(cell, bool) or (isinstance(cell, str) and "_" in cell) for cell in cells)


def _one(cell: Any, truth: bool) -> float:
    if isinstance(cell, bool) or (isinstance(cell, str) and cell.strip().lower() in ("true", "false")):
        return float(str(cell).strip().lower() == "true") if truth else math.nan
    try:
        return math.nan if isinstance(cell, str) and "_" in cell else float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _unread(values: Array, cells: Sequence[Any]) -> Array:
    """Which values are NaN though their cells say something."""
    unread = np.isnan(values)
    for i in np.flatnonzero(unread):
        unread[i] = not _is_missing(cells[int(i)])
    return unread


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING
    return cell is None or (isinstance(cell, float | np.floating) and math.isnan(cell))


def _labels(cells: Sequence[Any], same: dict[str, str], spelt: dict[str, str]) -> Array:
    """Cells as text, one object per distinct text, however many rows have it.

    Raises ValueError for a number that floating point cannot tell from its neighbours, for one that is written in two
    ways (`1` and `1.0` may be one thing or two), and for a zero byte, which some libraries take for the end.
    """
    labels = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        if cell is None or (isinstance(cell, float | np.floating) and math.isnan(cell)):
            continue
        text = label_text(cell)
        if text.lower() in ("", "nan"):  # `NA` may be a country
            continue
        if "\0" in text:
            raise ValueError(f"{text!r} holds a zero byte; take it out")
        if (known := same.get(text)) is None:
            known = same.setdefault(text, text)
        labels[i] = known
        whole = isinstance(cell, float) and is_whole(cell)
        if whole or text[-1].isdigit():
            written = f"{text}.0" if whole else text
            if (before := spelt.setdefault(WHOLE.sub("", written), written)) != written:
                raise ValueError(f"is written {before!r} and {written!r}; write one label in one way")
    return labels


def is_whole(cell: Any) -> bool:
    """Whether a cell is a whole number, also one in floating point: tables make that of a column with a gap."""
    return isinstance(cell, Integral) or (isinstance(cell, Real) and float(cell).is_integer())


def label_text(cell: Any) -> str:
    """A cell as text; empty if it is missing. 3.0 says 3.

    Raises ValueError for a number that floating point cannot tell from its neighbours.
    """
    if isinstance(cell, str):
        return cell.strip()
    if pd.api.types.is_scalar(cell) and pd.isna(cell):
        return ""
    if isinstance(cell, Real) and not isinstance(cell, Integral) and is_whole(cell):
        if abs(number := float(cell)) > EXACT:
            raise ValueError(f"{number:.0f} is too large to be told from its neighbours; write the column as text")
        return str(int(number))
    return str(cell).strip()


EXACT = 2**53
"""Above it floating point does not hold every whole number."""
WHOLE = re.compile(r"(?<=\d)\.0+$")
