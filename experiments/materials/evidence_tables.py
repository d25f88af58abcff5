"""Questions of one's own, from a table: with their options, what is revealed step by step, and what came of them."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import UserError, closest, in_one_line, named, nearest
from ...metrics.tables.cells import label_text
from .choices.columns import NAMES, QuestionColumns, column_of, options_of
from .choices.tables import AskedChoice, asked_choices, file_rows
from .questions import BinaryQuestion

Cells = Mapping[str, Any]
"""Column in lower case -> cell."""

PARTS = ("question", "truth", "id", "cluster")
"""What is called as in a table for `ask`, besides the options."""
EXTRAS = ("outcome", "background", "resolved_on", "evidence", "posterior", "step")
NUMBERED = re.compile(r"(evidence|posterior)[ _]?(\d{1,4})")
PAIR = ("option_yes", "option_no")
EACH = '{question} The options are: {options}. Is it "{option}"?'
"""How a question with more than two options is asked for one of them."""


def load_table(
    path: Path, columns: QuestionColumns | None = None, unused: Sequence[str] = ()
) -> list[tuple[BinaryQuestion, ...]]:
    """The questions of a table, each alone; one with k > 2 options as k questions, one for each, which are drawn
    together and share a cluster. Those with the same text share one, too, unless a column says otherwise.

    Args:
        path: .csv, .jsonl (also packed by gzip), .json or .parquet. A row for each question, with its evidence in
            `evidence_1, evidence_2, ...` or as a list in `evidence`; or a row for each `step` of it.
        columns: the names of its columns, where they are none that is known.

    Raises UserError for a file that cannot be read or has no rows; for a column of which nothing is made, with the
    nearest that is known; and, by row, for what is no question, option, outcome or step.
    """
    wanted = columns or QuestionColumns()
    ignored = {name.strip().lower() for name in unused}
    table = [{str(name).strip().lower(): cell for name, cell in row.items()} for row in file_rows(path)]
    if not table:
        raise UserError(f"{path}: has no rows")
    if absent := sorted(ignored - table[0].keys()):
        raise UserError(f"{path}: unused: has no column {absent[0]!r}; {nearest(absent[0], table[0])}")
    rows: list[Cells] = [{name: cell for name, cell in row.items() if name not in ignored} for row in table]
    with named(path), in_one_line("is no question"):
        names = {part: column_of(part, getattr(wanted, part), rows[0]) for part in PARTS}
        if "outcome" in rows[0] and wanted.truth is None:
            names["truth"] = None
        options = _option_columns(rows[0], wanted, {name for name in names.values() if name})
    _refuse_unknown(path, rows[0], {*filter(None, names.values()), *options})
    where = str(path)
    if "step" in rows[0]:
        rows, where = _by_question(path, rows, names["id"] or names["question"]), f"{path}, a row for each question"
    outcomes = [_outcome(row, names["truth"], options) for row in rows]
    asked = asked_choices(
        [_as_asked(row, names, options, *each) for row, each in zip(rows, outcomes, strict=True)],
        where,
        wanted.model_copy(update=dict.fromkeys(PARTS) | {"options": _wanted(options)}),
    )
    if len(asked) < len(rows):
        raise UserError(f"{path}: a question has two options that read the same; give each a text of its own")
    asked_of = []
    for number, (choice, row, (_, outcome)) in enumerate(zip(asked, rows, outcomes, strict=True), 1):
        with named(f"{where}: row {number}"), in_one_line("is no question"):
            asked_of.append(_questions(choice, row, outcome, f"{path.name}, row {number}"))
    return asked_of


def _option_columns(row: Cells, columns: QuestionColumns, others: Iterable[str]) -> list[str]:
    """The columns that hold options; none for a question that is answered by yes and no."""
    if {*PAIR} & row.keys():
        if absent := [name for name in PAIR if name not in row]:
            raise UserError(f"has no column {absent[0]!r}, only {', '.join(row)}")
        return [*PAIR]
    asks = columns.options is not None or any(name.startswith(("option", "choice")) for name in row)
    try:
        return options_of(row, columns, [*others, *EXTRAS, *filter(NUMBERED.fullmatch, row)])[2]
    except UserError:
        if asks:
            raise
        return []


def _refuse_unknown(path: Path, row: Cells, used: set[str]) -> None:
    """Raise UserError for a column that is not used."""
    unknown = [name for name in row if name not in {*used, *EXTRAS} and not NUMBERED.fullmatch(name)]
    if unknown:
        known = {*EXTRAS, *(name for part in PARTS for name in NAMES[part]), *PAIR, "options", "option_1", "evidence_1"}
        several, name, close = len(unknown) > 1, json.dumps(str(path)), closest(unknown[0], known)
        hint = f"did you mean {close!r}? If not, " if close else ""
        raise UserError(
            f"{path}: the column{'s' * several} {', '.join(map(repr, unknown))} {'are' if several else 'is'} not used "
            f"here; {hint}rename {'them' if several else 'it'}, or list {'them' if several else 'it'} under `unused`: "
            f"-o 'domains={{{path.stem}: {{kind: table, file: {name}, unused: {json.dumps(unknown)}}}}}'"
        )


# A row for each step: the rows of a question become one.


def _by_question(path: Path, rows: Sequence[Cells], key: str | None) -> list[Cells]:
    """Rows of steps as one for each question, its evidence a list; a step 0 reveals nothing."""
    by_key: dict[str, dict[float, Cells]] = {}
    for number, row in enumerate(rows, 1):
        with named(f"{path}: row {number}"), in_one_line("is no question"):
            if any(NUMBERED.fullmatch(name) for name in row):
                raise UserError("has a column `step` and numbered ones beside it; give one of them")
            try:
                step = float(label_text(row["step"]))
            except ValueError:
                raise UserError(f"step {row['step']!r} is no number") from None
            steps = by_key.setdefault(label_text(row[key]) if key else "", {})
            if step in steps:
                raise UserError(f"step {step:g} of this question is there twice; give each question an id of its own")
            if bool(label_text(row.get("evidence"))) != bool(step):
                raise UserError(f"step {step:g} {'has no evidence' if step else 'comes before any evidence'}")
            steps[step] = row
    return [_joined(path, name, [steps[step] for step in sorted(steps)]) for name, steps in by_key.items()]


def _joined(path: Path, name: str, steps: Sequence[Cells]) -> Cells:
    """The rows of one question as one: what is the same in all, and lists of what each step has."""
    whole: dict[str, Any] = {}
    for column in steps[0].keys() - {"step", "evidence", "posterior"}:
        cells = {label_text(row[column]): row[column] for row in steps if label_text(row[column])}
        if len(cells) > 1:
            raise UserError(f"{path}: question {name!r}: {column!r} differs between its steps: {' and '.join(cells)}")
        whole[column] = next(iter(cells.values()), "")
    for column in {"evidence", "posterior"} & steps[0].keys():
        whole[column] = [row[column] for row in steps if label_text(row[column])]
    return whole


# What a row says: the question as one of `ask`, its outcome, and its steps.


def _outcome(row: Cells, truth: str | None, options: Sequence[str]) -> tuple[Any, float]:
    """The cell that names the option which came true, and the chance of the first of two, where a number says it."""
    cell = row["outcome"] if "outcome" in row else row[truth] if truth else None
    pair = _texts(row, options)
    if len(pair) != 2 or label_text(cell).casefold() in {text.casefold() for text in pair}:
        return cell, np.nan
    try:
        return None, float(label_text(cell) or np.nan)
    except ValueError:
        return cell, np.nan


def _wanted(options: Sequence[str]) -> str | tuple[str, ...] | None:
    """One column may hold a list; several hold an option each."""
    return tuple(options) if len(options) > 1 else next(iter(options), None)


def _texts(row: Cells, options: Sequence[str]) -> list[str]:
    """The options of a row."""
    if not options:
        return ["Yes", "No"]
    return [*filter(None, options_of(row, QuestionColumns(options=_wanted(options)), ())[0])]


def _as_asked(
    row: Cells, names: Mapping[str, str | None], options: Sequence[str], truth: Any, chance: float
) -> dict[str, Any]:
    """The row of a table for `ask`."""
    cells = {part: row[name] for part, name in names.items() if name and part != "truth"}
    listed = {name: row[name] for name in options} if options else {"options": ["Yes", "No"]}
    return {"cluster": cells.get("question"), **cells, **listed, "truth": truth}


def _questions(asked: AskedChoice, row: Cells, outcome: float, provenance: str) -> tuple[BinaryQuestion, ...]:
    choice = asked.choice
    evidence, posterior = _steps(row, "evidence"), tuple(map(float, _steps(row, "posterior")))
    shared: dict[str, Any] = {
        "cluster": choice.cluster,
        "provenance": provenance,
        "background": label_text(row.get("background")),
        "evidence": tuple(evidence),
        "resolved_on": label_text(row.get("resolved_on")),
    }
    if len(choice.options) == 2:
        if choice.truth:
            outcome = float(choice.right == 0)
        return (
            BinaryQuestion(
                choice.id,
                text=choice.text,
                option_yes=choice.options[0],
                option_no=choice.options[1],
                outcome=outcome,
                posterior=posterior,
                **shared,
            ),
        )
    if posterior:
        raise UserError(f"has a posterior and {len(choice.options)} options; a posterior is of the first of two")
    listed = "; ".join(choice.options)
    return tuple(
        BinaryQuestion(
            f"{choice.id}/{option}",
            text=EACH.format(question=choice.text, options=listed, option=option),
            option_yes="Yes",
            option_no="No",
            outcome=float(option == choice.truth) if choice.truth else np.nan,
            among=choice.id,
            **shared,
        )
        for option in choice.options
    )


def _steps(row: Cells, of: str) -> list[str]:
    """The texts of a part that has several, in their order: of numbered columns, of a list, or of one text."""
    numbered = sorted((int(match[2]), name) for name in row if (match := NUMBERED.fullmatch(name)) and match[1] == of)
    if numbered and of in row:
        raise UserError(f"has {of!r} and {numbered[0][1]!r}; give one of them")
    if not numbered:
        return [*map(label_text, _list(row.get(of), of))]
    places = [place for place, _ in numbered]
    if places != [*range(places[0], places[0] + len(places))] or places[0] > 1:
        raise UserError(f"has {', '.join(name for _, name in numbered)}, and none between or before")
    texts = [label_text(row[name]) for _, name in numbered]
    steps = [text for text in texts if text]
    if steps != texts[: len(steps)]:
        raise UserError(f"{numbered[texts.index('')][1]} is empty, and a later one is not; move it up")
    return steps


def _list(cell: Any, of: str) -> Sequence[Any]:
    if isinstance(cell, str):
        text = cell.strip()
        if not text.startswith("["):
            return [text] if text else []
        try:
            cell = json.loads(text)
        except (ValueError, RecursionError):
            raise UserError(f"{of} {text!r}: is no list in JSON") from None
    return [] if cell is None or isinstance(cell, float) else list(cell)
