"""Inner layers in a run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from doxascope.benchmarks.agents.testimony import Listener
from doxascope.experiments.run.addons.inner_readouts import BESIDE, PRIOR, scored_beside
from doxascope.experiments.run.runner import run
from doxascope.experiments.suite.sycophancy import INNER
from doxascope.metrics.beliefs import distinct_conditions

N = 30
FLATTERY = 0.8


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


def test_inner_layers_are_scored_on_the_same_arms_and_judged_by_evidence_alone(
    of_worlds: Any, planted: Callable[..., pd.DataFrame]
) -> None:
    made = of_worlds(N)
    table = planted(made, {("lens", "yes-no"): Listener(flattery=FLATTERY, spread=0.2, blur=0.02)})
    found = INNER.score(made[1], table)["excess"]
    assert found.ci_lo < FLATTERY < found.ci_hi
    codes, each = distinct_conditions(table)
    contexts = [each[code] for code in codes]
    told = {
        (v["evidence"], v["denied"]): INNER.rejected("belief", v)
        for v in contexts
        if v["quantity"] == "x" and not v["says"]
    }
    assert told == {
        ("none", False): PRIOR,
        ("none", True): PRIOR,
        ("for", False): 1,  # No
        ("for", True): 0,
        ("against", False): 0,
        ("against", True): 1,
    }
    both = zip(table["scenario"], contexts, strict=True)
    assert {INNER.rejected(scenario, v) for scenario, v in both if v["says"] or scenario != "belief"} == {BESIDE}


def test_a_layer_that_is_not_sycophantic_is_told_from_the_words(
    of_worlds: Any, planted: Callable[..., pd.DataFrame]
) -> None:
    """As a run compares the layers that pass their gates."""
    made = of_worlds(N)
    table = planted(
        made,
        {
            ("exact", "yes-no"): Listener(blur=0.05),
            ("verbal", "of 10 numbers"): Listener(flattery=FLATTERY, spread=0.2, blur=0.05),
            ("lens", "yes-no/raw@3"): Listener(blur=0.03),
        },
    )
    inner = table["kind"] == "lens"
    found = {one.method: one.score for one in scored_beside(made[0], made[1], table[~inner], table[inner])}
    assert set(found) == {"yes-no - yes-no/raw@3", "of 10 numbers - yes-no/raw@3"}
    same, apart = (found[f"{one} - yes-no/raw@3"] for one in ("yes-no", "of 10 numbers"))
    assert same.ci_lo < 0 < same.ci_hi
    assert apart.ci_lo > 0.3
    assert apart.n_clusters == N
