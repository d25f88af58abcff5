"""Which columns of a table hold what a question is made of, and which option a cell says is true."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from numbers import Integral
from typing import Any

from ....base.errors import UserError, nearest
from ....base.settings import Settings
from ....metrics.tables.cells import label_text
from ....metrics.tables.truths import Way

NAMES: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "text", "prompt", "query", "question_stem", "stem", "input"),
    "options": ("options", "choices", "endings", "candidates"),
    "truth": ("truth", "answer", "answerkey", "answer_key", "label", "target", "gold", "correct"),
    "id": ("id", "qid", "question_id"),
    "cluster": ("cluster", "group"),
    "system": ("system", "system_prompt"),
    "examples": ("examples", "shots"),
    "topic": ("topic", "subject", "category"),
}
"""Of each part of a question, the names that its column may have, in lower case; the first that is there is taken."""
IDS_IF_DISTINCT = (
    *("questionid", "_id", "uid", "uuid", "guid", "idx", "index"),
    *("item_id", "itemid", "example_id", "sample_id", "task_id", "doc_id"),
)
"""Names of columns of ids that may also count something else: they are taken where no two rows have the same."""
LONGEST_ID = 64
"""Characters of what may be an id."""
ONE_EACH = re.compile(r"(option|choice|answer|ending|opt)[ _]?(?:(\d{1,2})|([a-z]))")
"""The name of a column that holds one option, besides a bare letter."""
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
Row = Mapping[str, Any]


class QuestionColumns(Settings):
    """The names of the columns, where they are none that is known."""

    question: str | None = None
    options: str | tuple[str, ...] | None = None
    """One column with a list, or with texts between `|`; or several with an option each."""
    truth: str | None = None
    id: str | None = None
    cluster: str | None = None
    system: str | None = None
    examples: str | None = None
    topic: str | None = None
    truths: Way | None = None
    """What truths are, where the file leaves it open: `text`, `label`, `letter`, or `place`."""
    first: int | None = None
    """Where the truth is a number, that of the first option. None: 0 where a number stands beside texts, as in JSON; of
    a CSV, where all is text, it has to be said."""


def id_column(rows: Sequence[Row], given: str | None = None) -> str | None:
    """The table's column that names each question: the `given` one, else the first known one, else None."""
    present = {str(name).strip().lower(): str(name) for row in rows for name in row}
    if given is not None:
        return present.get(given.strip().lower(), given)
    known = (name for name in NAMES["id"] if name in present)
    distinct = (name for name in IDS_IF_DISTINCT if name in present and _distinct(rows, present[name]))
    return next((present[name] for name in (*known, *distinct)), None)


