import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxascope.hooks.prompts.options import END
from doxascope.hooks.verbal.number_formats import (
    FORMATS,
    INTEGER,
    JSON,
    LINES,
    PERCENT,
    UNIT,
    NumberFormat,
    Parsed,
    count_format,
    parse_answer,
)
from doxascope.metrics.beliefs import STATUSES

LINES_WORDED = LINES.worded("Yes", "No")


@pytest.mark.parametrize(
    ("told", "text", "values"),
    [
        (UNIT, "0.3", (0.3,)),
        (UNIT, "0.30\n", (0.3,)),
        (UNIT, "0.35\n\nThe reason is that 3 of 4 agree.", (0.35,)),
        (UNIT, " 1 ", (1,)),
        (UNIT, "0\n\n0.00", (0,)),
        (INTEGER, "100\n", (1,)),
        (INTEGER, "7", (0.07,)),
        (PERCENT, "30%", (0.3,)),
        (JSON, '{"probability": 0.25}', (0.25,)),
        (JSON, '{"probability":0.25 }', (0.25,)),
        (JSON, '{"probability": 1.0}\nI am sure.', (1,)),
        (LINES_WORDED, "No: 30\nYes: 70", (0.3, 0.7)),
        (LINES_WORDED, "No: 30\nYes: 60\n", (0.3, 0.6)),
        (count_format(10), "7 out of 10", (0.7,)),
        (count_format(10), "7/10", (0.7,)),
        (count_format(10), "10", (1,)),
        (count_format(3), "1", (1 / 3,)),
    ],
)
def test_answers_that_follow_their_format(told: NumberFormat, text: str, values: tuple[float, ...]) -> None:
    assert parse_answer(text, told) == Parsed(values, "ok")


