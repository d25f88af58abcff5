"""Inner layers in a run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doxascope import UserError
from doxascope.experiments.run.runner import run

FEW = ("items=6", "turns=3", "confidence=null", "per_question=false", "bootstrap_draws=20")


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A few sentences that say no option, and an empty cache."""
    monkeypatch.setenv("DOXASCOPE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(f"A boat lies by the shore, and {'very ' * (i % 7)}few ask why." for i in range(90)))
    return path


def test_layers_have_a_b_beside_the_exact_one(bscore: Callable[..., Any], text: Path, tmp_path: Path) -> None:
    """Questions of two, four and ten options, and named distributions, which judge no layer."""
    experiment, config = bscore(*FEW, f"lens={{text: {text}, layers: [0, -1]}}")
    folder = run(experiment, config, tmp_path)
    rows = json.loads((folder.path / "scores.json").read_text())["scores"]
    inner = {row["subset"]: row for row in rows if row["kind"] == "lens" and row["metric"] == "top_b"}
    assert {"raw@0", "raw@1"} <= set(inner)
    (exact,) = [r for r in rows if r["metric"] == "top_b" and r["subset"] == "exact, as scored inside"]
    last = inner["raw@1"]
    assert abs(last["estimate"] - exact["estimate"]) < 1e-4  # the last layer says what the model says
    assert last["n_rows"] == exact["n_rows"]
    (gate,) = [r for r in rows if r["metric"] == "readout_gate" and r["subset"] == "raw@1"]
    assert (gate["n_dropped"], gate["estimate"]) == (0, pytest.approx(1, abs=1e-4))
    assert "Inner layers: B of the likeliest" in (folder.path / "report.html").read_text()


def test_a_method_without_conversations_is_not_read_inside(bscore: Callable[..., Any], tmp_path: Path) -> None:
    experiment, config = bscore(*FEW, "lens={methods: [letters]}")
    with pytest.raises(UserError, match=r"lens.methods: 'letters' is not read here"):
        run(experiment, config, tmp_path)
