"""The beliefs of a run that has read inner layers, scored as a table."""

import json

import pytest

from doxascope.experiments.run.folder import RunFolder
from doxascope.metrics.scoring.engine import score_table


def test_layers_are_scored_apart_and_beside_what_the_model_says(whole: RunFolder) -> None:
    folder = whole.path
    scored = score_table(folder / "beliefs")
    assert "inner layers are not gated here" in scored.understood.line
    views = [f"lens/letters/{lens}@{layer}" for lens in ("raw", "translated", "jacobian") for layer in range(3)]
    assert {sample.name for sample in scored.understood.samples} == {"exact/letters", *views}
    found = {(number.name, number.metric): number.score for number in scored.numbers}
    exact = found["exact/letters", "c2"]
    stored = json.loads((folder / "scores.json").read_text())["scores"]
    (own,) = [row for row in stored if (row["metric"], row["subset"], row["kind"]) == ("c2", "all", "exact")]
    assert (exact.estimate, exact.n_rows) == pytest.approx((own["estimate"], own["n_rows"]))
    for lens in ("raw", "translated", "jacobian"):  # the last layer says what the model says
        last = found[f"lens/letters/{lens}@2", "c2"]
        assert (last.estimate, last.n_rows) == pytest.approx((exact.estimate, exact.n_rows), abs=1e-4)
    compared = [number for number in scored.differences if number.metric == "c2_difference"]
    assert {frozenset(number.method.split(" - ")) for number in compared} == {
        frozenset(("letters", view.removeprefix("lens/"))) for view in views
    }
    assert {number.score.n_rows for number in compared} == {exact.n_rows}
