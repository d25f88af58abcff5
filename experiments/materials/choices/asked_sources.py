"""Where the questions of the everyday job come from: a file of any form, a hub data set, or a task of lm-eval."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from ....hooks.documents import read_json_rows, user_path
from ....hooks.errors import UserError, in_one_line
from ....hooks.settings import Settings
from ...tables.source import open_table
from .asked import AskedChoice, asked_choices, solved
from .asked_columns import QuestionColumns
from .choice import Choice
from .sources import loaded

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
            return [AskedChoice(one, examples=shots) for one in loaded(kind, self.file) if one]
        return asked_choices(_file_rows(path), str(path), self.columns, shots)


def _shots(file: str, n: int, columns: QuestionColumns) -> tuple[Choice, ...]:
    path = user_path(file)
    found = solved(asked_choices(list(islice(_file_rows(path), n)), str(path), columns))
    if len(found) < n:
        raise UserError(f"{path}: has {len(found)} questions, fewer than shots {n}")
    return found


def _file_rows(path: Path) -> Iterator[Mapping[str, Any]]:
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
    advice = "it has to be on the hub or in its cache, and the network has to be there; or give a file"
    with in_one_line(f"questions.hub {name}", advice):
        return list(datasets.load_dataset(name, subset, split=split))  # pyright: ignore[reportArgumentType, reportReturnType]


def _task_rows(name: str) -> list[dict[str, Any]]:
    try:
        from lm_eval.tasks import TaskManager, get_task_dict  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UserError(f"task {name}: needs `pip install 'doxascope[lm-eval]'`") from None
    with in_one_line(f"questions.task {name}", "is it a multiple-choice task, and is its data set there?"):
        task = get_task_dict([name], TaskManager())[name]
        documents = task.test_docs() if task.has_test_docs() else task.validation_docs()
        return [
            {
                "question": task.doc_to_text(one),
                "options": [str(choice) for choice in task.doc_to_choice(one)],
                "truth": task.doc_to_target(one),
            }
            for one in documents
        ]