@pytest.mark.parametrize(
    ("told", "text", "status"),
    [
        # numbers that are none of the format's
        (UNIT, "3/4", "unparsed"),
        (UNIT, "seventy percent", "unparsed"),
        (PERCENT, "seventy percent", "unparsed"),
        (PERCENT, "70 percent", "unparsed"),
        (UNIT, "70%", "unparsed"),
        (PERCENT, "70", "unparsed"),
        (UNIT, "0.5.", "unparsed"),
        (UNIT, ".5", "unparsed"),
        (UNIT, "0.333", "unparsed"),
        (UNIT, "0.300", "unparsed"),
        (UNIT, "0,7", "unparsed"),
        (UNIT, "7e-1", "unparsed"),
        (UNIT, "1e-3", "unparsed"),
        (UNIT, "+0.7", "unparsed"),
        (UNIT, "0. 7", "unparsed"),
        (UNIT, "00.7", "unparsed"),
        (UNIT, "0.7°", "unparsed"),
        (UNIT, "0\uff0e7", "unparsed"),
        (UNIT, "\uff10.\uff17", "unparsed"),
        (INTEGER, "\u0663\u0660", "unparsed"),
        (INTEGER, "\u00bd", "unparsed"),
        (INTEGER, "1\u00b2", "unparsed"),
        (INTEGER, "30.0", "unparsed"),
        (INTEGER, "1,000", "unparsed"),
        (UNIT, "nan", "unparsed"),
        (UNIT, "inf", "unparsed"),
        (UNIT, "true", "unparsed"),
        (UNIT, "0x1", "ambiguous"),
        (UNIT, "**0.7**", "unparsed"),
        (UNIT, "0.7 (70%)", "unparsed"),
        # beyond the scale
        (PERCENT, "110%", "out_of_range"),
        (PERCENT, "-5%", "out_of_range"),
        (UNIT, "-0.2", "out_of_range"),
        (UNIT, "1.01", "out_of_range"),
        (UNIT, "70", "out_of_range"),
        (INTEGER, "101\n", "out_of_range"),
        (count_format(10), "11", "out_of_range"),
        (count_format(10), "11 out of 10", "out_of_range"),
        (JSON, '{"probability": 1.61}', "out_of_range"),
        (LINES_WORDED, "No: 30\nYes: 170", "out_of_range"),
        # several numbers
        (UNIT, "0.3 or 0.7", "ambiguous"),
        (UNIT, "0.3-0.5", "ambiguous"),
        (PERCENT, "between 20% and 30%", "ambiguous"),
        (INTEGER, "30 to 40", "ambiguous"),
        (INTEGER, "3/4", "ambiguous"),
        (UNIT, "0.00 to 1.00", "ambiguous"),
        (INTEGER, "0\n25\n50\n75\n100", "ambiguous"),
        (UNIT, "0.3\n0.7", "ambiguous"),
        (JSON, '{"probability": 0.3}\n{"probability": 0.7}', "ambiguous"),
        (LINES_WORDED, "No: 30\nYes: 70\nNo: 70\nYes: 30", "ambiguous"),
        # the form without an answer, or another
        (UNIT, "Options: Yes, No\nAnswer with a number.", "unparsed"),
        (LINES_WORDED, "Yes: 70\nNo: 30", "ambiguous"),
        (LINES_WORDED, "No: 30 Yes: 70", "ambiguous"),
        (LINES_WORDED, "No: 30", "unparsed"),
        (LINES_WORDED, "No: 30\n\nYes: 70", "ambiguous"),
        (JSON, '{"probability": 0.3', "unparsed"),
        (JSON, '{"probability": "0.3"}', "unparsed"),
        (JSON, '{"belief": 0.3}', "unparsed"),
        (JSON, '{"probability": 0.3, "why": "no idea"}', "unparsed"),
        (JSON, "{'probability': 0.3}", "unparsed"),
        (JSON, '{"probability": null}', "unparsed"),
        (JSON, '```json\n{"probability": 0.3}\n```', "unparsed"),
        (JSON, "0.3", "unparsed"),
        (UNIT, "The answer is 0.7", "unparsed"),
        (UNIT, "Answer: 0.7", "unparsed"),
        (UNIT, "\n0.7", "unparsed"),
        (UNIT, "", "unparsed"),
        (UNIT, " \n ", "unparsed"),
        (UNIT, "Yes", "unparsed"),
        # words in place of a number
        (UNIT, "I'm sorry, but I can't put a number on that.", "refused"),
        (UNIT, "I can\u2019t answer.", "refused"),
        (UNIT, "As an AI language model, 0.5 would be arbitrary.", "refused"),
        (INTEGER, "I do not wish to say", "unparsed"),
        (UNIT, "Ich kann das nicht beantworten.", "unparsed"),
        (UNIT, "soixante-dix pour cent", "unparsed"),
        (UNIT, "\u4e03\u6210", "unparsed"),
    ],
)
def test_answers_that_are_no_number(told: NumberFormat, text: str, status: str) -> None:
    said = parse_answer(text, told)
    assert (said.values, said.status) == ((), status)


@pytest.mark.parametrize(
    ("told", "text", "status"),
    [
        (UNIT, "0.3", "truncated"),  # 0.35?
        (UNIT, "0.3\nBecau", "ok"),
        (UNIT, "To solve this problem,", "truncated"),
        (UNIT, "", "truncated"),
        (UNIT, "I cannot give a", "refused"),
        (JSON, '{"probability": 0.3', "truncated"),
        (LINES_WORDED, "No: 30\nYes: 7", "truncated"),
        (LINES_WORDED, "No: 30\nYes: 70\nand", "ok"),
    ],
)
def test_answers_that_were_cut_off(told: NumberFormat, text: str, status: str) -> None:
    assert parse_answer(text, told, ended=False).status == status


