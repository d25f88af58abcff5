"""Questions from any table: `question, option_yes, option_no[, outcome][, background]`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....hooks.errors import UserError
from ...tables.source import open_table
from .question import BinaryQuestion

NEEDED, ALLOWED = ("question", "option_yes", "option_no"), ("outcome", "background", "id", "cluster")


def read_rows(path: Path, needed: Sequence[str], allowed: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a .csv, .jsonl or .parquet file as texts, with "" for what is missing.

    Raises UserError if it cannot be read, has no rows, or lacks a column that is needed.
    """
    source = open_table(path)
    if missing := [name for name in needed if name not in source.columns]:
        raise UserError(
            f"{path}: has no column {missing[0]!r}, only {', '.join(source.columns)}; needed: {', '.join(needed)}"
        )
    wanted = [name for name in (*needed, *allowed) if name in source.columns]
    rows = [
        {
            name: "" if value is None or str(value) == "nan" else str(value).strip()
            for name, value in zip(wanted, cells, strict=True)
        }
        for chunk in source.chunks(wanted)
        for cells in zip(*(chunk[name] for name in wanted), strict=True)
    ]
    if not rows:
        raise UserError(f"{path}: has no rows")
    return rows


def load_table(path: Path) -> list[BinaryQuestion]:
    """The questions of a table. Those with the same text share a cluster, unless it has a column `cluster`.

    An outcome is one of the two options, a number in [0, 1], or empty.

    Raises UserError as `read_rows` does, and for a row without a question or options, or with another outcome.
    """
    rows = read_rows(path, NEEDED, ALLOWED)
    return [_question(path, number, row) for number, row in enumerate(rows, 1)]


def _question(path: Path, number: int, row: Mapping[str, Any]) -> BinaryQuestion:
    try:
        return BinaryQuestion(
            id=row.get("id") or str(number),
            cluster=row.get("cluster") or row["question"],
            text=row["question"],
            option_yes=row["option_yes"],
            option_no=row["option_no"],
            provenance=f"{path.name}, row {number}",
            outcome=_outcome(row),
            background=row.get("background", ""),
        )
    except UserError as error:
        raise UserError(f"{path}: row {number}: {error}") from None


def _outcome(row: Mapping[str, str]) -> float:
    said = row.get("outcome", "")
    named = {"": np.nan, row["option_yes"].casefold(): 1.0, row["option_no"].casefold(): 0.0}
    if said.casefold() in named:
        return named[said.casefold()]
    try:
        return float(said)
    except ValueError:
        raise UserError(
            f"outcome {said!r} is neither {row['option_yes']!r} nor {row['option_no']!r}, nor a number in [0, 1]"
        ) from None
