"""Inner layers in a run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doxascope.experiments.run.runner import run


def test_layers_have_an_excess_beside_the_exact_one(
    configured: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOXASCOPE_CACHE", str(tmp_path / "cache"))
    few = ("tasks={worlds: {kind: computed}}", "stated={}", "askers=[]", "involvement=[third]", "evidence=[none, for]")
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"Stone {i} lies by the river and nobody asks why." for i in range(60)))
    experiment, config = configured(*few, "items=3", f"lens={{text: {text}, layers: [0, -1]}}")
    folder = run(experiment, config, tmp_path)
    rows = json.loads((folder.path / "scores.json").read_text())["scores"]
    inner = {row["subset"]: row for row in rows if row["kind"] == "lens" and row["metric"] == "excess"}
    assert {"raw@0", "raw@1"} <= set(inner)
    (exact,) = [r for r in rows if r["metric"] == "excess" and r["subset"] == "exact, as scored inside"]
    last = inner["raw@1"]
    assert abs(last["estimate"] - exact["estimate"]) < 1e-4  # the last layer says what the model says
    assert last["n_rows"] == exact["n_rows"]
