"""Questions with their own options from tables of any make, and what cannot be asked."""

import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from doxascope import UserError
from doxascope.experiments.materials.choices.columns import QuestionColumns
from doxascope.experiments.materials.choices.forms import ChoiceForm, option_positions, rotated, user_turn
from doxascope.experiments.materials.choices.sources import Choice, load_csqa, load_mmlu
from doxascope.experiments.materials.choices.tables import AskedSource, asked_choices

WHALE = {"question": "What is a whale?", "options": ["a fish", "a mammal"], "truth": "a mammal"}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"options": {"label": ["A", "B"], "text": ["a fish", "a mammal"]}, "truth": "B"},
        {"options": "a fish | a mammal", "truth": "A MAMMAL"},
        {"options": '["a fish", "a mammal"]', "truth": "b"},
        {"truth": 1},
        {"truth": 1.0},
        {"options": None, "Option 1": "a fish", "Option 2": "a mammal", "option_3": None},
        {"options": None, "a": "a fish", "b": "a mammal"},
    ],
)
def test_a_question_is_the_same_however_it_is_written_down(given: dict[str, Any]) -> None:
    row = {name: value for name, value in {**WHALE, **given}.items() if name != "options" or value is not None}
    (question,) = asked_choices([row], "here")
    assert (question.choice.text, question.choice.options, question.choice.truth) == (
        WHALE["question"],
        ("a fish", "a mammal"),
        "a mammal",
    )


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_file_carries_its_further_columns_and_its_ids(tmp_path: Path, suffix: str) -> None:
    table = pd.DataFrame(
        [
            {"id": f"n{i}", "prompt": f"{i} + {i}?", "x": str(2 * i), "y": "7", "gold": str(2 * i), "hard": i}
            for i in (1, 2)
        ]
    )
    path = tmp_path / f"q.{suffix}"
    if suffix == "csv":
        table.to_csv(path, index=False)
    elif suffix == "jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_parquet(path)
    columns = QuestionColumns(options=("x", "y"), truth="gold")
    found = AskedSource(file=str(path), columns=columns).questions()
    assert [question.choice.id for question in found] == ["n1", "n2"]
    assert [question.choice.right for question in found] == [0, 0]
    assert [int(question.more["hard"]) for question in found] == [1, 2]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{**WHALE, "options": ["a mammal"]}], "row 1: has 1 option; give two or more"),
        ([{**WHALE, "id": "w"}, {**WHALE, "id": "w"}], "two questions are called 'w'"),
        ([{**WHALE, "truth": "a mamal"}], "truth 'a mamal' is no option; did you mean 'a mammal'"),
        ([{"qestion": "?", "options": ["a", "b"]}], "no column 'question'; did you mean 'qestion'"),
        ([{"question": "?", "optoins": ["a", "b"]}], "no column 'options'; did you mean 'optoins'"),
        ([{"question": "?", "options": "4|5", "truth": "1"}], "say what the first has: `columns.first`, 0 or 1"),
        ([{**WHALE, "truth": 2}], "truth '2' is no option"),
        ([{**WHALE, "examples": "none"}], "give a list of questions"),
        (
            [{**WHALE, "examples": [{"question": "?", "options": ["a", "b"]}]}],
            "an example is a question with its answer",
        ),
        ([{**WHALE, "options": {"text": "ab"}}], "`text` and `label` are no lists of one length"),
        ([{**WHALE, "options": 3}], "options 3: give a list of texts"),
        ([], "has no rows"),
    ],
)
def test_what_cannot_be_asked_is_told_by_its_row(rows: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(UserError) as error:
        asked_choices(rows, "here")
    assert told in str(error.value)


def test_options_of_other_questions_may_be_the_same_and_a_text_that_comes_twice_is_one_cluster() -> None:
    found = asked_choices([WHALE, {**WHALE, "options": ["a mammal", "a bird"]}], "here")
    assert [question.choice.cluster for question in found] == ["q00001", "q00001"]


def test_near_copies_of_a_question_are_one_cluster_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    text = str(WHALE["question"])
    copies = [text.upper(), f"  {text.rstrip('?')} ", text.replace(" ", "\u00a0"), f"{text} But why?"]
    rows = [{**WHALE, "question": each} for each in (text, *copies)]
    with caplog.at_level("WARNING"):
        asked = asked_choices(rows, "here")
        assert asked_choices(rows, "here") == asked  # and the line comes once
    assert [question.choice.cluster for question in asked] == ["q00001"] * 4 + ["q00005"]
    assert [question.choice.text for question in asked][1] == text.upper()
    (line,) = caplog.messages
    assert line.startswith("here: 3 questions share the cluster of another")
    caplog.clear()
    apart = asked_choices([{**row, "cluster": str(i)} for i, row in enumerate(rows)], "here")
    assert len({question.choice.cluster for question in apart}) == 5
    assert caplog.messages == []


def test_a_column_that_was_named_and_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"no column 'truht'; did you mean 'truth'"):
        asked_choices([WHALE], "here", QuestionColumns(truth="truht"))


