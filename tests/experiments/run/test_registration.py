"""What was fixed before anything was read, and what else was tried (METRICS F8)."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from doxascope import UserError
from doxascope.experiments.cli.main import cli
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.registration import FILE, register, registration, siblings, told


def test_a_registration_is_for_one_run_and_cannot_be_changed(tmp_path: Path) -> None:
    experiment, config = load_config("consistency", ["items=4"], "smollm2-135m")
    path = tmp_path / "mine.json"
    digest = register(path, experiment.name, config)
    record = registration(path, experiment.name, config)
    assert record["digest"] == digest
    assert record["registered"]["metric"] == "c2"
    with pytest.raises(UserError, match="written once"):
        register(path, experiment.name, config)
    for changes in (["items=5"], ["items=4", "registered.margin=0.04"]):
        with pytest.raises(UserError, match="was written for another run"):
            registration(path, experiment.name, load_config("consistency", changes, "smollm2-135m")[1])
    path.write_text(json.dumps({**record, "written": "2020-01-01T00:00:00+00:00"}))
    with pytest.raises(UserError, match="its digest is wrong"):
        registration(path, experiment.name, config)
    without = load_config("consistency", ["registered=null"], "smollm2-135m")[1]
    with pytest.raises(UserError, match="register no number"):
        register(tmp_path / "none.json", experiment.name, without)


BEGAN = "2026-01-01T00:00:00+00:00"


def test_siblings_are_the_runs_of_the_same_experiment_and_model(tmp_path: Path) -> None:
    settings = {"experiment": "truth", "model": {"name": "a"}, "seed": 0, "registered": None}
    plan = {"metric": "framing_bias", "method": "asked"}
    for name, changes in {
        "mine": {},
        "again": {"seed": 1},
        "otherwise": {"registered": plan},
        "other-model": {"model": {"name": "b"}},
        "other-experiment": {"experiment": "ask"},
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
        (tmp_path / name / "config.yaml").write_text(json.dumps(settings | changes))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{}")
    assert list(siblings(tmp_path / "mine")) == ["again (seed 1)", "otherwise (registered framing_bias of asked)"]
    assert [line[:19] for line in told(tmp_path / "mine", BEGAN)] == ["It is one of 3 runs"]
    first, second = told(tmp_path / "otherwise", BEGAN)  # whose settings register a number
    assert "within this folder alone" in first
    assert "one of 3 runs" in second


def test_a_page_tells_when_its_number_was_registered(tmp_path: Path) -> None:
    experiment, config = load_config("consistency", ["items=4"], "smollm2-135m")
    (tmp_path / "run").mkdir()
    register(tmp_path / "run" / FILE, experiment.name, config)
    for began, said in (
        ("2020-01-01T00:00:00+00:00", "after anything"),
        ("2999-01-01T00:00:00+00:00", "before anything"),
    ):
        first, second = told(tmp_path / "run", began)
        assert said in first
        assert "No other run" in second


def test_plan_registers_and_says_what_the_claim_takes(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    found = CliRunner().invoke(cli, ["plan", "consistency", "-o", "items=8", "--register", str(path)])
    assert found.exit_code == 0, found.output
    assert path.exists()
    assert "registered: consistency (c2) of free (exact), within 0.05 of 1" in found.output
    assert "a claim takes 60 clusters" in found.output
    assert "this run has 8 of the 60 registered clusters, too few: such a model passes in less than" in found.output
