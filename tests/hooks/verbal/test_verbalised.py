import numpy as np
import pandas as pd
import pytest

from doxascope.hooks.generation.generated_texts import GeneratedText
from doxascope.hooks.generation.sampled_beliefs import match_options, match_rows
from doxascope.metrics import counts_to_probabilities
from doxascope.metrics.beliefs import belief_table

NAMES = ("Coral", "shirt", "radio")


def sample(text: str, *, cut: bool = False) -> GeneratedText:
    return GeneratedText("r", 0, (), text, (), "truncated" if cut else "ok")


@pytest.mark.parametrize(
    ("text", "cut", "thinking", "option", "status"),
    [
        ("I chose CORAL.", False, False, 0, "ok"),
        ("coral, yes, coral", False, False, 0, "ok"),
        ("The shirts", False, False, 1, "ok"),
        ("I will not say.", False, False, None, "unparsed"),
        ("", False, False, None, "unparsed"),
        ("Coral or radio", False, False, None, "ambiguous"),
        ("I chose the", True, False, None, "truncated"),
        ("I chose radio because", True, False, 2, "ok"),
        ("Coral, radio", True, False, None, "ambiguous"),
        ("<think>coral or shirt?</think>\n\nRadio.", False, False, 2, "ok"),
        ("coral or shirt?</think>Radio.", False, True, 2, "ok"),
        ("coral?</think>Hm.", False, True, None, "unparsed"),
        ("It is coral.", False, True, None, "unparsed"),
        ("It is coral", True, True, None, "truncated"),
        ("<think>It is coral", True, False, None, "truncated"),
    ],
)
def test_the_string_match_of_the_paper(text: str, cut: bool, thinking: bool, option: int | None, status: str) -> None:
    assert match_options(sample(text, cut=cut), NAMES, thinking=thinking) == (option, status)


def table_of(texts: list[str], low_coverage: float = 0.5) -> pd.DataFrame:
    matches = [match_options(sample(text), NAMES) for text in texts]
    return belief_table({"readout_id": "r"} | row for row in match_rows(matches, NAMES, low_coverage))


def test_counts_are_probabilities_with_an_error() -> None:
    texts = ["coral", "coral", "shirt", "none", "coral and shirt"]
    table = table_of(texts)
    np.testing.assert_allclose(table["prob"] * table["coverage"], counts_to_probabilities([2, 1, 0, 2])[:3])
    np.testing.assert_allclose(table["prob"], [2 / 3, 1 / 3, 0])
    assert set(table["coverage"]) == {0.6}
    assert set(table["status"]) == {"ok"}
    assert set(table_of(texts, 0.7)["status"]) == {"low_coverage"}


@pytest.mark.parametrize(
    ("texts", "status"), [(["a", "b", "coral, shirt"], "unparsed"), (["coral, shirt"], "ambiguous"), ([], "nan")]
)
def test_answers_that_name_nothing_give_no_number(texts: list[str], status: str) -> None:
    table = table_of(texts)
    assert table["prob"].isna().all()
    assert set(table["status"]) == {status}
