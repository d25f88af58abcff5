"""Truth sets are true, balanced, and refused where they are not."""

import re
from datetime import date, timedelta
from pathlib import Path

import pytest

from doxascope import UserError
from doxascope.probes.statements import Statement, computed_statements, csv_statements, statement_rows


def holds(text: str) -> bool:
    """Whether an affirmed statement is true, worked out from its words alone."""
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    if "plus" in text:
        return numbers[0] + numbers[1] == numbers[2]
    if "days after" in text:
        named = re.findall(
            r"(January|February|March|April|May|June|July|August|September|October|November|December)", text
        )
        first = next(d for d in (date(2001, 1, 1) + timedelta(i) for i in range(365)) if f" {d.day} {d:%B}" in text)
        return f"{first + timedelta(numbers[0]):%B}" == named[-1]
    if "larger" in text:
        return numbers[0] > numbers[1]
    if "number" in text:
        return (numbers[0] % 2 == 0) == ("even" in text)
    if "alphabet" in text:
        first, second = re.findall(r"letter ([A-Z])", text)
        return first < second
    one, other = re.findall(r'"(\w+)"', text)
    return len(one) > len(other)


def test_what_the_program_says_is_true_is_true() -> None:
    statements = computed_statements(240)
    for one in statements:
        assert one.true == (holds(one.text.replace("is not ", "is ")) != one.negated), one.text
    assert len({one.text for one in statements}) == 960
    assert computed_statements(60) == statements[:240]


def test_neither_not_nor_template_nor_domain_tells_what_is_true() -> None:
    rows = statement_rows(computed_statements(600))
    for name in ("polarity", "template", "domain"):
        assert rows.groupby(name)["truth"].mean().between(0.4, 0.6).all()
    assert (rows.groupby("group")["truth"].mean() == 0.5).all()
    assert rows["role"].nunique() == 4


def test_files_of_the_geometry_of_truth(tmp_path: Path) -> None:
    (tmp_path / "cities.csv").write_text(
        "statement,label,city\nThe city of Oslo is in Norway.,1,Oslo\nThe city of Oslo is in Peru.,0,Oslo\n"
    )
    (tmp_path / "neg_cities.csv").write_text(
        "statement,label,city\nThe city of Oslo is not in Norway.,0,Oslo\nThe city of Oslo is not in Peru.,1,Oslo\n"
    )
    files = [tmp_path / "cities.csv", tmp_path / "neg_cities.csv"]
    rows = statement_rows(csv_statements(files))
    assert rows["truth"].tolist() == [1, 0, 0, 1]
    assert rows["negated"].tolist() == [False, False, True, True]
    assert rows.groupby("pair")["readout_id"].size().tolist() == [2, 2]
    assert rows["group"].nunique() == 2
    assert statement_rows(csv_statements(files, "city"))["group"].nunique() == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("statement\nIt is.\n", "has no column 'label'"),
        ("statement,lable\nIt is.,1\n", r"has no column 'label'; did you mean 'lable'\?"),
        ("statement,label\nIt is.,\n", "row 1: label ''; give 0 or 1"),
        ("statement,label\nIt is.,maybe\n", "row 1: label 'maybe'"),
        ("statement,label\nIt is.,1\nIt is.,0\n", "'It is.' is labelled 0 and 1"),
        ("", "cannot be read"),
    ],
)
def test_a_file_that_is_no_truth_set_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(UserError, match=message) as refusal:
        csv_statements([tmp_path / "bad.csv"])
    assert "\n" not in str(refusal.value)


def test_a_statement_is_not_true_and_false_across_files() -> None:
    both = [Statement("It is.", truth, "g", "d") for truth in (True, False)]
    with pytest.raises(UserError, match="labelled true and false"):
        statement_rows(both)
    with pytest.raises(UserError, match="give 1 to 1200"):
        computed_statements(1201)
