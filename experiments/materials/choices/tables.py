"""Questions of anyone's, each with its own options: rows of a file of any form, of a hub data set, or of a task of
lm- eval.
"""

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import Field, model_validator

from ....base.documents import read_json_rows, repeated, user_path
from ....base.errors import UserError, in_one_line, named, nearest
from ....base.settings import Settings
from ....base.text import copy_key
from ....hooks.prompts.options import MOST
from ....metrics.tables.cells import label_text
from ....metrics.tables.source import open_table
from ....metrics.tables.truths import PLACE, ToldTruth, Way, told_truth, true_option, ways_of
from .columns import NAMES, QuestionColumns, Row, column_of, id_column, is_listed, like_ids, options_of
from .sources import Choice, alike, loaded

log = logging.getLogger("doxascope")

CATEGORY = "asked"
LEFT_OPEN = "say what truths are by `columns.truths`: text, label, letter, or place (with `columns.first`, 0 or 1)"


@dataclass(frozen=True)
class AskedChoice:
    """A question with options as it was given."""

    choice: Choice
    system: str = ""
    examples: tuple[Choice, ...] = ()
    """Solved questions that go before it."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further columns, which are carried through, as is the one that ids were taken from, where it is not called id."""


def asked_choices(
    rows: Iterable[Row], where: str, columns: QuestionColumns | None = None, examples: Sequence[Choice] = ()
) -> list[AskedChoice]:
    """The questions of some rows. Those with the same text, but for case, blanks, forms of a letter and what closes it,
    share a cluster unless a column says otherwise. How many are near copies is said, as is how many are left out, for
    two of their options read the same, and which columns may be ids where none is known to be.

    Args:
        rows: column -> cell; capitals of the names do not count.
        examples: solved questions that go before every one that brings none.

    Raises UserError for a column that is missing, and, by row, for a question without text or with fewer than two
    options, a truth that is none of them, and two of the same id.
    """
    rows, wanted = list(rows), columns or QuestionColumns()
    ids = id_column(rows, wanted.id)
    asked = _asked_choices(rows, where, wanted, ids, examples)
    if ids is None and (likely := like_ids([choice.more for choice in asked])):
        _warn(
            f"{where}: no column is known to hold ids, so that questions are called q00001, ... by row; if "
            f"{' or '.join(likely[:3])} does, say so by `questions.columns='{{id: {likely[0]}}}'`"
        )
    return asked


@lru_cache
def _warn(line: str) -> None:
    """Once, since a run reads its questions more than once."""
    log.warning("%s", line)


def _asked_choices(
    rows: Sequence[Row], where: str, wanted: QuestionColumns, ids: str | None, examples: Sequence[Choice]
) -> list[AskedChoice]:
    if not rows:
        raise UserError(f"{where}: has no rows")
    every = [_parsed_at(number, row, wanted, ids, where) for number, row in enumerate(rows, 1)]
    parsed = [each for each in every if each]
    ways: frozenset[Way] = frozenset({wanted.truths}) if wanted.truths else ways_of(each.truth for each in parsed)
    of_text: dict[str, tuple[str, str]] = {}
    near_copies: list[str] = []
    asked: list[AskedChoice] = []
    for each in parsed:
        with named(f"{where}: row {each.number}"), in_one_line("is no question"):
            text, name = each.told["question"], each.told["id"] or f"q{each.number:05}"
            first, first_text = of_text.setdefault(copy_key(text), (name, text))
            near_copies += [name] if text != first_text and not each.told["cluster"] else []
            asked.append(_question(each, name, ways, wanted, where, first, examples))
    if (name := repeated(question.choice.id for question in asked)) is not None:
        raise UserError(
            f"{where}: two questions are called {name!r} in column {ids!r}; give each an id of its own, or name "
            "another column by `columns.id`"
        )
    if near_copies:
        several = f"{n} questions share" if (n := len(near_copies)) > 1 else "1 question shares"
        _warn(
            f"{where}: {several} the cluster of another that is the same but for case, blanks, forms of a letter or "
            f"the last sign, the first is {near_copies[0]}; a column `cluster` says otherwise"
        )
    if len(asked) < len(rows):
        _warn(
            f"{where}: {len(rows) - len(asked)} questions with two options that read the same, or an empty one in a "
            "list, are left out"
        )
    if not asked:
        raise UserError(f"{where}: has no question that can be asked")
    return asked


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


def _parsed_at(number: int, row: Row, columns: QuestionColumns, ids: str | None, where: str) -> _Parsed | None:
    with named(f"{where}: row {number}"), in_one_line("is no question"):
        names = [str(name).strip().lower() for name in row]
        if (twice := repeated(names)) is not None:
            raise UserError(f"has two columns {twice!r} (capitals do not count); rename one (options: option_1, ...)")
        cells = dict(zip(names, row.values(), strict=True))
        for name, cell in cells.items():
            _refuse_no_text(name, cell)
        return _parsed(number, cells, columns, ids, dict(zip(names, map(str, row), strict=True)))