# What SmolLM2-135M-Instruct wrote at temperature 1 when it was asked about balls in an urn, judged by hand.
WRITTEN = [
    (UNIT, "A mathematician might give the answer 0.01125 - 1.00001 = 0.01002", "unparsed"),
    (UNIT, "The probability of drawing a ball that is either red or blue is 0.5 for the given scenario.", "unparsed"),
    (UNIT, "Not more probable.", "unparsed"),
    (INTEGER, "1\n", "ok"),
    (INTEGER, "100 = the largest possible value of the answer based on the given constraints.", "unparsed"),
    (INTEGER, "Integer: 1\n", "unparsed"),
    (INTEGER, "Seatran: Yes. 10000\n", "unparsed"),
    (INTEGER, "Numbers can only be fractions or decimals (10 in this specific scenario). So the answer must be 1 in "
     "those categories.", "ambiguous"),
    (INTEGER, "```\n", "unparsed"),
    (PERCENT, "To find out the probability of drawing a red ball out of 10 balls is 0%, equating to 0% chance.",
     "unparsed"),
    (PERCENT, "From 0% to 110% chance, the fair", "unparsed"),
    (PERCENT, "1\n", "unparsed"),
    (JSON, '{"probability": 0.75281153981633474}', "unparsed"),
    (JSON, '{"probability":<number from 0 to 1>}', "ambiguous"),
    (JSON, '{"probability": 3.141592653489661}', "out_of_range"),
    (JSON, '{"probability": 0.999..}', "unparsed"),
    (JSON, '{"probability": false}', "unparsed"),
    (JSON, '{"probability": 0.918                     }', "unparsed"),
    (JSON, '{"probability": 1/2, 2087}', "unparsed"),
    (JSON, '{"probability": 0.7}', "ok"),
    (JSON, '{"probability":0.1152, "sdvamp":0.98527E[1]}', "unparsed"),
    (LINES_WORDED, "No: <number from 0 to 100>\nYes: <number from 0 to 100>", "ambiguous"),
    (LINES_WORDED, "No: [1/5]\nYes: [1/4]", "ambiguous"),
    (LINES_WORDED, "No: blue is the answer, 193.15% of 10 would be 193.15%. Yes: 19", "ambiguous"),
    (LINES_WORDED, "No: 200\nCorrectly: This answer has an equality", "out_of_range"),
    (LINES_WORDED, "No: []", "unparsed"),
    (LINES_WORDED, "No: (0.5 * 100) becomes 5%\nYes: 1.5 * 100 = 15%\n", "unparsed"),
    (count_format(10), 'You cannot, as "Was it red?"', "refused"),
    (count_format(10), 'No, in 10 cases, the answer "Yes" is 1.', "ambiguous"),
    (count_format(10), "10 is indeed impossible to translate into a number without a fractional part", "unparsed"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "text", "status"), WRITTEN)
def test_answers_that_a_model_wrote(told: NumberFormat, text: str, status: str) -> None:
    said = parse_answer(text, told)
    assert said.status == status
    assert bool(said.values) == (status == "ok")


@pytest.mark.parametrize("name", FORMATS)
def test_every_form_is_read_before_every_terminator(name: str) -> None:
    told = FORMATS[name].worded("Yes", "No")
    first = "".join(label + told.numbers[3].forms[0] for label in told.labels[:-1]) + told.labels[-1]
    for number in told.numbers:
        for form in number.forms:
            for end in told.terminators:
                said = parse_answer(first + form + end.replace(END, ""), told)
                assert (said.status, said.values[-1]) == ("ok", number.value)


@given(st.text(alphabet='0123456789.%/-{}":proaityNoYes \n\u0663\uff17', max_size=24), st.sampled_from(list(FORMATS)))
def test_whatever_is_written_is_a_form_or_no_number(text: str, name: str) -> None:
    told = FORMATS[name].worded("Yes", "No")
    for beginning in ("", told.labels[0]):
        said = parse_answer(beginning + text, told)
        assert said.status in STATUSES
        if said.status == "ok":
            assert len(said.values) == len(told.labels)
            bare = (beginning + text).replace(" ", "")
            forms = [form for form, number in told.spelled.items() if number.value == said.values[0]]
            assert any(bare.startswith((told.labels[0] + form).replace(" ", "")) for form in forms)
        else:
            assert not said.values