def test_a_data_set_that_cannot_be_had_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    with pytest.raises(UserError, match=r"questions\.hub nobody/nothing: .*or give a file"):
        AskedSource(hub="nobody/nothing").questions()


def test_a_data_set_is_read_by_its_column_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "data").mkdir()
    row = {
        "stem": "What is a whale?",
        "choices": {"label": ["1", "2"], "text": ["a fish", "a mammal"]},
        "answerKey": "2",
    }
    (tmp_path / "data" / "test.jsonl").write_text(json.dumps(row))
    (question,) = AskedSource(hub=str(tmp_path / "data"), split="test").questions()
    assert (question.choice.options, question.choice.truth) == (("a fish", "a mammal"), "a mammal")


def test_two_places_for_the_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="file and hub: give one place"):
        AskedSource(file="a.csv", hub="a/b")


@pytest.mark.parametrize(
    ("file", "load"), [("csqa/dev_rand_split.jsonl", load_csqa), ("mmlu/mmlu_dev.jsonl.gz", load_mmlu)]
)
def test_a_benchmark_s_file_read_as_a_table_is_what_its_own_loader_reads(
    file: str, load: Callable[..., Any], public: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "doxascope"):
        own = [row for row in load(public(file)) if row]
        found = AskedSource(file=str(public(file))).questions()
    assert [(question.choice.text, question.choice.options, question.choice.truth) for question in found] == [
        (row.text.strip(), row.options, row.truth) for row in own
    ]


def test_solved_questions_go_before_every_question(tmp_path: Path) -> None:
    solved = tmp_path / "solved.jsonl"
    solved.write_text("".join(json.dumps({**WHALE, "question": f"{i}?"}) + "\n" for i in range(3)))
    asked = tmp_path / "q.jsonl"
    asked.write_text(json.dumps(WHALE))
    (question,) = AskedSource(file=str(asked), examples=str(solved), shots=2).questions()
    assert [shot.text for shot in question.examples] == ["0?", "1?"]
    with pytest.raises(UserError, match="has 3 questions, fewer than shots 4"):
        AskedSource(file=str(asked), examples=str(solved), shots=4).questions()


@pytest.mark.parametrize("k", range(2, 9))
def test_in_a_latin_square_each_option_stands_once_in_each_place(k: int) -> None:
    square = rotated(k, "latin")
    assert square[0] == tuple(range(k))
    for line in (*square, *zip(*square, strict=True)):
        assert sorted(line) == list(range(k))


def test_all_orders_of_many_options_are_refused() -> None:
    assert len(rotated(5, "all")) == 120
    with pytest.raises(UserError, match="6 options have 720 orders; take `latin`, which has 6"):
        rotated(6, "all")


Q = {"question": "?"}


def truths(rows: Any, **columns: Any) -> list[str]:
    return [question.choice.truth for question in asked_choices(rows, "here", QuestionColumns(**columns))]


def test_an_empty_option_keeps_its_place() -> None:
    for given in ({"a": "", "b": "x", "c": "y"}, {"option_1": None, "option_2": "x", "option_3": "y"}):
        assert truths([{**Q, **given, "truth": "B"}]) == ["x"]
    for cell in ("|x|y", "| x | y"):
        (question,) = asked_choices([{**Q, "options": cell, "truth": "B"}], "here")
        assert (question.choice.options, question.choice.truth) == (("x", "y"), "x")
        assert truths([{**Q, "options": cell, "truth": "2"}], first=1) == ["x"]
        with pytest.raises(UserError, match=r"row 1: truth 'A': the option at that place is empty"):
            truths([{**Q, "options": cell, "truth": "A"}])


def test_a_column_of_one_letter_is_an_option_only_where_the_letters_run_from_a() -> None:
    (question,) = asked_choices(
        [{**Q, "option_1": "x", "option_2": "y", "truth": "x", "n": "57", "a": "1", "b": "2"}], "here"
    )
    assert (question.choice.options, question.more) == (("x", "y"), {"n": "57", "a": "1", "b": "2"})
    (question,) = asked_choices([{**Q, "a": "x", "b": "y", "n": "57"}], "here")
    assert (question.choice.options, question.more) == (("x", "y"), {"n": "57"})
    with pytest.raises(UserError, match="options option_1, option_3, and none between"):
        asked_choices([{**Q, "option_1": "x", "option_3": "y"}], "here")


def test_a_truth_is_read_in_the_way_in_which_every_row_of_its_table_can_be() -> None:
    row = {**Q, "options": "2|4|6"}
    assert truths([{**row, "truth": "2"}]) == ["2"]
    assert truths([{**row, "truth": 2}], first=1) == ["4"]
    with pytest.raises(
        UserError, match=r"row 1: truth '2' is the text of '2', and the place of '6', and no row .* `columns.truths`"
    ):
        truths([{**row, "truth": 2}])
    assert truths([{**row, "truth": 2}, {**row, "truth": 0}]) == ["6", "2"]  # 0 is no text
    assert truths([{**row, "truth": 2}, {**row, "truth": 6}]) == ["2", "6"]  # 6 is no place
    swapped = {**Q, "options": ["B", "A"], "truth": "B"}
    assert truths([swapped, {**Q, "options": ["x", "y"], "truth": "A"}]) == ["A", "x"]
    with pytest.raises(UserError, match=r"row 1: truth 'B' is the text of 'B', and the letter of 'A', and no row"):
        truths([swapped])
    assert truths([swapped], truths="text") == ["B"]
    assert truths([swapped], truths="letter") == ["A"]
    assert truths([{**row, "truth": 2}], truths="place") == ["6"]
    with pytest.raises(UserError, match="row 1: truth '6' is the place of no option"):
        truths([{**row, "truth": 6}], truths="place")


