"""From statements to a report card and back into a run, on a tiny model, from the command line."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import ActivationStore
from doxascope.experiments.probing.data import load_runs
from doxascope.experiments.probing.jobs import _owners
from doxascope.experiments.probing.settings import load_job
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.integrity import restore
from doxascope.probes import Probe
from doxascope.probes.report_card import WEAKEST_FIRST

JOB = """
study: {permutations: 19, refits: 20, penalties: [1.0, 100.0], folds: 3, control_draws: 2, transfer: [polarity],
  thresholds: {groups: 5}}
positions: [answer]
"""
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def place(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of twelve facts and a job."""
    from doxascope.experiments.run.config import load_config
    from doxascope.experiments.run.runner import run

    out = tmp_path_factory.mktemp("probing")
    settings = ["items=12", "batch_items=6", "token_budget=4096", "capture.sites=[resid_pre, head_out, resid_post]"]
    run(*load_config("truth", settings, str(tiny_folder)), out / "runs")
    (out / "job.yaml").write_text(JOB)
    return out


@pytest.fixture(scope="module")
def run_folder(place: Path) -> Path:
    return next((place / "runs").iterdir())


def swept(command_line: Call, place: Path, run_folder: Path) -> Path:
    done = command_line("probe", "sweep", "job.yaml", str(run_folder), "--out", "out", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "What this probe reads: " in done.stdout
    return next(path for path in (place / "out").iterdir())


def test_the_rows_are_the_statements_and_their_activations(place: Path, run_folder: Path) -> None:
    loaded = load_runs(load_job(str(place / "job.yaml"), [run_folder]))
    data = loaded.data
    assert len(data.rows) == 48
    assert data.n_groups == 12
    assert loaded.sites == {"statement": "before the question", "answer": "read-out"}
    assert {at.position for at in data.points} == {"statement", "answer"}
    assert data.rows["text"].str.match(r"^(The|It|\d)").all()
    assert not data.rows["text"].str.contains("Is that statement true").any()  # nothing that comes after the position
    assert np.isfinite(data.rows[["exact", "verbal"]].to_numpy()).all()
    store = ActivationStore.open(run_folder)
    rows, values = store.read(layer=1, position="statement")
    i = 17
    at = int(np.flatnonzero(rows["readout_id"] == data.rows["readout_id"][i])[0])
    np.testing.assert_array_equal(data.read(next(p for p in data.points if p.layer == 1))[i], values[at])


def test_each_head_is_a_place_of_its_own(command_line: Call, place: Path, run_folder: Path) -> None:
    chosen = ["sites=[head_out]", "heads=true", "positions=[]"]
    data = load_runs(load_job(str(place / "job.yaml"), [run_folder], chosen)).data
    heads = [at for at in data.points if at.site == "head_out"]
    assert len(heads) == 3 * 4  # layers, heads
    rows, values = ActivationStore.open(run_folder).read(site="head_out", layer=2, position="statement")
    order = [rows["readout_id"].tolist().index(name) for name in data.rows["readout_id"]]
    whole = np.concatenate([data.read(at) for at in heads if at.layer == 2], axis=1)
    np.testing.assert_array_equal(whole, values[order])
    overrides = [part for setting in chosen for part in ("-o", setting)]
    done = command_line("probe", "sweep", "job.yaml", str(run_folder), "--out", "heads", *overrides, cwd=place)
    assert done.returncode == 0, done.stderr
    assert "R2 of heads" in (next((place / "heads").iterdir()) / "report.html").read_text()


def test_heads_that_nothing_reads_are_refused(command_line: Call, place: Path, run_folder: Path) -> None:
    done = command_line("probe", "sweep", "job.yaml", str(run_folder), "-o", "heads=true", cwd=place)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("heads: are those of head_out, which is not read; give sites: [head_out]")


def test_a_sweep_leaves_a_card_a_page_and_a_probe_and_goes_on_where_it_was(
    command_line: Call, place: Path, run_folder: Path
) -> None:
    folder = swept(command_line, place, run_folder)
    card = json.loads((folder / "card.json").read_text())
    assert {claim["verdict"] for claim in card["claims"]} <= {*WEAKEST_FIRST}
    assert set(card["criteria"]) == {"accuracy", "coherence", "uniformity", "use"}
    assert card["added"].keys() == {"exact logit", "verbal belief", "both"}
    page = (folder / "report.html").read_text()
    for words in ("Report card", "false if permutation p", "Controls", "layer-0 embeddings", "Transfer by polarity"):
        assert words in page
    points = sorted((folder / "points").iterdir())
    assert len(points) == 6  # three layers at two positions
    before = (folder / "sweep.json").read_bytes()
    points[0].unlink()
    times = {path: path.stat().st_mtime_ns for path in points[1:]}
    swept(command_line, place, run_folder)
    assert {path: path.stat().st_mtime_ns for path in points[1:]} == times
    assert points[0].exists()
    assert (folder / "sweep.json").read_bytes() == before


def test_a_rival_that_reads_the_same_is_not_beaten(command_line: Call, place: Path, run_folder: Path) -> None:
    given = ("-o", f"rivals={{random weights: {run_folder}}}", "-o", "positions=[]", "--out", "rival")
    done = command_line("probe", "sweep", "job.yaml", str(run_folder), *given, cwd=place)
    assert done.returncode == 0, done.stderr
    card = json.loads((next((place / "rival").iterdir()) / "card.json").read_text())
    assert card["baselines"]["random weights"] == pytest.approx(card["numbers"]["r2"]["value"])
    assert card["numbers"]["above random weights"]["value"] == pytest.approx(0)


def test_an_untrained_model_and_neutral_chat_are_read_once(
    command_line: Call, place: Path, run_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = ("untrained=true", "neutral=100", "positions=[]", "pool=[statement, answer]", "study.seed=1")
    given = [part for setting in chosen for part in ("-o", setting)]
    done = command_line("probe", "sweep", "job.yaml", str(run_folder), *given, "--out", "again", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "reading 48 prompts by an untrained model, once" in caplog.text
    caplog.clear()
    folder = next((place / "again").iterdir())
    card = json.loads((folder / "card.json").read_text())
    assert np.isfinite(card["baselines"]["untrained model of the same shape"])
    assert 0 <= card["numbers"]["recall"]["value"] <= 1
    assert {estimator["estimator"] for estimator in card["estimators"]} >= {"logistic, positions pooled by attention"}
    assert "truths and neutral chat are told apart" in done.stdout
    (untrained,) = (np.load(path)["features"] for path in folder.glob("untrained-*.npz"))
    data = load_runs(load_job(str(place / "job.yaml"), [run_folder])).data
    own = data.read(next(point for point in data.points if point.layer == 1))
    assert untrained.shape == own.shape
    assert np.abs(untrained - own).max() > 0.01
    same_text = data.rows["text"].to_numpy()  # equal tokens are read alike, as by any model
    assert len(np.unique(untrained.round(6), axis=0)) == len(set(same_text))
    command_line("probe", "sweep", "job.yaml", str(run_folder), *given, "--out", "again", cwd=place)
    assert "reading" not in caplog.text


def test_at_the_answer_the_page_says_read_out(command_line: Call, place: Path, run_folder: Path) -> None:
    given = (
        "probe",
        "sweep",
        "job.yaml",
        str(run_folder),
        "--out",
        "late",
        "-o",
        "position=answer",
        "-o",
        "positions=[]",
    )
    done = command_line(*given, cwd=place)
    assert "What this probe reads: read-out" in done.stdout
    folder = next((place / "late").iterdir())
    assert Probe.load(folder / "probe").meta.called == "read-out"
    assert "What this probe reads: read-out" in (folder / "report.html").read_text()


def test_a_probe_gives_a_run_cross_fitted_beliefs_of_kind_probe(
    command_line: Call, place: Path, run_folder: Path, planted_target: Callable[[Path], pd.DataFrame]
) -> None:
    planted_target(run_folder).to_csv(place / "planted.csv", index=False)
    targets = ("-o", "target=planted", "-o", "targets=planted.csv", "-o", "study.penalties=[1.0]")
    done = command_line("probe", "sweep", "job.yaml", str(run_folder), "--out", "planted", *targets, cwd=place)
    assert done.returncode == 0, done.stderr
    (folder,) = (place / "planted").iterdir()
    asked = ("-o", f"probe={folder / 'probe'}")
    done = command_line("probe", "apply", "job.yaml", str(run_folder), *asked, cwd=place)
    assert done.returncode == 0, done.stderr
    table = pd.read_parquet(run_folder / "probes" / "probe.parquet")
    assert set(table["kind"]) == {"probe"}
    assert table.groupby("readout_id")["prob"].sum().to_numpy() == pytest.approx(1)
    probe = Probe.load(folder / "probe")
    rows, values = ActivationStore.open(run_folder).read(layer=probe.meta.layer, position="statement")
    yes = table[table["option_index"] == 0].set_index("of")
    expected = probe.logit(values, yes.loc[rows["readout_id"], "cluster"])
    own = yes.loc[rows["readout_id"], "prob"].to_numpy()
    np.testing.assert_allclose(own, 1 / (1 + np.exp(-expected)))
    assert np.abs(own - probe.readout.predict(values)).max() > 1e-3  # not by the fit that saw them
    scores = json.loads((run_folder / "scores.json").read_text())["scores"]
    assert {row["kind"] for row in scores} >= {"exact", "probe"}
    (effect,) = (row for row in scores if row["metric"] == "query_effect")
    beliefs = pd.concat(map(pd.read_parquet, sorted((run_folder / "beliefs").iterdir())))
    exact = beliefs[(beliefs["kind"] == "exact") & (beliefs["option_index"] == 0)].set_index("readout_id")["prob"]
    assert effect["estimate"] == pytest.approx(float((exact.loc[yes.index] - yes["prob"]).mean()))
    assert "Read by the probe probe" in (run_folder / "report.html").read_text()
    told = command_line("compare", str(run_folder), "--metric", "brier", "--out", "compared", cwd=place)
    assert told.returncode == 0, told.stderr
    compared = json.loads((place / "compared" / "report.json").read_text())
    rows = [row for block in compared["blocks"] for row in block.get("rows", ())]
    pairs = [row for row in rows if row[0] == {"value": "asked - asked/probe", "below": ["brier"]}]
    (record,) = (cell["score"] for row in pairs for cell in row if "score" in cell)
    assert (record["n_rows"], record["details"]["n_only_first"]) == (len(yes), 0)
    truth = beliefs.drop_duplicates("readout_id").set_index("readout_id")["outcome"].loc[yes.index]
    expected = ((exact.loc[yes.index] - truth) ** 2 - (yes["prob"] - truth) ** 2).mean()
    assert record["estimate"] == pytest.approx(float(expected))
    judged = command_line("probe", "eval", "job.yaml", str(run_folder), *asked, *targets, cwd=place)
    assert (judged.returncode, "was trained on every group" in judged.stderr) == (2, True)
    (run_folder / "probes" / "probe.json").unlink()
    refused = command_line("report", str(run_folder), cwd=place)
    assert (refused.returncode, "probe.json" in refused.stderr) == (2, True)
    restore(RunFolder(run_folder))
    assert command_line("report", str(run_folder), cwd=place).returncode == 0
    assert "Read by the probe probe" not in (run_folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["folds=2"], "study.folds: Input should be greater than or equal to 3"),
        (["study.folds=13"], "folds: 13 of 12 groups"),
        (["target=happiness"], "target 'happiness': the rows do not have it"),
        (["site=resid_psot"], "has no site 'resid_psot'; did you mean 'resid_post'"),
        (["position=statment"], "did you mean 'statement'"),
        (["where={domain: month}"], "no read-out has domain 'month'; did you mean 'months'"),
        (["option=maybe"], "option 'maybe': no read-out has it"),
        (["targets=none.csv"], "none.csv: cannot be read"),
        (["name=card"], "name: 'card' is that of a file of the job"),
        (["rivals={bag of words: x}"], "rivals: 'bag of words' is the name of a control"),
    ],
)
def test_a_mistake_is_one_line(
    command_line: Call, place: Path, run_folder: Path, settings: list[str], message: str
) -> None:
    chosen = [
        part
        for setting in settings
        for part in ("-o", setting if "." in setting or "fold" not in setting else f"study.{setting}")
    ]
    done = command_line("probe", "train", "job.yaml", str(run_folder), "--out", "bad", *chosen, cwd=place)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_targets_of_the_user_and_what_they_must_share(command_line: Call, place: Path, run_folder: Path) -> None:
    rows = load_runs(load_job(str(place / "job.yaml"), [run_folder])).data.rows
    ids = rows.drop_duplicates("cluster")["readout_id"].tolist()
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"readout_id": ids[:8], "target": rng.random(8), "group": list("aabbccdd")})
    table.to_csv(place / "mine.csv", index=False)
    given = ("-o", "targets=mine.csv", "-o", "target=target", "--out", "own")
    done = command_line("probe", "train", "job.yaml", str(run_folder), *given, cwd=place)
    assert done.returncode == 0, done.stderr
    meta = Probe.load(next(next((place / "own").iterdir()).glob("probe.json"))).meta
    assert (meta.n_rows, meta.n_groups, meta.target) == (8, 4, "target")
    every = pd.DataFrame({"readout_id": ids, "target": rng.random(len(ids))})
    every.to_csv(place / "new.csv", index=False)
    trained = next(next((place / "own").iterdir()).glob("probe.json"))
    known = ("-o", "targets=new.csv", "-o", "target=target", "-o", f"probe={trained}")
    judged = command_line("probe", "eval", "job.yaml", str(run_folder), *known, cwd=place)
    assert judged.returncode == 0, judged.stderr
    assert "gain in log-loss over the base rate" in judged.stdout
    assert "8 rows of groups that it was trained on are left out" in judged.stdout  # known by the clusters in them
    table.assign(readout_id="nobody").to_csv(place / "mine.csv", index=False)
    done = command_line("probe", "train", "job.yaml", str(run_folder), *given, cwd=place)
    assert "shares no readout_id with the activations" in done.stderr
    twice = (str(run_folder), str(run_folder.parent / ".." / "runs" / run_folder.name))
    assert "is given twice" in command_line("probe", "train", "job.yaml", *twice, cwd=place).stderr


