"""Truth sets as CSV files with the columns `statement` and `label`, as the geometry of truth publishes them."""

import re
from collections.abc import Sequence
from pathlib import Path

from ...hooks.documents import read_csv
from ...hooks.errors import UserError
from .statement import Statement

COLUMNS = ("statement", "label")
NEGATION = re.compile(r"\b(?:not|n't|never|no)\b", re.IGNORECASE)
NEGATED_FILE = "neg_"


def csv_statements(paths: Sequence[Path], group: str | None = None) -> list[Statement]:
    """The statements of some files; each file is a domain, and `neg_X.csv` the negations of the domain X.

    Args:
        paths: of the files.
        group: the column that says what shares content, such as `city`. None: a statement shares its group with what
            differs from it by a negation, and with nothing else.

    Raises UserError for a file that cannot be read, lacks a column or a label, has a label other than 0 and 1, or
    labels one statement true and false.
    """
    return [statement for path in paths for statement in _of_file(path, group)]


def _of_file(path: Path, group: str | None) -> list[Statement]:
    table = read_csv(path)
    for name in (*COLUMNS, *([group] if group else [])):
        if name not in table.columns:
            raise UserError(f"{path}: has no column {name!r}; a truth set has the columns statement,label")
    labels = table["label"].str.strip().str.lower().replace({"true": "1", "false": "0", "1.0": "1", "0.0": "0"})
    if (wrong := ~labels.isin(["0", "1"])).any():
        row = int(wrong.to_numpy().argmax())
        raise UserError(f"{path}: row {row + 1}: label {table['label'].iloc[row]!r}; give 0 or 1")
    both = labels.groupby(table["statement"]).nunique() > 1
    if both.any():
        raise UserError(f"{path}: {both.idxmax()!r} is labelled 0 and 1; correct one label")
    negated = path.stem.startswith(NEGATED_FILE)
    domain = path.stem.removeprefix(NEGATED_FILE)
    found = []
    for text, label, own in zip(table["statement"], labels, table[group or "statement"], strict=True):
        content = own if group else _without_negation(own)
        found.append(
            Statement(
                text=text,
                true=label == "1",
                group=f"{domain}: {content}",
                domain=domain,
                negated=negated,
                pair=f"{domain}: {_without_negation(text)}",
            )
        )
    return found


def _without_negation(text: str) -> str:
    """The words of a statement but for its negation."""
    return " ".join(NEGATION.sub(" ", text).split()).casefold()