def _parsed(
    number: int, cells: Row, columns: QuestionColumns, ids: str | None, called: Mapping[str, str]
) -> _Parsed | None:
    """The parts of a row, with its columns as the file has `called` them; None where two options read the same."""
    names = {part: column_of(part, getattr(columns, part), cells) for part in NAMES if part != "options"}
    if ids is not None and (id_column := ids.strip().lower()) in cells:
        names["id"] = id_column
    if names["question"] is None:
        raise UserError(f"has no column 'question'; {nearest('question', cells)}; name it by `columns.question`")
    others = {name for name in names.values() if name}
    places, labels, used = options_of(cells, columns, others)
    options = tuple(filter(None, places))
    if len(options) > MOST:
        raise UserError(f"has {len(options):,} options; at most {MOST:,} can be read at once")
    if len(places) >= 2 and alike(places if len(used) == 1 and is_listed(cells[used[0]]) else options):
        return None
    if len(options) < 2:
        raise UserError(f"has {len(options) or 'no'} option{'s' * (not options)}; give two or more")
    words = all(_words(cells[name]) for name in used)
    parts = {part: _scalar(part, cells[name]) if name else "" for part, name in names.items() if part != "examples"}
    truth = told_truth(cells[names["truth"]], places, labels, words, columns.first) if names["truth"] else None
    if names["id"]:
        parts["id"] = id_text(cells[names["id"]])
    more = {called[name]: _plain(value) for name, value in cells.items() if name and name not in {*used, *others}}
    if names["id"] and ids and ids != "id":
        more = {ids: _plain(cells[names["id"]]), **more}
    return _Parsed(number, cells, parts, options, truth, names["examples"], more)


def _question(
    row: _Parsed,
    name: str,
    ways: frozenset[Way],
    columns: QuestionColumns,
    where: str,
    first: str,
    examples: Sequence[Choice],
) -> AskedChoice:
    """The question of a row; `first` is the name of the first with its text."""
    parts = row.told
    if row.truth and columns.truths and columns.truths not in row.truth.readings:
        raise UserError(f"truth {row.truth.said!r} is the {columns.truths} of no option")
    chosen = None if columns.first is None else PLACE
    choice = Choice(
        id=name,
        cluster=parts["cluster"] or first,
        category=CATEGORY,
        text=parts["question"],
        options=row.options,
        provenance=f"{where}, row {row.number}",
        truth=row.truth.places[true_option(row.truth, ways, chosen, LEFT_OPEN)] if row.truth else "",
        topic=parts["topic"],
    )
    given = row.cells[row.examples] if row.examples else None
    brought = _examples(given, name, columns.first) if label_text(given) else tuple(examples)
    return AskedChoice(choice, parts["system"], brought, row.more)


def _examples(cell: Any, of: str, first: int | None) -> tuple[Choice, ...]:
    """The solved questions of a cell: a list of questions with options and truth."""
    try:
        rows = json.loads(cell) if isinstance(cell, str) else list(cell)
    except (ValueError, TypeError, RecursionError):
        raise UserError(f"examples {cell!r}: give a list of questions, each with question, options and truth") from None
    if not all(isinstance(row, Mapping) for row in rows):
        raise UserError(f"examples {cell!r}: give a list of questions, each with question, options and truth")
    if not rows:
        return ()
    return solved(_asked_choices(rows, f"examples of {of}", QuestionColumns(first=first), id_column(rows), ()))


def solved(asked: Sequence[AskedChoice]) -> tuple[Choice, ...]:
    """Questions as examples. Raises UserError for one without a truth."""
    for each in asked:
        if not each.choice.truth:
            raise UserError(f"example {each.choice.text!r}: has no truth; an example is a question with its answer")
    return tuple(each.choice for each in asked)


def _words(cell: Any) -> bool:
    """Whether a cell holds texts and no numbers; a missing one holds neither."""
    if _missing(cell):
        return True
    if isinstance(cell, Mapping):
        return all(_words(part) for part in cell.values())
    return isinstance(cell, str) or (isinstance(cell, Iterable) and all(_words(part) for part in cell))


def _scalar(part: str, cell: Any) -> str:
    """The text of a cell that holds one value."""
    if not pd.api.types.is_scalar(cell):
        raise UserError(f"{part} {cell!r}: is {type(cell).__name__}; give a text or a number")
    return label_text(cell)


def id_text(cell: Any) -> str:
    """An id as the table has it, to its last blank; empty where there is none."""
    return cell if isinstance(cell, str) and cell.strip() else label_text(cell)