def test_a_probe_is_applied_where_the_job_says(command_line: Call, place: Path, run_folder: Path) -> None:
    folder = swept(command_line, place, run_folder)
    rows = load_runs(load_job(str(place / "job.yaml"), [run_folder])).data.rows
    level = rows["polarity"].iloc[0]
    given = ("probe", "apply", "job.yaml", str(run_folder), "-o", f"probe={folder / 'probe'}", "-o")
    done = command_line(*given, f"where={{polarity: {level}}}", cwd=place)
    assert done.returncode == 0, done.stderr
    table = pd.read_parquet(run_folder / "probes" / "probe.parquet")
    assert set(table["of"]) == set(rows.loc[rows["polarity"] == level, "readout_id"])
    assert len(set(table["of"])) < len(rows)
    wrong = command_line(*given, "where={polarity: sideways}", cwd=place)
    assert wrong.returncode == 2
    assert "where: no read-out has polarity 'sideways'" in wrong.stderr


def test_a_row_is_known_by_its_cluster_or_by_the_group_that_a_table_gives_it(
    command_line: Call, place: Path, run_folder: Path, tmp_path: Path
) -> None:
    """Of the cluster `new` one row is in the table: all of it was seen, since what shares content shares a group."""
    probe = replace(Probe.load(swept(command_line, place, run_folder) / "probe"), fold_of={"old": 0, "ours": 1})
    (tmp_path / "mine.csv").write_text("readout_id,target,group\nb,1,ours\na,0,other\n")
    first = pd.DataFrame({"readout_id": [*"abcd"], "cluster": ["old", "new", "new", "alone"]})
    job = load_job(str(place / "job.yaml"))
    assert [*_owners(first, job, probe)] == [*first["cluster"]]
    known = _owners(first, job.model_copy(update={"targets": tmp_path / "mine.csv"}), probe)
    assert [*known] == ["old", "ours", "ours", "alone"]