def test_whole_numbers_of_a_column_with_a_gap_are_whole() -> None:
    table = "question,option_1,option_2,option_3,truth,id\np,1,2,3,3,10\nq,1,2,,2,11\n"
    rows: Any = pd.read_csv(io.StringIO(table)).to_dict("records")
    found = asked_choices(rows, "here")
    assert [question.choice.options for question in found] == [("1", "2", "3"), ("1", "2")]
    assert [question.choice.truth for question in found] == ["3", "2"]
    words = pd.DataFrame(
        {"question": ["p", "q"], "option_1": "x", "option_2": "y", "option_3": ["z", None], "truth": 1}
    )
    assert truths(words.to_dict("records")) == ["y", "y"]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({**WHALE, "Truth": "a fish"}, "row 1: has two columns 'truth' \\(capitals do not count\\)"),
        ({**WHALE, "options": ["a mammal"], "truth": "b"}, "row 1: has 1 option; give two or more"),
        ({**WHALE, "options": {"text": None}}, "row 1: options .*: `text` and `label` are no lists"),
        ({**WHALE, "options": {"text": ["x", "y"], "label": 3}}, "row 1: options .*: `text` and `label` are no lists"),
    ],
)
def test_what_is_wrong_with_a_row_is_a_plain_line(row: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told) as error:
        asked_choices([row], "here")
    assert "Error" not in str(error.value)


def test_half_a_character_is_named_by_file_and_row(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps({**WHALE, "question": text}) + "\n" for text in ("good?", "\ud800 bad?")))
    with pytest.raises(UserError, match=r"q\.jsonl: row 2: 'question' holds '\\ud800', half of .*; take it out"):
        AskedSource(file=str(path)).questions()


def named(column: str, ids: list[Any], **columns: Any) -> list[tuple[str, Any]]:
    rows = [{**WHALE, "question": f"{i}?", column: name} for i, name in enumerate(ids)]
    found = asked_choices(rows, "here", QuestionColumns(**columns))
    return [(question.choice.id, question.more.get(column)) for question in found]


@pytest.mark.parametrize("column", ["QID", "question_id", "idx", "_id", "Example_ID"])
def test_ids_are_found_and_come_back_under_the_user_s_name(column: str) -> None:
    assert named(column, [7, 9]) == [("7", 7), ("9", 9)]
    assert named("ref", ["x", "y"], id="REF") == [("x", "x"), ("y", "y")]
    assert named("id", ["x", "y"]) == [("x", None), ("y", None)]


def test_a_column_that_may_hold_ids_is_named_and_one_that_repeats_is_none(caplog: pytest.LogCaptureFixture) -> None:
    assert [name for name, _ in named("ref", ["n-1", "n-2"])] == ["q00001", "q00002"]
    assert "if ref does, say so by `questions.columns='{id: ref}'`" in caplog.text
    caplog.clear()
    for column, ids in (("item_id", [1, 1]), ("note", ["two words", "and more"]), ("hard", [0.5, 0.7])):
        assert [name for name, _ in named(column, ids)] == ["q00001", "q00002"]
    assert not caplog.text
    with pytest.raises(UserError, match=r"called 'a' in column 'qid'; .* or name another column by `columns\.id`"):
        named("qid", ["a", "a"])


@pytest.mark.parametrize("option", ["{option}", "{letter}) {option}"])
def test_an_option_is_found_where_it_is_listed_not_where_it_stands_besides(option: str) -> None:
    options = ("A", "a cat", "cat", "Choose")
    choice = Choice("q", "q", "", "Is a cat a cat, or is A a cat?", options, "here")
    form = ChoiceForm(ask="{question}\nChoose: {options}.", option=option, forms=("{option}",))
    for order in rotated(len(options), "all"):
        content = user_turn(choice, form, order)["content"]
        begins = content.index("\nChoose: ") + len("\nChoose: ")
        found = option_positions(choice, form, order)
        ends = []
        for which in order:
            position = found[f"option-{which}"]
            places = [i for i in range(len(content)) if content.startswith(options[which], i)]
            at = places[position.occurrence or 0]
            assert at >= begins
            ends.append(at + len(options[which]))
            assert content[ends[-1]] in ",."  # the end of what is listed
        assert ends == sorted(ends)
    assert option_positions(Choice("q", "q", "", "Which?", options, "here", listed=False), form, (0, 1, 2, 3)) == {}
