"""Questions of anyone's, each with its own options: rows of a table, however its columns are called."""

import contextlib
import json
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from numbers import Integral, Real
from typing import Any

import pandas as pd

from ....hooks.documents import repeated
from ....hooks.errors import UserError, in_one_line, nearest
from ....hooks.prompts.options import MOST
from ....hooks.settings import Settings
from ...tables.cells import label_text
from .choice import Choice, alike
from .truths import ToldTruth, told_truth, true_option, ways_of

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
ONE_EACH = re.compile(r"(option|choice|answer|ending|opt)[ _]?(?:(\d{1,2})|([a-z]))")
"""The name of a column that holds one option, besides a bare letter."""
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
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
    rows = list(rows)
    if not rows:
        raise UserError(f"{where}: has no rows")
    every = [_parsed_at(number, row, wanted, where) for number, row in enumerate(rows, 1)]
    parsed = [one for one in every if one]
    ways = ways_of(one.truth for one in parsed)
    of_text: dict[str, str] = {}
    found: list[AskedChoice] = []
    for one in parsed:
        with _at(where, one.number):
            found.append(_question(one, ways, wanted, where, of_text, examples))
    if (name := repeated(one.choice.id for one in found)) is not None:
        raise UserError(f"{where}: two questions are called {name!r}; give each an id of its own")
    if len(found) < len(rows):
        log.warning(
            "%s: %s questions with two options that read the same, or an empty one in a list, are left out",
            where,
            len(rows) - len(found),
        )
    if not found:
        raise UserError(f"{where}: has no question that can be asked")
    return found


@contextlib.contextmanager
def _at(where: str, number: int) -> Iterator[None]:
    """Whatever is wrong with a row is one line that names it."""
    try:
        with in_one_line("is no question"):
            yield
    except UserError as error:
        raise UserError(f"{where}: row {number}: {error}") from None


@dataclass(frozen=True)
class _Parsed:
    """A row before it is known how the truths of its table are to be read."""

    number: int
    cells: Row
    told: Mapping[str, str]
    """Part -> its text."""
    options: tuple[str, ...]
    truth: ToldTruth | None
    examples: str | None
    """The column that has them."""
    more: Mapping[str, Any]


def _parsed_at(number: int, row: Row, columns: QuestionColumns, where: str) -> _Parsed | None:
    with _at(where, number):
        names = [str(name).strip().lower() for name in row]
        if (twice := repeated(names)) is not None:
            raise UserError(f"has two columns {twice!r} (capitals do not count); rename one")
        cells = dict(zip(names, row.values(), strict=True))
        for name, cell in cells.items():
            _refuse_no_text(name, cell)
        return _parsed(number, cells, columns)


def _parsed(number: int, cells: Row, columns: QuestionColumns) -> _Parsed | None:
    """The parts of a row; None where two options read the same."""
    names = {part: _name(part, getattr(columns, part), cells) for part in NAMES if part != "options"}
    if names["question"] is None:
        raise UserError(f"has no column 'question'; {nearest('question', cells)}; name it by `columns.question`")
    others = {name for name in names.values() if name}
    places, labels, used = _options(cells, columns, others)
    options = tuple(filter(None, places))
    if len(options) > MOST:
        raise UserError(f"has {len(options):,} options; at most {MOST:,} can be read at once")
    if len(places) >= 2 and alike(places if len(used) == 1 and _is_listed(cells[used[0]]) else options):
        return None
    if len(options) < 2:
        raise UserError(f"has {len(options) or 'no'} option{'s' * (not options)}; give two or more")
    words = all(_words(cells[name]) for name in used)
    told = {part: _scalar(part, cells[name]) if name else "" for part, name in names.items() if part != "examples"}
    truth = told_truth(cells[names["truth"]], places, labels, words, columns.first) if names["truth"] else None
    more = {name: _plain(value) for name, value in cells.items() if name and name not in {*used, *others}}
    return _Parsed(number, cells, told, options, truth, names["examples"], more)


def _question(
    row: _Parsed,
    ways: frozenset[str],
    columns: QuestionColumns,
    where: str,
    of_text: dict[str, str],
    examples: Sequence[Choice],
) -> AskedChoice:
    """The question of a row."""
    told = row.told
    own = told["id"] or f"q{row.number:05}"
    first = of_text.setdefault(told["question"], own)
    choice = Choice(
        id=own,
        cluster=told["cluster"] or first,
        category=CATEGORY,
        text=told["question"],
        options=row.options,
        provenance=f"{where}, row {row.number}",
        truth=true_option(row.truth, ways, columns.first) if row.truth else "",
        topic=told["topic"],
    )
    given = row.cells[row.examples] if row.examples else None
    brought = _examples(given, own, columns.first) if label_text(given) else tuple(examples)
    return AskedChoice(choice, told["system"], brought, row.more)


