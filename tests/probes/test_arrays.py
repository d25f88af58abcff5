"""A probe on arrays by one call: what is decodable is found at its layer, groups stay whole, bad arrays are a line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from doxascope import UserError
from doxascope.probes import Probe, probe_arrays

QUICK: dict[str, Any] = {"refits": 20, "permutations": 39, "control_draws": 3}


def data(n_groups: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[n, layers, d] of which layer 1 holds the target, [n] targets, [n] groups of four."""
    rng = np.random.default_rng(0)
    groups = np.repeat([f"fact {i}" for i in range(n_groups)], 4)
    y = rng.integers(0, 2, len(groups))
    x = rng.normal(size=(len(y), 3, 24))
    x[:, 1, 5] += 3.0 * y
    return x, y, groups


def test_a_probe_is_trained_and_judged_by_one_call(tmp_path: Path) -> None:
    x, y, groups = data()
    found = probe_arrays(torch.tensor(x).float(), y, groups, layers=[4, 8, 12], layer=8, before_question=True, **QUICK)
    assert found.probe.meta.layer == 8
    assert found.curve["layer"].tolist() == [4, 8, 12]
    assert found.curve["r2"].to_numpy().argmax() == 1
    assert found.card.verdict("decodable") == "supported"
    assert found.card.verdict("before the question") == "supported"
    evidence = {claim.name: claim.evidence for claim in found.card.claims}
    assert evidence["before the question"].endswith("before the question, as `before_question` says")
    assert "decoded information (60 groups)" in str(found)
    assert set(found.table()["name"]) >= {"decodable", "selective", "used"}
    assert abs(found.probe.readout.direction).argmax() == 5
    found.probe.save(tmp_path / "truth")
    kept = Probe.load(tmp_path / "truth")
    np.testing.assert_array_equal(kept.beliefs(x[:, 1]), found.probe.beliefs(x[:, 1]))
    crossed = found.probe.beliefs(x[:, 1], groups)[:, 0]
    assert np.corrcoef(crossed, found.beliefs)[0, 1] > 0.999


def test_a_group_that_gives_its_target_away_is_of_no_use() -> None:
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(60), 4)
    y, name = rng.integers(0, 2, 60)[groups], rng.normal(size=(60, 40))[groups]
    x = name + 0.01 * rng.normal(size=name.shape)  # each row of a group looks alike, and tells its target by heart
    grouped = probe_arrays(x, y, groups, **QUICK)
    alone = probe_arrays(x, y, range(240), **QUICK)
    assert grouped.study.numbers["r2"].value < 0.1
    assert alone.study.numbers["r2"].value > grouped.study.numbers["r2"].value + 0.2
    assert grouped.card.verdict("decodable") != "supported"


def test_pairs_of_a_true_and_a_false_row_are_not_tested_and_say_why() -> None:
    rng = np.random.default_rng(1)
    y = np.tile([0, 1], 60)
    x = rng.normal(size=(120, 8))
    x[:, 0] += 3 * y
    found = probe_arrays(
        x, y, np.repeat(np.arange(60), 2), before_question=True, beside={"exact": 2.0 * y - 1}, **QUICK
    )
    decodable = found.card.claims[0]
    assert decodable.verdict == "not tested"
    assert "no permutation test; all groups hold the same labels" in decodable.evidence
    assert found.card.headline == "not tested for what it holds (60 groups)"
    assert found.card.verdict("adds to the exact logit") == "not tested"
    assert np.isnan(found.curve["p_max"]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros((4, 2, 2, 2))}, "x: has shape [4, 2, 2, 2]; give [n, d], or [n, layers, d]"),
        ({"x": np.array([["a"]] * 8)}, "x: holds <U1, no numbers"),
        ({"y": np.ones(8)}, "a probe needs targets that differ"),
        ({"y": np.arange(8)}, "target probe"),
        ({"groups": None}, "groups: say by a name for each row which ones share content"),
        ({"groups": np.arange(7)}, "group: has 7 rows, and x 8"),
        ({"layers": [1, 2]}, "layers: 2 different ones for the 1 of x"),
        ({"layer": 3}, "layer 3: is none of those of x: 0"),
        ({"beside": {"tekst": ["a"] * 8}}, "column 'tekst' is unknown; did you mean 'text'?"),
        ({"fold": 3}, "unknown key 'fold'; did you mean 'folds'?"),
    ],
)
def test_arrays_that_do_not_fit_are_one_line(change: dict[str, Any], message: str) -> None:
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {
        "x": rng.normal(size=(8, 3)),
        "y": np.tile([0, 1], 4),
        "groups": np.repeat([0, 1, 2, 3], 2),
    }
    with pytest.raises(UserError) as error:
        probe_arrays(**(given | change))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
