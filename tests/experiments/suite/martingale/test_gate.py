"""The urns that a run reads for its gate alone (METRICS W4)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from doxascope.experiments.run.runner import run
from doxascope.experiments.suite.martingale.readings import readings


def test_a_run_reads_the_urns_of_its_gate_and_nothing_else_of_them(
    configured: Callable[..., Any], tmp_path: Path
) -> None:
    settings = ("domains={review: {kind: smoke}}", "reasoning=[cot]", "items=1", "stated={greedy: [json]}")
    ask = "methods={words: {ask: 'Your answer, {first} or {second}?'}}"
    experiment, config = configured(*settings, ask, "gate_urns=2")
    folder = run(experiment, config, tmp_path)
    beliefs = folder.beliefs()
    urns = readings(beliefs, of_gate=True)
    assert set(urns["item"]) == {"gate-0000", "gate-0001"}
    assert set(urns["kind"]) == {"exact", "verbal"}
    assert urns.groupby(["item", "method"])["truth"].nunique().eq(7).all()  # at the start and after six draws
    assert not set(readings(beliefs)["item"]) & set(urns["item"])
    scores = json.loads((folder.path / "scores.json").read_text())["scores"]
    gates = {row["kind"]: row["details"] for row in scores if row["metric"] == "gate"}
    (withheld,) = gates["exact"]["withheld"].items()
    assert withheld[0] == "items that respond"
    assert withheld[1] in [
        f"5 items are the fewest that are judged, and {n or 'none'} can be read precisely enough" for n in range(3)
    ]
    assert gates["exact"]["responds"] == gates["verbal"]["responds"] == "not tested"
    parsed = gates["verbal"]["conditions"]["valid-answer rate"]
    assert parsed["value"] == 0  # a random model writes no number
    assert gates["verbal"]["readable"] == "not shown"  # of one question that shows nothing
    slopes = {row["kind"]: row for row in scores if row["metric"] == "urn_slope"}
    assert slopes["exact"]["n_clusters"] == 2
    assert not [row for row in scores if "gate" in row["subset"]]
    assert "gate-0000" not in (folder.path / "report.html").read_text()