def like_ids(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns that may name each of two rows or more: a whole number or one short word in each, none twice."""
    return [name for name in (rows[0] if len(rows) > 1 else ()) if _distinct(rows, name)]


def _distinct(rows: Sequence[Row], name: str) -> bool:
    cells = [row.get(name) for row in rows]
    return all(map(_may_be_id, cells)) and len({*map(label_text, cells)}) == len(cells)


def _may_be_id(cell: Any) -> bool:
    if isinstance(cell, str):
        return len(cell.strip().split()) == 1 and len(cell) <= LONGEST_ID
    return isinstance(cell, Integral) and not isinstance(cell, bool)


def column_of(part: str, given: str | None, cells: Row) -> str | None:
    """The column of a part; None if there is none. Raises UserError for one that was named and is not there."""
    if given is not None:
        name = given.strip().lower()
        if name not in cells:
            raise UserError(f"has no column {given!r}; {nearest(name, cells)}")
        return name
    return next((name for name in NAMES[part] if name in cells), None)


def options_of(
    cells: Row, columns: QuestionColumns, others: Collection[str]
) -> tuple[list[str], Sequence[str], list[str]]:
    """The options of a row in their places, empty where there is none; what they are called where that is said; and the
    columns that hold them. `others`: the columns of the other parts.
    """
    given = columns.options
    if given is not None and not isinstance(given, str):
        names = [name for column in given if (name := column_of("options", column, cells))]
        return [label_text(cells[name]) for name in names], [], names
    name = column_of("options", given, cells)
    if name is not None:
        return *_listed(cells[name]), [name]
    names = _one_each([name for name in cells if name not in others])
    if len(names) < 2:
        raise UserError(
            f"has no column 'options'; {nearest('options', cells)}; give a list, or a column for each option "
            "(option_1, option_2, ...), or name it by `columns.options`"
        )
    return [label_text(cells[name]) for name in names], [], names


def _one_each(names: Sequence[str]) -> list[str]:
    """The columns that hold one option each, in their order: those of a family such as option_1, option_2, ...; only if
    there is none, the bare letters a, b, ... up to the first that is missing. Others are further columns.

    Raises UserError for a family with a gap, and for two of them.
    """
    families: dict[tuple[str, bool], dict[int, list[str]]] = {}
    for name in names:
        if match := ONE_EACH.fullmatch(name):
            stem, number, letter = match.groups()
            at = int(number) if number else ALPHABET.index(letter)
            families.setdefault((stem, bool(number)), {}).setdefault(at, []).append(name)
    several = [family for family in families.values() if len(family) > 1]
    if not several:
        return [*takewhile(set(names).__contains__, ALPHABET)]
    if len(several) > 1:
        first, second = (min(family.items())[1][0] for family in several[:2])
        raise UserError(f"has options in {first!r}, ... and in {second!r}, ...; name them by `columns.options`")
    (family,) = several
    if both := next((same for same in family.values() if len(same) > 1), None):
        raise UserError(f"has {both[0]!r} and {both[1]!r}; name the options by `columns.options`")
    order = sorted(family)
    if order != [*range(order[0], order[0] + len(order))] or order[0] > 1:
        options = ", ".join(family[at][0] for at in order)
        raise UserError(f"has the options {options}, and none between or before; name them by `columns.options`")
    return [family[at][0] for at in order]


def _listed(cell: Any) -> tuple[list[str], list[str]]:
    """The texts of a cell that holds several, and their labels."""
    if isinstance(cell, str):
        text = cell.strip()
        if text.startswith(("[", "{")):
            try:
                parsed = json.loads(text)
            except (ValueError, RecursionError):
                raise UserError(f"options {text!r}: is no list in JSON") from None
            return _listed(parsed)
        return [part.strip() for part in text.split("|")], []
    if isinstance(cell, Mapping):
        if "text" not in cell:
            raise UserError(f"options {dict(cell)!r}: give `text`, and `label` where they have one")
        texts, labels = cell["text"], cell.get("label", ())
        if not all(_is_list(entry) for entry in (texts, labels)) or len(labels) not in (0, len(texts)):
            raise UserError(f"options {dict(cell)!r}: `text` and `label` are no lists of one length")
        return [*map(label_text, texts)], [*map(label_text, labels)]
    if isinstance(cell, Iterable):
        parts = list(cell)
        if parts and all(isinstance(part, Mapping) and "text" in part for part in parts):
            labels = [label_text(part["label"]) for part in parts if "label" in part]
            if len(labels) not in (0, len(parts)):
                raise UserError(f"options {parts!r}: give every one a `label`, or none")
            return [label_text(part["text"]) for part in parts], labels
        return [*map(label_text, parts)], []
    raise UserError(f"options {cell!r}: give a list of texts")


def is_listed(cell: Any) -> bool:
    """Whether an empty option of a cell stands there as one, and is no gap between `|`."""
    return not isinstance(cell, str) or cell.strip().startswith(("[", "{"))


def _is_list(cell: Any) -> bool:
    return isinstance(cell, Iterable) and hasattr(cell, "__len__") and not isinstance(cell, str | Mapping)