def _name(part: str, given: str | None, cells: Row) -> str | None:
    """The column of a part; None if there is none. Raises UserError for one that was named and is not there."""
    if given is not None:
        name = given.strip().lower()
        if name not in cells:
            raise UserError(f"has no column {given!r}; {nearest(name, cells)}")
        return name
    return next((name for name in NAMES[part] if name in cells), None)


def _options(
    cells: Row, columns: QuestionColumns, others: Collection[str]
) -> tuple[list[str], Sequence[str], list[str]]:
    """The options of a row in their places, empty where there is none; what they are called where that is said; and the
    columns that hold them. `others`: the columns of the other parts.
    """
    given = columns.options
    if given is not None and not isinstance(given, str):
        names = [name for one in given if (name := _name("options", one, cells))]
        return [label_text(cells[name]) for name in names], [], names
    name = _name("options", given, cells)
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
        one, other = (min(family.items())[1][0] for family in several[:2])
        raise UserError(f"has options in {one!r}, ... and in {other!r}, ...; name them by `columns.options`")
    (family,) = several
    if both := next((same for same in family.values() if len(same) > 1), None):
        raise UserError(f"has {both[0]!r} and {both[1]!r}; name the options by `columns.options`")
    order = sorted(family)
    if order != [*range(order[0], order[0] + len(order))] or order[0] > 1:
        held = ", ".join(family[at][0] for at in order)
        raise UserError(f"has the options {held}, and none between or before; name them by `columns.options`")
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
        if not all(_is_list(one) for one in (texts, labels)) or len(labels) not in (0, len(texts)):
            raise UserError(f"options {dict(cell)!r}: `text` and `label` are no lists of one length")
        return [*map(label_text, texts)], [*map(label_text, labels)]
    if isinstance(cell, Iterable):
        parts = list(cell)
        if parts and all(isinstance(one, Mapping) and "text" in one for one in parts):
            labels = [label_text(one["label"]) for one in parts if "label" in one]
            if len(labels) not in (0, len(parts)):
                raise UserError(f"options {parts!r}: give every one a `label`, or none")
            return [label_text(one["text"]) for one in parts], labels
        return [*map(label_text, parts)], []
    raise UserError(f"options {cell!r}: give a list of texts")


def _is_listed(cell: Any) -> bool:
    """Whether an empty option of a cell stands there as one, and is no gap between `|`."""
    return not isinstance(cell, str) or cell.strip().startswith(("[", "{"))


def _is_list(cell: Any) -> bool:
    return isinstance(cell, Iterable) and hasattr(cell, "__len__") and not isinstance(cell, str | Mapping)


def _examples(cell: Any, of: str, first: int | None) -> tuple[Choice, ...]:
    """The solved questions of a cell: a list of questions with options and truth."""
    try:
        rows = json.loads(cell) if isinstance(cell, str) else list(cell)
    except (ValueError, TypeError, RecursionError):
        raise UserError(f"examples {cell!r}: give a list of questions, each with question, options and truth") from None
    if not all(isinstance(row, Mapping) for row in rows):
        raise UserError(f"examples {cell!r}: give a list of questions, each with question, options and truth")
    return solved(asked_choices(rows, f"examples of {of}", QuestionColumns(first=first))) if rows else ()


def solved(found: Sequence[AskedChoice]) -> tuple[Choice, ...]:
    """Questions as examples. Raises UserError for one without a truth."""
    for one in found:
        if not one.choice.truth:
            raise UserError(f"example {one.choice.text!r}: has no truth; an example is a question with its answer")
    return tuple(one.choice for one in found)


def _words(cell: Any) -> bool:
    """Whether a cell holds texts and no numbers; a missing one holds neither."""
    if _missing(cell):
        return True
    if isinstance(cell, Mapping):
        return all(_words(one) for one in cell.values())
    return isinstance(cell, str) or (isinstance(cell, Iterable) and all(_words(one) for one in cell))


def _scalar(part: str, cell: Any) -> str:
    """The text of a cell that holds one value."""
    if not pd.api.types.is_scalar(cell):
        raise UserError(f"{part} {cell!r}: is {type(cell).__name__}; give a text or a number")
    return label_text(cell)


def _refuse_no_text(name: str, cell: Any) -> None:
    """Raise UserError for a cell that holds what no text does."""
    told = json.dumps([name, _plain(cell)], ensure_ascii=False)
    if half := re.search("[\ud800-\udfff]", told):
        raise UserError(
            f"{name!a} holds {half[0]!a}, half of a character that takes two; take it out, or save the file as UTF-8"
        )
    if "\\u0000" in told:
        raise UserError(f"{name!r} holds a zero byte; take it out")


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
