"""Questions of anyone's, each with its own options: rows of a table, however its columns are called."""

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import pandas as pd

from ....hooks.errors import UserError, in_one_line, nearest
from ....hooks.prompts.options import MOST
from ....hooks.settings import Settings
from .benchmarks import LETTERS
from .choice import Choice, alike

log = logging.getLogger("doxascope")

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
ONE_EACH = re.compile(r"(?:option|choice|answer|ending|opt)[ _]?(\d{1,2}|[a-z])|([a-z])")
"""The name of a column that holds one option."""
CATEGORY = "asked"
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
    first: int | None = None
    """Where the truth is a number, that of the first option. None: 0 where a number stands beside texts, as in JSON; of
    a CSV, where all is text, it has to be said."""


@dataclass(frozen=True)
class AskedChoice:
    """A question with options as it was given."""

    choice: Choice
    system: str = ""
    examples: tuple[Choice, ...] = ()
    """Solved questions that go before it."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further columns, which are carried through."""


def asked_choices(
    rows: Iterable[Row],
    where: str,
    columns: QuestionColumns | None = None,
    examples: Sequence[Choice] = (),
) -> list[AskedChoice]:
    """The questions of some rows. Those with the same text share a cluster unless a column says otherwise. What has two
    options that read the same is left out, which is said.

    Args:
        rows: column -> cell; capitals of the names do not count.
        where: where they are from, for messages.
        columns: the names of the columns.
        examples: solved questions that go before every one that brings none.

    Raises UserError for a column that is missing, and, by row, for a question without text or with fewer than two
    options, a truth that is none of them, and two of the same id.
    """
    wanted = columns or QuestionColumns()
    found: list[AskedChoice] = []
    of_text: dict[str, str] = {}
    rows = list(rows)
    if not rows:
        raise UserError(f"{where}: has no rows")
    left_out = 0
    for number, row in enumerate(rows, 1):
        cells = {str(name).strip().lower(): value for name, value in row.items()}
        try:
            with in_one_line("is no question"):
                one = _question(cells, wanted, number, where, of_text, examples)
        except UserError as error:
            raise UserError(f"{where}: row {number}: {error}") from None
        left_out += one is None
        found += [one] if one else []
    seen: set[str] = set()
    for one in found:
        if one.choice.id in seen:
            raise UserError(f"{where}: two questions are called {one.choice.id!r}; give each an id of its own")
        seen.add(one.choice.id)
    if left_out:
        log.warning("%s: %s questions with two options that read the same are left out", where, left_out)
    if not found:
        raise UserError(f"{where}: has no question that can be asked")
    return found


def _question(
    cells: Row,
    columns: QuestionColumns,
    number: int,
    where: str,
    of_text: dict[str, str],
    examples: Sequence[Choice],
) -> AskedChoice | None:
    """The question of a row; None where two options read the same."""
    names = {part: _name(part, getattr(columns, part), cells) for part in NAMES if part != "options"}
    if names["question"] is None:
        raise UserError(f"has no column 'question'; {nearest('question', cells)}; name it by `columns.question`")
    options, labels, used = _options(cells, columns)
    if len(options) > MOST:
        raise UserError(f"has {len(options):,} options; at most {MOST:,} can be read at once")
    words = all(_words(cells[name]) for name in used)
    if len(options) >= 2 and alike(options):
        return None
    told = {part: _scalar(part, cells[name]) if name else "" for part, name in names.items() if part != "examples"}
    own = told["id"] or f"q{number:05}"
    first = of_text.setdefault(told["question"], own)
    truth_name = names["truth"]
    truth = _truth(cells[truth_name], options, labels, words, columns.first) if truth_name else ""
    choice = Choice(
        id=own,
        cluster=told["cluster"] or first,
        category=CATEGORY,
        text=told["question"],
        options=tuple(options),
        provenance=f"{where}, row {number}",
        truth=truth,
        topic=told["topic"],
    )
    given = names["examples"]
    brought = _examples(cells[given], choice.id) if given and _text(cells[given]) else tuple(examples)
    taken = {*used, *(name for name in names.values() if name)}
    more = {name: _plain(value) for name, value in cells.items() if name not in taken and name}
    return AskedChoice(choice, told["system"], brought, more)


def _name(part: str, given: str | None, cells: Row) -> str | None:
    """The column of a part; None if there is none. Raises UserError for one that was named and is not there."""
    if given is not None:
        name = given.strip().lower()
        if name not in cells:
            raise UserError(f"has no column {given!r}; {nearest(name, cells)}")
        return name
    return next((name for name in NAMES[part] if name in cells), None)


