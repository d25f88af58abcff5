"""Tables of one's own questions: what is made of each row, and what is refused in a line."""

from pathlib import Path

import numpy as np
import pytest

from doxascope import UserError
from doxascope.experiments.materials.choices.columns import QuestionColumns
from doxascope.experiments.materials.evidence_tables import load_table
from doxascope.experiments.materials.questions import BinaryQuestion


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def single(path: Path) -> list[BinaryQuestion]:
    found = load_table(path)
    assert all(len(group) == 1 for group in found)
    return [group[0] for group in found]


def test_outcomes_are_an_option_a_chance_or_unknown(tmp_path: Path) -> None:
    text = (
        "question,option_yes,option_no,outcome,background\n"
        "Will it rain?,Rain,Dry,rain,Clouds.\nWill it rain?,Rain,Dry,0.25,\nSnow?,Yes,No,,\nSnow?,Yes,No,0,\n"
        "Hail?,Yes,No,B,\n"
    )
    found = single(written(tmp_path / "t.csv", text))
    np.testing.assert_array_equal([question.outcome for question in found], [1, 0.25, np.nan, 0, 0])
    assert [question.cluster for question in found] == ["Will it rain?"] * 2 + ["Snow?"] * 2 + ["Hail?"]
    assert (found[0].background, found[1].background, found[3].provenance) == ("Clouds.", "", "t.csv, row 4")


WIDE = "question,evidence_1,evidence_2,outcome\nA?,one,two,1\nB?,one,,0\n"
LISTED = (
    '{"question": "A?", "evidence": ["one", "two"], "outcome": 1}\n'
    '{"question": "B?", "evidence": ["one"], "outcome": 0}\n'
)
IN_CELLS = 'question,evidence,outcome\nA?,"[""one"", ""two""]",1\nB?,one,0\n'
LONG = "step,question,evidence,outcome\n2,A?,two,1\n1,A?,one,\n1,B?,one,0\n"


@pytest.mark.parametrize(("name", "text"), [("w.csv", WIDE), ("l.jsonl", LISTED), ("c.csv", IN_CELLS), ("s.csv", LONG)])
def test_evidence_is_the_same_in_every_form(tmp_path: Path, name: str, text: str) -> None:
    found = single(written(tmp_path / name, text))
    assert [(question.text, question.evidence, question.outcome) for question in found] == [
        ("A?", ("one", "two"), 1),
        ("B?", ("one",), 0),
    ]
    assert {(question.option_yes, question.option_no) for question in found} == {("Yes", "No")}


def test_a_question_with_several_options_is_asked_for_each_of_them(tmp_path: Path) -> None:
    text = (
        "id,question,option_1,option_2,option_3,truth,evidence_1\n"
        "v,Who did it?,cat,dog,fox,dog,It barks.\nw,Who?,he,she,,A,\n"
    )
    group, (two,) = load_table(written(tmp_path / "t.csv", text))
    assert [(question.id, question.cluster, question.outcome) for question in group] == [
        ("v/cat", "Who did it?", 0),
        ("v/dog", "Who did it?", 1),
        ("v/fox", "Who did it?", 0),
    ]
    assert group[1].text == 'Who did it? The options are: cat; dog; fox. Is it "dog"?'
    assert {question.evidence for question in group} == {("It barks.",)}
    assert (two.option_yes, two.option_no, two.outcome) == ("he", "she", 1)


def test_the_true_posterior_of_each_step(tmp_path: Path) -> None:
    wide = "question,evidence_1,evidence_2,posterior_0,posterior_1,posterior_2\nA?,x,y,.5,.6,.75\n"
    long = "question,step,evidence,posterior\nA?,0,,.5\nA?,1,x,.6\nA?,2,y,.75\n"
    for name, text in (("w.csv", wide), ("l.csv", long)):
        (question,) = single(written(tmp_path / name, text))
        assert question.posterior == (0.5, 0.6, 0.75)


def test_other_names_and_columns_that_are_left_alone(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "q,first,second,gold,notes\nA?,x,y,y,mine\n")
    named = QuestionColumns(question="q", options=("first", "second"), truth="gold")
    ((question,),) = load_table(path, named, ["notes"])
    assert (question.text, question.option_yes, question.option_no, question.outcome) == ("A?", "x", "y", 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question,option_yes\nWell?,Yes\n", "has no column 'option_no', only question, option_yes"),
        ("question,option_yes,option_no\n", "has no rows"),
        ("question,option_yes,option_no\nWell?,Yes,\n", "row 1: has 1 option; give two or more"),
        ("question,option_yes,option_no\nWell?,Yes,yes\nA?,x,y\n", "two options that read the same"),
        ("question,option_yes,option_no\n,Yes,No\n", "row 1: question q00001: has no text"),
        ("text,outcome\nA?,1\nB?,maybe\n", "row 2: truth 'maybe' is no option"),
        ("question,outcome\nA?,7\n", "row 1: question q00001: outcome 7.0; give a number in"),
        ("question,evidnce_1\nA?,x\n", "the column 'evidnce_1' is not used here; did you mean 'evidence_1'"),
        ("question,outcome,answer\nA?,1,No\n", "the column 'answer' is not used here"),
        ("question,evidence_1,evidence_3\nA?,x,y\n", "row 1: has evidence_1, evidence_3, and none between"),
        ("question,evidence_1,evidence_2\nA?,,y\n", "row 1: evidence_1 is empty, and a later one is not"),
        ("question,evidence,evidence_1\nA?,x,y\n", "row 1: has 'evidence' and 'evidence_1'"),
        ("question,step,evidence\nA?,1,x\nA?,1,y\n", "row 2: step 1 of this question is there twice"),
        ("question,step,evidence\nA?,0,x\n", "row 1: step 0 comes before any evidence"),
        ("question,step,evidence\nA?,one,x\n", "row 1: step 'one' is no number"),
        ("question,step,evidence,outcome\nA?,1,x,1\nA?,2,y,0\n", "'outcome' differs between its steps: 1 and 0"),
        ("question,evidence_1,posterior_0\nA?,x,.5\n", "row 1: question q00001: 1 posteriors for 1 pieces of"),
    ],
)
def test_what_is_no_table_of_questions_is_refused_in_a_line(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path / "t.csv", text)
    with pytest.raises(UserError) as error:
        load_table(path)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
