"""Questions with options: those that come along, those of public benchmarks, and what cannot be asked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doxascope import UserError
from doxascope.experiments.materials.choices.forms import orders
from doxascope.experiments.materials.choices.sources import (
    CATEGORIES,
    NINE_TOPICS,
    RANDOM,
    ChoiceSource,
    load_csqa,
    load_hle,
    load_plain,
    load_truthfulqa,
    split_options,
)
from doxascope.experiments.suite.bscore.config import Distribution


def test_every_topic_has_a_question_of_each_category_and_a_truth_where_there_is_one() -> None:
    questions = load_plain(NINE_TOPICS)
    assert len(questions) == 36
    for topic in {question.topic for question in questions}:
        of_topic = [question for question in questions if question.topic == topic]
        assert [question.category for question in of_topic] == list(CATEGORIES)
        assert len({question.options for question in of_topic}) == 1
    assert sorted({len(question.options) for question in questions}) == [2, 4, 10]
    assert all((question.right is not None) == (question.category in ("easy", "hard")) for question in questions)
    assert pow(7, 222, 10) == next(int(question.truth) for question in questions if question.id == "digits-hard")


@pytest.mark.parametrize("k", range(2, 12))
def test_each_option_stands_in_each_place_equally_often_and_follows_each_other_equally_often(k: int) -> None:
    rows = orders(k)
    assert rows[0] == tuple(range(k))
    assert len({*rows}) == len(rows)
    for place in range(k):
        assert {option: [row[place] for row in rows].count(option) for option in range(k)} == dict.fromkeys(
            range(k), len(rows) // k
        )
    follows = [(row[i], row[i + 1]) for row in rows for i in range(k - 1)]
    assert {follows.count((a, b)) for a in range(k) for b in range(k) if a != b} == {len(follows) // (k * (k - 1))}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"options": ["red", "Red "]}, "are the same"),
        ({"options": ["red"]}, "give two or more"),
        ({"truth": "green"}, "is no option"),
        ({"category": "funny"}, "category 'funny' is unknown; one of subjective, random, easy, hard"),
        ({"category": "random", "truth": "red"}, "has no truth"),
        ({"question": " "}, "has no text"),
        ({"colour": "red"}, "unknown key 'colour'"),
    ],
)
def test_a_question_that_cannot_be_asked_is_named_in_one_line(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    good = {"question": "Which?", "options": ["red", "blue"], "category": "easy", "truth": "red"}
    path = tmp_path / "own.yaml"
    path.write_text(json.dumps([good, {**good, "id": "second", **change}]))
    with pytest.raises(UserError, match=message) as error:
        load_plain(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_benchmark_with_other_columns_is_named_and_twins_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "csqa.jsonl"
    rows = [
        {"question": "q", "choices": {"label": ["A", "B"], "text": ["x", "X"]}, "answerKey": "A"},
        {"question": "q {options} {", "choices": {"label": ["A", "B"], "text": ["x", "{y}"]}, "answerKey": "B"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    twins, question = load_csqa(path)
    assert twins is None
    assert question is not None
    assert question.truth == "{y}"
    path.write_text(json.dumps({"query": "q"}))
    with pytest.raises(UserError, match="has no 'question', only query; needed: question, choices, answerKey"):
        load_csqa(path)
    path.write_text(json.dumps({"question": "q", "choices": ["x", "y"], "answerKey": "A"}))
    with pytest.raises(UserError, match="row 1: is not as csqa has it"):
        load_csqa(path)


def test_the_options_of_a_long_question_are_its_last_list() -> None:
    stem, options = split_options(
        "Vitamin\nA. K. Rowling says\nB. nothing.\n\nAnswer Choices:\nA. one\nand a half\nB. two (B. too)\nC. three"
    )
    assert stem == "Vitamin\nA. K. Rowling says\nB. nothing."
    assert options == ["one\nand a half", "two (B. too)", "three"]


def test_what_has_an_image_or_no_choices_is_left_out(tmp_path: Path) -> None:
    asked = {"question": "Which?\nA. one\nB. two", "answer": "B", "answer_type": "multipleChoice", "image": ""}
    path = tmp_path / "hle.jsonl"
    open_ended = {**asked, "answer_type": "exactMatch", "answer": "two"}
    path.write_text("\n".join(map(json.dumps, [{**asked, "image": "data:"}, open_ended, asked])))
    *others, question = load_hle(path)
    assert others == [None, None]
    assert question is not None
    assert (question.text, question.options, question.truth) == ("Which?", ("one", "two"), "two")
    path.write_text(json.dumps({**asked, "answer": "C"}))
    with pytest.raises(UserError, match="row 1: answer 'C' is the letter of none of its 2 options"):
        load_hle(path)


def test_truthful_questions_are_read_from_their_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('Category,Question,Best Answer,Incorrect Answers\nLaw,"Is it, so?",No; never,"Yes; Often; "\n')
    (question,) = load_truthfulqa(path)
    assert question is not None
    assert (question.options, question.truth, question.topic) == (("No; never", "Yes", "Often"), "No; never", "Law")


def test_a_named_distribution_has_its_moments() -> None:
    p = Distribution(law="gaussian", mean=4.5, sd=1.0, low=0, high=9).probabilities
    assert sum(p) == pytest.approx(1)
    mean = sum(x * q for x, q in enumerate(p))
    assert mean == pytest.approx(4.5)
    assert sum((x - mean) ** 2 * q for x, q in enumerate(p)) == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(ValueError, match="takes `mean` and `sd`"):
        Distribution(law="gaussian", mean=1.0)


def test_the_public_files_can_be_read_and_the_published_sample_is_drawn(public: Callable[[str], Path]) -> None:
    folder = public("bscore").parent
    paper = ChoiceSource(kind="paper", file=str(folder / "bscore" / "bscore_36_questions.json")).choices(36, 0)
    assert len({question.cluster for question in paper}) == 9
    assert sum(not question.listed for question in paper) == 4  # digits are not listed
    assert sum("{options}" in question.text for question in paper) == 32
    rows = json.loads((folder / "csqa" / "bscore_400_sample_rows.json").read_text())["rows"]
    csqa = ChoiceSource(kind="csqa", file=str(folder / "csqa" / "dev_rand_split.jsonl"))
    mmlu = ChoiceSource(kind="mmlu", file=str(folder / "mmlu" / "mmlu_test.jsonl.gz"))
    drawn = [int(question.id.rpartition("-")[2]) for question in csqa.choices(380, 42)]
    assert drawn == [row for row in rows if row in drawn]  # the same rows in their order, less those with twins
    assert len(mmlu.choices(14_000, 0)) == 14_000
    for file in sorted((folder / "bbq").iterdir()):
        question = ChoiceSource(kind="bbq", file=str(file)).choices(1, 0)[0]
        assert (len(question.options), question.category) == (2, RANDOM)