def _refuse_no_text(name: str, cell: Any) -> None:
    """Raise UserError for a cell that holds what no text does."""
    text = json.dumps([name, _plain(cell)], ensure_ascii=False)
    if half := re.search("[\ud800-\udfff]", text):
        raise UserError(
            f"{name!a} holds {half[0]!a}, half of a character that takes two; take it out, or save the file as UTF-8"
        )
    if "\\u0000" in text:
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
    return [_plain(part) for part in cell] if isinstance(cell, Iterable) else str(cell)


# Where the questions of the everyday job come from: a file of any form, a hub data set, or a task of lm-eval.

Kind = Literal["table", "paper", "yaml", "bbq", "hle", "truthfulqa"]


class AskedSource(Settings):
    """Questions with options, from one place."""

    file: str | None = None
    """A table: .csv, .jsonl (also packed by gzip), .json or .parquet. Or a benchmark's own file, by `kind`."""
    kind: Kind = "table"
    """What the file is, if it is no table with a question in each row."""
    hub: str | None = None
    """A data set of the hub, `owner/name`; needs `datasets`."""
    subset: str | None = None
    """Of the hub data set."""
    split: str = "validation"
    """Of the hub data set."""
    task: str | None = None
    """A multiple-choice task of lm-eval by its name; needs `lm-eval`."""
    columns: QuestionColumns = QuestionColumns()
    examples: str | None = None
    """A file of solved questions, of which the first `shots` go before every question."""
    shots: int = Field(default=0, ge=0, le=100)

    @model_validator(mode="after")
    def _comes_from_one_place(self) -> "AskedSource":
        given = [name for name in ("file", "hub", "task") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)}: give one place for the questions")
        if self.shots and self.examples is None:
            raise ValueError("shots: give a file of `examples` from which they are taken")
        return self

    def ids(self) -> list[str]:
        """The ids of the questions of a file, in its order; none of a hub or a task, or where the file is gone."""
        try:
            return [] if self.file is None else [asked.choice.id for asked in self.questions()]
        except UserError:
            return []

    def questions(self) -> list[AskedChoice]:
        """All of them. Raises UserError for what cannot be read, naming where."""
        shots = _shots(self.examples, self.shots, self.columns) if self.examples and self.shots else ()
        if self.hub is not None:
            return asked_choices(_hub_rows(self.hub, self.subset, self.split), self.hub, self.columns, shots)
        if self.task is not None:
            return asked_choices(_task_rows(self.task), f"task {self.task}", examples=shots)
        if self.file is None:
            raise UserError("questions: none are given; `doxascope run ask questions.csv`, or questions.hub, or .task")
        path = user_path(self.file)
        if self.kind != "table" or path.suffix == ".yaml":
            kind = "yaml" if path.suffix == ".yaml" else self.kind
            return [AskedChoice(choice, examples=shots) for choice in loaded(kind, self.file) if choice]
        return asked_choices(file_rows(path), str(path), self.columns, shots)


def _shots(file: str, n: int, columns: QuestionColumns) -> tuple[Choice, ...]:
    path = user_path(file)
    shots = solved(asked_choices(list(islice(file_rows(path), n)), str(path), columns))
    if len(shots) < n:
        raise UserError(f"{path}: has {len(shots)} questions, fewer than shots {n}")
    return shots


def file_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """The rows of a table, cells as they are stored, columns called as in the file."""
    if path.suffix == ".gz":
        yield from read_json_rows(path, ())
        return
    source = open_table(path)
    called = dict(zip(source.columns, source.header, strict=True))
    for chunk in source.chunks(source.columns):
        names = [called[name] for name in chunk]
        yield from (dict(zip(names, cells, strict=True)) for cells in zip(*chunk.values(), strict=True))


def _hub_rows(name: str, subset: str | None, split: str) -> Sequence[Mapping[str, Any]]:
    try:
        import datasets
    except ImportError:
        raise UserError(f"{name}: reading hub data sets needs `pip install 'doxascope[datasets]'`") from None
    if int(datasets.__version__.partition(".")[0]) < 4:
        raise UserError(f"{name}: datasets {datasets.__version__} runs code of data sets; pip install 'datasets>=4'")
    advice = "it has to be on the hub or in its cache, and the network has to be there; or give a file"
    with in_one_line(f"questions.hub {name}", advice):
        return list(datasets.load_dataset(name, subset, split=split))  # pyright: ignore[reportArgumentType, reportReturnType]


def _task_rows(name: str) -> list[dict[str, Any]]:
    try:
        from lm_eval.tasks import TaskManager, get_task_dict  # type: ignore
    except ImportError:
        raise UserError(f"task {name}: needs `pip install 'doxascope[lm-eval]'`") from None
    with in_one_line(f"questions.task {name}", "is it a multiple-choice task, and is its data set there?"):
        task = get_task_dict([name], TaskManager())[name]
        documents = task.test_docs() if task.has_test_docs() else task.validation_docs()
        return [
            {
                "question": task.doc_to_text(document),
                "options": [str(choice) for choice in task.doc_to_choice(document)],
                "truth": task.doc_to_target(document),
            }
            for document in documents
        ]
