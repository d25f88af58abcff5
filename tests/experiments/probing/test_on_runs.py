"""Probes on runs of other experiments: sites within a message, and trajectories, on a tiny model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from doxascope import UserError
from doxascope.experiments.probing.data import load_runs
from doxascope.experiments.probing.jobs import apply_job, train_job
from doxascope.experiments.probing.rereading import lens_job, option_ids
from doxascope.experiments.probing.settings import load_causal, load_job
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.runner import run

CAPTURE = "capture={sites: [resid_post], layers: all}"
SMALL = ["study.folds=3", "study.penalties=[1.0]"]


@pytest.fixture(scope="module")
def made(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    out = tmp_path_factory.mktemp("runs")

    def make(experiment: str, *settings: str) -> Path:
        chosen = [CAPTURE, "bootstrap_draws=50", *settings]
        return run(*load_config(experiment, chosen, str(tiny_folder)), out).path

    return make


@pytest.fixture(scope="module")
def evidence(made: Callable[..., Path]) -> Path:
    """Urns whose draws are told one by one."""
    urns = ("domains={factual: {kind: computed, make: [urns]}}", "reasoning=[evidence]", "gate_urns=0")
    asks = "methods={words: {ask: ['Your answer, {first} or {second}?', 'Is it {first} or {second}?']}}"
    return made("martingale", "items=6", *urns, asks, "stated={numbers: [of 10]}")


def test_a_folder_of_a_shipped_job_s_name_does_not_stand_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("probe", "causal", "run"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text("experiment: ask\n")
    assert load_job("probe", [Path("run")]).runs == (Path("run"),)
    assert load_job("run").runs == (Path("run"),)
    assert load_job("run").position == load_job("probe-ask").position == "question"
    assert load_causal("causal", [Path("run")]).runs == load_causal("run").runs == (Path("run"),)


def test_what_stands_before_all_that_is_asked_is_before_the_question(made: Callable[..., Path]) -> None:
    """Belief and decision are asked for in one message with the situation: its end knows of neither, that of the
    question does."""
    folder = made("rationality", "items=6", "said.numbers=[]", "iterated=false", "prompts={standard: ''}")
    loaded = load_runs(load_job(str(folder)))
    assert loaded.sites == {"question": "read-out", "situation": "before the question"}
    assert set(loaded.data.rows["scenario"]) == {"belief", "line 1"}
    at = next(point for point in loaded.data.points if point.position == "situation")
    x = loaded.data.read(at)
    for _, own in loaded.data.rows.groupby("item"):
        np.testing.assert_array_equal(x[own.index], np.tile(x[own.index[0]], (len(own), 1)))


def test_along_trajectories_the_lead_is_over_both_kinds_of_belief_and_the_errors_are_taken_out(
    evidence: Path, tmp_path: Path
) -> None:
    folder = evidence
    job = load_job(str(folder), overrides=["target=exact", *SMALL])
    rows = load_runs(job).data.rows
    said = RunFolder.open(folder).beliefs()
    said = said[(said["kind"] == "verbal") & (said["option_index"] == 0)].set_index(["item", "step"])["prob"]
    stated = 1 / (1 + np.exp(-rows["verbal"].to_numpy()))
    expected = [said.loc[item, int(step)] for item, step in zip(rows["item"], rows["step"], strict=True)]
    np.testing.assert_allclose(stated, np.clip(expected, 1e-3, 1 - 1e-3))
    probe = train_job(job, tmp_path)
    apply_job(job.model_copy(update={"probe": probe}), folder)
    scores = json.loads((folder / "scores.json").read_text())["scores"]
    found: dict[str, Any] = {f"{row['metric']} {row['method']}": row for row in scores if row["kind"] == "probe"}
    for method in ("words probe", "of 10 numbers probe"):
        assert found[f"lead {method}"]["n_clusters"] == 6
        assert found[f"query_effect {method}"]["status"] == "few_clusters"
    behind = found["M_behind words probe"]
    table = pd.read_parquet(folder / "probes" / "probe.parquet")
    read = (
        table[(table["option_index"] == 0) & (table["step"] > 0)]
        .drop_duplicates(["item", "step"])
        .sort_values(["item", "step"])
    )
    prior, post = (
        np.concatenate([own["prob"].to_numpy()[part] for _, own in read.groupby("item")])
        for part in (slice(None, -1), slice(1, None))
    )
    assert behind["details"]["M_read"] == pytest.approx(np.polyfit(prior, post - prior, 1)[0])


def test_lenses_read_in_passing_what_a_plain_pass_would_say_there(
    evidence: Path, tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: Callable[[Any], float]
) -> None:
    """Reference: transformers' own logits at the last token of a step, nothing appended."""
    monkeypatch.setenv("DOXASCOPE_CACHE", str(tmp_path))
    (tmp_path / "text").write_text("\n\n".join(f"It was {i} then, and {i * i % 17} after that." for i in range(30)))
    folder = evidence
    lens = f"lens={{layers: [0, 2], text: {tmp_path / 'text'}, jacobian: 4}}"
    assert lens_job(load_job("probe-martingale", [folder], [lens]), folder) == 6 * 7
    table = pd.read_parquet(folder / "passing" / "step.parquet")
    assert set(table["layer"]) == {0, 2}
    said = {line["readout_id"]: line["messages"] for line in RunFolder.open(folder).said()}
    last = table[(table["layer"] == 2) & (table["lens"] == "raw") & (table["option_index"] == 0)]
    yes, _ = option_ids(tiny, ("Yes", "No"))
    for own in last.iloc[::9].to_dict("records"):
        ids = tiny.reader.chat.render(said[own["of"]]).ids[: own["token"] + 1]
        logp = tiny.model(torch.tensor([ids], device=tiny.model.device)).logits[0, -1].log_softmax(-1).cpu()
        expected = float(logp[list(yes)].logsumexp(0))
        assert own["logp"] == pytest.approx(expected, abs=noise(expected))
    rows = json.loads((folder / "scores.json").read_text())["scores"]
    kept = [row for row in rows if row["kind"] == "lens"]
    assert {row["subset"] for row in kept} == {f"{w}@{i}" for w in ("raw", "translated", "jacobian") for i in (0, 2)}
    assert {row["metric"] for row in kept} >= {"readout_gate", "query_effect", "lead", "M_behind"}
    failed = {row["subset"] for row in kept if row["metric"] == "readout_gate" and row["status"] == "gate_failed"}
    assert failed  # a random model answers nothing
    assert {row["status"] for row in kept if row["subset"] in failed} == {"gate_failed"}
    with pytest.raises(UserError, match="'Yes': begins like another"):
        option_ids(tiny, ("Yes", "yes"))
