"""What comes in comes out: ids, answers, headers and further columns of a table, to the bit.

`DOXASCOPE_FUZZ=10000` tries so many of each kind, other ones at every call; else a few, always the same.
"""

import csv
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from doxascope import UserError, load
from doxascope.base.documents import read_csv
from doxascope.base.text import FORMULA, as_csv, for_spreadsheet, unguarded

ODD = ["-1", "+7", "=1+1", "@x", "'-1", "''", '"', 'a"b', "a,b", "a\nb", "a\r\nb", "a\rb", "007", "1.0", "1e5", "NaN"]
ODD += [
    "nan",
    "NA",
    "None",
    "null",
    "true",
    "ß",
    "é",
    "e\u0301",
    "水",
    "🙂",
    "\u202eabc",
    "\u00a0x",
    " x ",
    "x\t",
    "-",
    "'",
]
ODD += ["\ufeffx", "#", "a|b", "[1]", "{}", "\\", "%s", "{option}", "x" * 300]
TEXTS = st.one_of(st.sampled_from(ODD), st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0")))
IDS = TEXTS.filter(str.strip)
ASKED = int(os.environ.get("DOXASCOPE_FUZZ", "0"))


def tried(few: int) -> settings:
    return settings(
        max_examples=ASKED or few,
        derandomize=not ASKED,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


def cells_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


@tried(100)
@given(st.lists(TEXTS, min_size=2, max_size=4, unique=True), st.lists(st.tuples(TEXTS, TEXTS), min_size=1))
def test_a_csv_holds_every_text_to_the_bit(names: list[str], rows: list[tuple[str, str]]) -> None:
    """Reference: Python's own reader."""
    table = pd.DataFrame(rows, columns=pd.Index(names[:2], dtype=object), dtype=object)
    assert cells_of(as_csv(table)) == [names[:2], *map(list, rows)]


@tried(300)
@given(st.text(',"\r\n ab', max_size=20))
@example("a,b\n\r,2\n3,4\n")
@example("a\n \nb\n")
def test_a_csv_of_any_hand_is_read_cell_by_cell_or_refused(tmp_path: Path, text: str) -> None:
    (path := tmp_path / "table.csv").write_bytes(text.encode())
    try:
        table = read_csv(path)
    except UserError:
        return
    assert [[*table.columns], *table.to_numpy().tolist()] == [*filter(None, cells_of(text))]


@tried(100)
@given(TEXTS)
def test_what_a_spreadsheet_is_given_is_no_formula_and_comes_back(text: str) -> None:
    guarded = for_spreadsheet(pd.DataFrame({text: [text]}, dtype=object))
    cell = guarded.iloc[0, 0]
    assert guarded.columns[0] == cell
    assert not str(cell).startswith(FORMULA)
    assert unguarded(str(cell)) == text


QUESTION = st.tuples(IDS, TEXTS, st.lists(st.sampled_from(ODD).filter(str.strip), min_size=2, max_size=3))


@pytest.fixture(scope="module")
def lm(tiny_folder: Path) -> Any:
    return load(str(tiny_folder))


@tried(25)
@given(
    st.lists(QUESTION, min_size=1, max_size=5, unique_by=lambda row: row[0]),
    st.sampled_from(["qid", "ID", "id", "Qid "]),
    st.sampled_from(["Source", 'my, "note"', "-x", "Größe", "prob", "a\nb"]),
    st.sampled_from([".csv", ".parquet"]),
)
def test_a_table_of_questions_joins_its_answers(
    lm: Any, tmp_path_factory: pytest.TempPathFactory, rows: list[Any], name: str, further: str, ending: str
) -> None:
    """A file that is asked, and the answers as a run writes them: every id that was asked is there as it stands in the
    file, with the user's own columns under their own names, and the answer is an option as it was written."""
    path = tmp_path_factory.mktemp("asked") / f"questions{ending}"
    names = [name, "question", "option_1", "option_2", "option_3", further]
    table = pd.DataFrame(
        [
            [key, f"Which of these is it, {i}?", *[*options, ""][:3], note]
            for i, (key, note, options) in enumerate(rows)
        ],
        columns=pd.Index(names, dtype=object),
        dtype=object,
    )
    if ending == ".csv":
        path.write_text(as_csv(table), encoding="utf-8", newline="")
    else:
        table.to_parquet(path)
    if not any(differ(options) for _, _, options in rows):
        with pytest.raises(UserError, match="no question that can be asked"):
            lm.ask(path, ["letters"])
        return
    asked = lm.ask(path, ["letters"], orders="none")
    header, *lines = cells_of(as_csv(asked.table))
    answers = {line[header.index("id")]: dict(zip(header, line, strict=True)) for line in lines}
    given = {row[0]: row for row in table.to_numpy().tolist()}
    assert answers.keys() <= given.keys()
    assert len(answers) == len([key for key, _, options in rows if differ(options)])
    own = f"own_{further}" if further == "prob" else further
    for key, answer in answers.items():
        assert answer[name if name != "id" else "id"] == key
        assert answer["answer"] in [option.strip() for option in given[key][2:5]]
        assert answer.get(own, "") == given[key][5]


def differ(options: list[str]) -> bool:
    return len({" ".join(option.split()).casefold() for option in options}) == len(options)


def test_a_run_s_answers_hold_signs_and_capitals(
    tiny_folder: Path, command_line: Callable[..., Any], tmp_path: Path
) -> None:
    """The documented merge finds every row."""
    text = "QID,question,option_1,option_2,Source\n" + "".join(
        f"{i},Is it {i}?,-1,+1,=a\n" for i in ("-1", "+7", "007")
    )
    (tmp_path / "q.csv").write_text(text)
    done = command_line("run", "ask", "q.csv", "-m", str(tiny_folder), "-o", "answers=[letters]", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").glob("ask-*")
    mine, answers = (pd.read_csv(file, dtype=str) for file in (tmp_path / "q.csv", run / "answers.csv"))
    joined = mine.merge(answers, on="QID", suffixes=("", "_model"))
    assert len(joined) == 3
    assert (joined["Source"] == joined["Source_model"]).all()
    assert set(joined["answer"]) <= {"-1", "+1"}
