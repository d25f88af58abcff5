"""Worked cases by other hands: every case of the files through the public names, where they are here."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import metrics

DATA = Path(os.environ.get("DOXASCOPE_DATA", Path(__file__).parents[2] / "../shared/data"))
FOLDER = DATA.parent / "cases"
FILES = ("metrics.json", "metrics_2.json")
OPTIONS = {
    "HC3": {"se": "HC3"},
    "cluster": {"se": "CR1"},
    "wild_cluster": {"p": "wild"},
}
"""What a case says in brackets -> the arguments of the function."""
TEXTS = {"NaN": np.nan, "Inf": np.inf, "-Inf": -np.inf}


@cache
def cases() -> list[dict[str, Any]]:
    found = [json.loads(path.read_text())["cases"] for name in FILES if (path := FOLDER / name).is_file()]
    return [case for file in found for case in file if not case["spec"].startswith("P")]  # those of probes are theirs


def numbers(value: Any) -> Any:
    """A value of a case, its texts for what JSON cannot say as numbers."""
    if isinstance(value, dict):
        return {key: numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [numbers(one) for one in value]
    return TEXTS.get(value, value) if isinstance(value, str) else value


def told(score: Any, name: str, alone: bool) -> Any:
    """A field of a result; of a function that returns a bare number or array, the one field that there is."""
    if hasattr(score, "as_dict"):
        return score.as_dict()[name] if name in score.as_dict() else getattr(score, name)
    if hasattr(score, name):
        return getattr(score, name)
    assert alone, f"the result has no {name}"
    return score


@pytest.mark.skipif(not cases(), reason="the worked cases are not beside the data (DOXASCOPE_DATA)")
@pytest.mark.parametrize("case", cases(), ids=[case["id"] for case in cases()])
def test_a_worked_case(case: dict[str, Any]) -> None:
    name, _, option = case["fn"].removesuffix("]").partition("[")
    expected = numbers(case["expected"])
    inputs = numbers(case["inputs"])
    how = {"how": metrics.Resampling(level=inputs.pop("conf"))} if "conf" in inputs else {}
    score = getattr(metrics, name)(**inputs, **how, **OPTIONS.get(option, {}))
    for field, value in expected.items():
        own = told(score, field, len(expected) == 1)
        if isinstance(value, str | bool) or value is None:
            assert own == value, field
        elif isinstance(value, dict):
            assert own.keys() == value.keys(), field
            np.testing.assert_allclose([own[key] for key in value], list(value.values()), rtol=0, atol=case["tol"])
        elif isinstance(value, list) and value and isinstance(value[0], str):
            assert list(own) == value, field
        else:
            np.testing.assert_allclose(own, value, rtol=0, atol=case["tol"], err_msg=field)


def test_the_values_of_a_case_are_read_as_they_are_meant() -> None:
    assert np.isnan(numbers({"a": [0.5, "NaN"]})["a"][1])
    assert numbers(["Inf", "-Inf", "ok"]) == [np.inf, -np.inf, "ok"]
