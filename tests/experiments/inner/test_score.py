"""`doxascope score` of a run that has read inner layers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from doxascope.experiments.cli.main import cli
from doxascope.experiments.runs.folder import RunFolder
from doxascope.experiments.scoring.engine import score_table


def test_layers_are_scored_apart_and_beside_what_the_model_says(
    run_tiny: Callable[..., RunFolder], tmp_path: Path
) -> None:
    folder = run_tiny("run").path
    told = [CliRunner().invoke(cli, ["score", str(path)]).output for path in (folder, folder / "beliefs")]
    assert told[0] == told[1]
    assert "inner layers are not gated here" in told[0]
    scored = score_table(folder / "beliefs")
    views = [f"lens/letters/{lens}@{layer}" for lens in ("raw", "translated") for layer in range(3)]
    assert set(scored.understood.samples) == {"exact/letters", *views}
    found = {(e.group, line.quantity): line.score for e in scored.entries for line in e.lines}
    exact = found["exact/letters", "consistency"]
    stored = json.loads((folder / "scores.json").read_text())["scores"]
    (own,) = [row for row in stored if (row["metric"], row["subset"], row["kind"]) == ("c2", "all", "exact")]
    assert (exact.estimate, exact.n_rows) == pytest.approx((own["estimate"], own["n_rows"]))
    for lens in ("raw", "translated"):  # the last layer says what the model says
        last = found[f"lens/letters/{lens}@2", "consistency"]
        assert (last.estimate, last.n_rows) == pytest.approx((exact.estimate, exact.n_rows), abs=1e-4)
    compared = {frozenset(pair): score for (name, *pair), score in scored.comparisons.items() if name == "consistency"}
    assert set(compared) == {frozenset(("exact/letters", view)) for view in views}
    assert {score.n_rows for score in compared.values()} == {exact.n_rows}
