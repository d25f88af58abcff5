import json
from dataclasses import replace

import pytest

from doxascope import UserError
from doxascope.hooks.prompts.options import END
from doxascope.hooks.verbal.number_formats import (
    FORMATS,
    INTEGER,
    JSON,
    LINES,
    PERCENT,
    UNIT,
    WrittenNumber,
    count_format,
)
from doxascope.metrics import hybrid_probability


def test_every_form_says_the_value_of_its_number() -> None:
    for number in UNIT.numbers:
        assert {float(form) for form in number.forms} == {number.value}
        assert float(number.name) == number.value
    assert [number.value for number in PERCENT.numbers] == [float(n.forms[0][:-1]) / 100 for n in PERCENT.numbers]
    for number in JSON.numbers:
        for form in number.forms:
            assert json.loads(JSON.labels[0] + form + "}") == {"probability": number.value}
    for n in (1, 7, 10):
        counts = count_format(n).numbers
        read = hybrid_probability([int(number.name) for number in counts], n)
        assert [number.value for number in counts] == read.tolist()


def test_formats_admit_what_they_say() -> None:
    assert [len(one.numbers) for one in (UNIT, INTEGER, PERCENT, JSON, LINES, count_format(10))] == [101] * 5 + [11]
    assert UNIT.spelled["0.3"] is UNIT.spelled["0.30"] is UNIT.numbers[30]
    assert {UNIT.spelled[form].value for form in ("0", "0.0", "0.00")} == {0}
    assert {UNIT.spelled[form].value for form in ("1", "1.0", "1.00")} == {1}
    assert UNIT.spelled.keys().isdisjoint([".3", "0.300", "0,3", "30%", "0.", "2", "10"])
    assert count_format(4).spelled["3/4"].value == 0.75


@pytest.mark.parametrize("name", FORMATS)
def test_no_terminator_goes_on_with_a_number(name: str) -> None:
    for text in FORMATS[name].terminators:
        assert text == END or text.strip(" ")[0] not in "0123456789.,%/-+eE"
        assert text.strip(" ") == text or text == " }"


def test_the_options_are_written_into_instruction_and_labels() -> None:
    worded = LINES.worded("rain", "no rain")
    assert worded.labels == ("no rain: ", "\nrain: ")
    for name in FORMATS:
        instruction = FORMATS[name].worded("rain", "no rain").instruction
        assert '"rain' in instruction
        assert '"no rain' in instruction
        assert "{" not in instruction


def test_what_is_no_format_is_refused() -> None:
    half, third = WrittenNumber("half", 0.5, ("0.5", "1/2")), WrittenNumber("third", 1 / 3, ("1/3", "0.5"))
    with pytest.raises(UserError, match=r"format 'unit': '0.5' says 'half' and 'third'; take one away"):
        replace(UNIT, numbers=(half, third))
    with pytest.raises(UserError, match=r"'much' means 1.5; give a value in \[0, 1\]"):
        replace(UNIT, numbers=(half, WrittenNumber("much", 1.5, ("1.5",))))
    for wrong in ({"numbers": (half,)}, {"labels": ()}):
        with pytest.raises(UserError, match="at least two numbers and a label"):
            replace(UNIT, **wrong)
    with pytest.raises(UserError, match="of 0 times: give at least one"):
        count_format(0)