def _options(cells: Row, columns: QuestionColumns) -> tuple[list[str], list[str], list[str]]:
    """The options of a row, what they are called where that is said, and the columns that hold them."""
    given = columns.options
    if given is not None and not isinstance(given, str):
        names = [name for one in given if (name := _name("options", one, cells))]
        return [text for name in names if (text := _text(cells[name]))], [], names
    name = _name("options", given, cells)
    if name is not None:
        return *_listed(cells[name]), [name]
    numbered = {(m[1] or m[2]): column for column in cells if (m := ONE_EACH.fullmatch(column))}
    order = sorted(numbered, key=lambda mark: (not mark.isdigit(), int(mark) if mark.isdigit() else 0, mark))
    names = [numbered[mark] for mark in order]
    if len(names) < 2:
        raise UserError(
            f"has no column 'options'; {nearest('options', cells)}; give a list, or a column for each option "
            "(option_1, option_2, ...), or name it by `columns.options`"
        )
    return [text for name in names if (text := _text(cells[name]))], [], names


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
        return [part.strip() for part in text.split("|") if part.strip()], []
    if isinstance(cell, Mapping):
        if "text" not in cell:
            raise UserError(f"options {dict(cell)!r}: give `text`, and `label` where they have one")
        texts, labels = cell["text"], cell.get("label", ())
        if isinstance(texts, str) or isinstance(labels, str) or len(labels) not in (0, len(texts)):
            raise UserError(f"options {dict(cell)!r}: `text` and `label` are no lists of one length")
        return [_text(one) for one in texts], [_text(one) for one in labels]
    if isinstance(cell, Iterable):
        parts = list(cell)
        if parts and all(isinstance(one, Mapping) and "text" in one for one in parts):
            labels = [_text(one["label"]) for one in parts if "label" in one]
            if len(labels) not in (0, len(parts)):
                raise UserError(f"options {parts!r}: give every one a `label`, or none")
            return [_text(one["text"]) for one in parts], labels
        return [_text(one) for one in parts], []
    raise UserError(f"options {cell!r}: give a list of texts")


def _truth(cell: Any, options: Sequence[str], labels: Sequence[str], words: bool, first: int | None) -> str:
    """The option that a cell says is true: by its text, its label or letter, or its number. `words`: options were given
    as texts.
    """
    text = _text(cell)
    if not text:
        return ""
    whole = isinstance(cell, Integral) or (isinstance(cell, Real) and float(cell).is_integer())
    place: int | None = None
    if whole and not isinstance(cell, bool) and words and text not in labels:  # a number beside texts is a place
        place = int(float(cell)) - (first or 0)
    elif text in options:
        return text
    elif text in labels:
        place = labels.index(text)
    elif len(same := [one for one in options if one.casefold() == text.casefold()]) == 1:
        return same[0]
    elif len(text) == 1 and text.upper() in LETTERS:
        place = LETTERS.index(text.upper())
    elif text.isdigit() and first is not None:
        place = int(text) - first
    elif text.isdigit():
        raise UserError(
            f"truth {text!r}: is no option; if it is a place, say what the first has: `columns.first`, 0 or 1"
        )
    if place is None or not 0 <= place < len(options):
        raise UserError(f"truth {text!r} is no option; {nearest(text, options)}")
    return options[place]


def _examples(cell: Any, of: str) -> tuple[Choice, ...]:
    """The solved questions of a cell: a list of questions with options and truth."""
    try:
        rows = json.loads(cell) if isinstance(cell, str) else list(cell)
    except (ValueError, TypeError, RecursionError):
        raise UserError(f"examples {cell!r}: give a list of questions, each with question, options and truth") from None
    if not all(isinstance(row, Mapping) for row in rows):
        raise UserError(f"examples {cell!r}: give a list of questions, each with question, options and truth")
    return solved(asked_choices(rows, f"examples of {of}")) if rows else ()


def solved(found: Sequence[AskedChoice]) -> tuple[Choice, ...]:
    """Questions as examples. Raises UserError for one without a truth."""
    for one in found:
        if not one.choice.truth:
            raise UserError(f"example {one.choice.text!r}: has no truth; an example is a question with its answer")
    return tuple(one.choice for one in found)


def _words(cell: Any) -> bool:
    """Whether a cell holds texts and no numbers."""
    if isinstance(cell, Mapping):
        return all(_words(one) for one in cell.values())
    return isinstance(cell, str) or (isinstance(cell, Iterable) and all(_words(one) for one in cell))


def _text(cell: Any) -> str:
    return "" if _missing(cell) else str(cell).strip()


def _scalar(part: str, cell: Any) -> str:
    """The text of a cell that holds one value."""
    if not pd.api.types.is_scalar(cell):
        raise UserError(f"{part} {cell!r}: is {type(cell).__name__}; give a text or a number")
    return _text(cell)


def _missing(cell: Any) -> bool:
    return bool(pd.api.types.is_scalar(cell) and pd.isna(cell))


def _plain(cell: Any) -> Any:
    """A cell in what JSON has."""
    if _missing(cell):
        return None
    if isinstance(cell, bool | str):
        return cell
    if isinstance(cell, Real):
        return int(cell) if isinstance(cell, Integral) else float(cell)
    if isinstance(cell, Mapping):
        return {str(key): _plain(value) for key, value in cell.items()}
    return [_plain(one) for one in cell] if isinstance(cell, Iterable) else str(cell)
