"""A causal check of a trained probe on a run of a tiny model, from the command line, and what it leaves in the card."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope.base.files import sealed, unsealed
from doxascope.experiments.probing.causal import CausalPlan
from doxascope.experiments.probing.settings import load_causal
from doxascope.experiments.report.html import PART
from doxascope.probes import Probe

JOB = """
target: planted
targets: planted.csv
study: {permutations: 19, refits: 20, penalties: [1.0], folds: 3, control_draws: 2, transfer: [], depth: 0.5,
  thresholds: {groups: 5}}
"""
CAUSAL = """
contexts: 6
neutral: 2
wrong_layer: 2
wrong_position: {at: before, message: 0}
action: {ask: "{question} Bet or pass?", options: [bet, pass], break_even: 0.5}
verbal: {most: 3}
plan: {directions: [pattern, mine], doses: [1.0, 2.0], random: 4, random_contexts: 2, surgery: [0.2, 0.8], refits: 20,
  draws: 100, folds: 3, penalties: [100.0], thresholds: {groups: 5}}
"""
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def place(
    tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory, planted_target: Callable[[Path], pd.DataFrame]
) -> Path:
    """A folder with a run of eight facts, jobs and a direction of somebody else's."""
    from doxascope.experiments.run.config import load_config
    from doxascope.experiments.run.runner import run

    out = tmp_path_factory.mktemp("causal")
    settings = ["items=6", "stated.numbers=[]", "token_budget=4096", "capture.sites=[resid_post]", "bootstrap_draws=50"]
    folder = run(*load_config("truth", settings, str(tiny_folder)), out / "runs").path
    planted_target(folder).to_csv(out / "planted.csv", index=False)
    (out / "job.yaml").write_text(JOB)
    (out / "causal.yaml").write_text(CAUSAL)
    np.save(out / "mine.npy", np.random.default_rng(0).normal(size=32))
    return out


@pytest.fixture
def trained(command_line: Call, place: Path) -> tuple[Path, Path]:
    """The run, and the folder of its probe."""
    folder = next((place / "runs").iterdir())
    if not (place / "out").exists():
        done = command_line("probe", "train", "job.yaml", str(folder), "--out", "out", cwd=place)
        assert done.returncode == 0, done.stderr
    return folder, next((place / "out").iterdir())


def test_the_verdict_goes_into_the_card_and_the_job_goes_on_where_it_was(
    command_line: Call, place: Path, trained: tuple[Path, Path]
) -> None:
    run_folder, probe_folder = trained
    given = (
        "probe",
        "causal",
        "causal.yaml",
        str(run_folder),
        "--out",
        "causal",
        "-o",
        f"probe={probe_folder / 'probe'}",
    )
    given = (*given, "-o", "directions={mine: mine.npy}")
    done = command_line(*given, cwd=place)
    assert done.returncode == 0, done.stderr
    (folder,) = (place / "causal").iterdir()
    found = json.loads((folder / "causal.json").read_text())
    assert f"What this probe reads is used: {found['used']}" in done.stdout
    assert "6 contexts in 6 groups" in done.stdout
    assert {claim["verdict"] for claim in found["claims"]} >= {"evidence against", "not tested"}
    assert found["numbers"]["surgery"]["grid"][1]["read"] == pytest.approx(0.8, abs=0.01)
    gains = found["numbers"]["gains"]
    assert [gains[name]["params"].get("folds") for name in ("pattern", "mine")] == [3, None]
    assert set(found["numbers"]["slopes"]) == {"probe", "exact", "action", "verbal", "coverage"}
    page = (folder / "report.html").read_text()
    for words in ("What this probe reads is used", "Belief surgery", "Erasure", "Dose response", "random directions"):
        assert words in page
    sweep = ("probe", "sweep", "job.yaml", str(run_folder), "--out", "out")
    assert command_line(*sweep, cwd=place).returncode == 0
    card = json.loads((probe_folder / "card.json").read_text())
    assert card["criteria"]["use"] == found["used"] == "evidence against"
    unknown = [claim | {"verdict": "not tested"} if claim["name"] == "used" else claim for claim in card["claims"]]
    forgotten = unsealed(card) | {"criteria": {}, "claims": unknown}
    (probe_folder / "card.json").write_text(json.dumps(sealed(forgotten)))
    whole = (probe_folder / "report.html").read_text()
    assert f"causal gain: {found['claims'][0]['verdict']}" in whole
    (probe_folder / "report.html").write_text(PART.sub(r"<!-- part \1 --><!-- end -->", whole, count=2))
    read = sorted((folder / "read").iterdir())
    assert len(read) == 6 + 2 + 1
    times = {path: path.stat().st_mtime_ns for path in read[1:]}
    read[0].unlink()
    assert command_line(*given, cwd=place).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in read[1:]} == times
    again = json.loads((folder / "causal.json").read_text())
    assert again.pop("probe") == found.pop("probe") | {"called": card["called"]}
    assert again == found
    filled = json.loads((probe_folder / "card.json").read_text())
    assert filled["criteria"]["use"] == found["used"]
    assert {claim["verdict"] for claim in filled["claims"] if claim["name"] == "used"} == {found["used"]}
    assert Probe.load(probe_folder / "probe").meta.called == filled["called"]
    assert (probe_folder / "report.html").read_text() == whole  # as the sweep itself would write it


def test_the_shipped_job_says_what_is_the_default() -> None:
    assert load_causal("causal").plan == CausalPlan()


def test_what_is_wrong_is_one_line(command_line: Call, place: Path, trained: tuple[Path, Path]) -> None:
    run_folder, probe_folder = trained
    chat = place / "chat.txt"
    said = json.loads(next((run_folder / "transcripts").glob("*.jsonl")).read_text().splitlines()[0])
    chat.write_text(f"hello\n{said['messages'][0]['content']}\n")
    np.save(place / "short.npy", np.ones(9))
    probe = f"probe={probe_folder / 'probe'}"
    trained_probe = Probe.load(probe_folder / "probe")
    replace(trained_probe, readout=trained_probe.readout.calibrated(0.0, 0.3)).save(place / "nothing")
    cases = [
        ((f"probe={place / 'nothing'}",), "not tested: probe reads nothing"),
        ((), "a trained probe by -o probe=PATH"),
        ((probe, "plan.dose=3"), "dose: 3 is not one of the doses"),
        ((probe, "plan.doses=[0, 2]"), "plan.doses.0"),
        ((probe, "plan.doses=[.inf, 2]"), "plan.doses.0"),
        ((probe, "plan.doses=[1e400,1]"), "a finite number, given '1e400'\n"),
        ((probe, "where={domain: nothing}"), "no read-out has domain 'nothing'"),
        ((probe, f"neutral_file={chat}"), "neutral: prompt 1 says what context"),
        ((probe, "directions={mine: short.npy}"), "direction 'mine': has 9 entries"),
        ((probe, "wrong_layer=1"), "wrong_layer: 1 is the probe's own layer"),
        ((probe, "contexts=1"), "contexts"),
    ]
    for overrides, told in cases:
        given = [part for setting in overrides for part in ("-o", setting)]
        if not any("directions=" in setting for setting in overrides):
            given += ["-o", "plan.directions=[pattern]"]
        done = command_line("probe", "causal", "causal.yaml", str(run_folder), *given, "--out", "wrong", cwd=place)
        assert done.returncode == 2, (told, done.stdout)
        assert told in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
