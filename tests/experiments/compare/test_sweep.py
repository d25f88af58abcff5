"""Many runs by one command, killed and resumed; and all of them in one table and one figure."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

import doxascope
from doxascope import UserError
from doxascope.base.files import file_digest, sealed, unsealed
from doxascope.base.parallel import ray_cluster
from doxascope.experiments.compare import collection_figures
from doxascope.experiments.compare.collection import COLUMNS, _settings, collect
from doxascope.experiments.compare.collection_figures import STEP, _families, _places, each, lines_of, mark_of
from doxascope.experiments.compare.collection_page import _verdict, page
from doxascope.experiments.compare.combinations import RECORDS, cells_of, finished, load_plan, run_cell
from doxascope.experiments.compare.slurm import _ended
from doxascope.experiments.compare.sweep import sweep
from doxascope.experiments.report.terminal import to_text
from doxascope.experiments.run import worker
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.ray_workers import ray_workers

SEEDS = 2
QUESTIONS = [
    {"id": f"q{i}", "question": f"What comes after {i}?", "options": [str(i + 1), str(i + 7), "none"], "truth": "none"}
    for i in range(9)
]


@pytest.fixture(scope="module")
def place(tiny_folder: Path, save_llama: Any, make_tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan of two experiments on two checkpoints of a model, with two seeds."""
    folder = tmp_path_factory.mktemp("sweep")
    shutil.copytree(tiny_folder, folder / "step-100")
    shutil.copytree(save_llama(make_tokenizer(("which word",) * 3), "other"), folder / "step-200")
    (folder / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS))
    plan = {
        "experiments": {
            "ask": {"questions.file": "q.jsonl", "items": 6, "answers": ["letters"], "orders": "none"},
            "truth": {"items": 5, "capture": None, "stated": {}},
        },
        "models": ["./step-100", "./step-200"],
        "seeds": SEEDS,
        "settings": {"bootstrap_draws": 50},
    }
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan))
    return folder


@pytest.fixture(scope="module")
def study(place: Path) -> Path:
    """The runs of the plan, by a command that was killed and given again."""
    out, command = place / "study", [sys.executable, "-m", "doxascope", "sweep", "plan.yaml", "--out", "study"]
    began = subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, text=True)
    while len(list((out / RECORDS).glob("[!.]*.json"))) < 2:
        assert began.poll() is None, began.stderr and began.stderr.read()
        time.sleep(0.05)
    began.send_signal(signal.SIGKILL)
    began.wait()
    there = {path: path.stat().st_mtime_ns for path in _scored(out)}
    assert 2 <= len(there) < 4 * SEEDS
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True)
    assert f"{4 * SEEDS} runs in study; one table of them: doxascope collect study" in done.stdout
    lines = [line for line in done.stderr.splitlines() if "/" in line]
    assert lines
    assert [line for line in lines if not line.startswith("sweep: ")] == []
    assert lines[-1].startswith(f"sweep: {4 * SEEDS}/{4 * SEEDS} runs")
    assert {path: path.stat().st_mtime_ns for path in there} == there  # what was finished is not run again
    return out


def _scored(out: Path) -> list[Path]:
    """Scores of the runs that are written down as finished."""
    runs = [json.loads(path.read_text())["run"] for path in (out / RECORDS).glob("[!.]*.json")]
    return [out / run / "scores.json" for run in runs]


def test_a_sweep_that_was_killed_ends_with_the_runs_that_one_makes_by_itself(
    study: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    assert len(_scored(study)) == len(set(_scored(study))) == 4 * SEEDS
    own = {"questions.file": "q.jsonl", "items": 6, "answers": ["letters"], "orders": "none", "bootstrap_draws": 50}
    alone = doxascope.run("ask", "./step-200", overrides={**own, "seed": 1}, out="alone")
    same = (study / alone.path.name / "scores.json").read_bytes()
    assert (alone.path / "scores.json").read_bytes() == same
    again = doxascope.sweep("plan.yaml", out=study)  # at once: no model is loaded
    assert {run.path.name for run in again} == {path.parent.name for path in _scored(study)}
    plan = load_plan(["plan.yaml"], {"seeds": 1})
    checkpoint = shutil.copytree(place / "step-200", place / "step-300")
    third = plan.model_copy(update={"models": ("./step-300",), "experiments": {"ask": own}})
    (cell,) = cells_of(third)
    before = cell.key
    os.utime(checkpoint / "model.safetensors", (1, 1))
    assert cell.key == before  # that of the files that were found
    (anew,) = cells_of(third)
    assert anew.key != before  # a checkpoint that was written anew is read anew
    assert finished(anew, study) is None
    (checkpoint / "runs").mkdir()
    (checkpoint / "runs" / "manifest.json").write_text("{}")
    assert cells_of(third)[0].key == anew.key  # runs that lie below a model are no part of it


def test_runs_are_collected_into_one_table_with_seeds_pooled(study: Path) -> None:
    found = collect(study)
    assert list(found.rows.columns) == list(COLUMNS)
    assert set(found.rows["experiment"]) == {"ask", "truth"}
    assert set(found.rows["model"]) == {"step-100", "step-200"}
    assert set(found.rows["seed"]) == set(range(SEEDS))
    assert (found.rows["setting"] == "").all()
    stored = {run.path: json.loads((run.path / "scores.json").read_text())["scores"] for run in found.runs}
    assert len(found.rows) == sum(map(len, stored.values()))
    (one,) = found.pooled.query(
        "experiment == 'ask' and model == 'step-100' and metric == 'log_loss' and subset == 'all'"
    ).to_dict("records")
    rows = found.rows.query("experiment == 'ask' and model == 'step-100' and metric == 'log_loss'")
    assert one["estimate"] == pytest.approx(rows["estimate"].mean())
    assert one["sd"] == pytest.approx(rows["estimate"].std(ddof=1))
    se = np.sqrt((rows["se"] ** 2).mean() + rows["estimate"].var(ddof=1) / SEEDS)
    assert (one["ci_hi"] - one["estimate"]) / se > 1.96
    assert (one["seeds"], one["n"]) == (SEEDS, rows["n"].sum())
    assert one["verdict"] == "unreadable, response not tested, nothing follows on coherence"
    assert found.rows["readable"].eq("unreadable").equals(found.rows["verdict"].str.startswith("unreadable"))
    for metric, of_belief in (("framing_bias", True), ("accuracy", False)):  # what is answered is no belief
        unread = found.named([metric])["readable"].str.contains("unreadable")
        assert unread.any()
        cells, text = found.table(metric).to_numpy().ravel(), to_text(page(found, [metric]))
        assert " ".join(cells).count("†") == unread.sum()
        assert "† unreadable: no belief is measured" in text
        assert "Hollow: cannot be read" in found.plot(metric).caption
        assert [("/unreadable/" in name) for name in found.scalars(metric)] == [of_belief and mark for mark in unread]
    readable = found.rows.assign(readable="readable")
    assert {mark_of(row) for row in each(readable)} == {""}
    table = found.table()
    assert list(table.index) == ["step-100", "step-200"]
    assert {"ask accuracy letters"} < set(table.columns)
    assert found.table("log_loss").shape == (2, 1)
    with pytest.raises(UserError, match="metric 'log_los': no run has it; did you mean 'log_loss'"):
        found.table("log_los")
    assert f"{4 * SEEDS} runs: 2 experiments, 2 models, {SEEDS} seeds" in repr(found)
    assert found.scalars("log_loss")["ask/step-100/letters/log_loss"] == one["estimate"]
    assert len(found.scalars()) == int(found.named()["estimate"].notna().sum())


def test_a_forest_has_models_as_rows_and_lines_run_over_steps_sizes_and_settings(study: Path, tmp_path: Path) -> None:
    found = doxascope.collect(study)
    drawn = found.plot("log_loss")
    drawn.save(tmp_path / "figure.svg")
    assert all(name in (tmp_path / "figure.svg").read_text() for name in ("step-100", "step-200"))
    with pytest.raises(UserError, match=r"a figure is saved as \.svg, \.pdf, \.csv"):
        drawn.save(tmp_path / "figure.png")
    means = found.pooled.query("metric == 'log_loss' and subset == 'all'")["estimate"]
    assert all(f"{value:.8g}" in drawn.data for value in means)
    steps = lines_of(found, ["log_loss"])
    assert steps is not None
    assert steps.title == "Over step"
    assert all(f"{value:.8g}" in steps.data for value in (100, 200, *means))
    assert found.plot("log_loss", over="size").title == "Over size (parameters)"
    with pytest.raises(UserError, match="over 'itmes': is no setting of these runs; did you mean 'items'"):
        found.plot("log_loss", over="itmes")
    rows = found.named(["log_loss"]).assign(setting="orders none, items 6")
    both = pd.concat([rows, rows.assign(setting="orders latin, items 6")])
    for along, names in (("step", {"orders none, items 6, letters"}), ("items", {"step-100, orders none, letters"})):
        drawn_as = _families(both, dict.fromkeys(zip(both["model"], both["setting"], strict=True), 1.0), along)
        assert names < set(drawn_as)
        assert len(drawn_as) == (2 if along == "step" else 4)  # no line joins what differs otherwise
    with pytest.raises(UserError, match="over 'items': fewer than two"):
        found.plot("log_loss", over="items")
    text = to_text(page(found, ["log_loss"]), 120)
    assert "SD" in text
    assert "ask: log_loss" in text


def test_collect_writes_tables_and_a_page_and_leaves_out_what_is_not_whole(
    study: Path, command_line: Callable[..., Any], cut_short: Callable[..., None], tmp_path: Path
) -> None:
    for run in list(study.glob("ask-*"))[:3]:
        shutil.copytree(run, tmp_path / "runs" / run.name)
    cut_short(sorted((tmp_path / "runs").iterdir())[0], 0)
    done = command_line("collect", "runs", "--out", "table", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "is left out: 1 batches are still to be read" in done.stdout.replace("\n", " ")
    written = pd.read_csv(tmp_path / "table" / "runs.csv", keep_default_na=False, na_values=[""])
    kept = pd.read_parquet(tmp_path / "table" / "runs.parquet")
    assert list(written.columns) == list(kept.columns) == list(COLUMNS)
    assert kept["run"].nunique() == 2
    assert written["estimate"].to_numpy() == pytest.approx(kept["estimate"].to_numpy(), nan_ok=True)
    assert "<svg" in (tmp_path / "table" / "report.html").read_text()
    again = command_line("collect", "runs", "--out", "runs", cwd=tmp_path)
    assert again.returncode == 2
    assert "choose another --out" in again.stderr
    empty = command_line("collect", "table", cwd=tmp_path)
    assert (empty.returncode, "is no run, and no folder of runs" in empty.stderr) == (2, True)


def test_a_run_says_what_it_is_of_and_others_name_collect(study: Path, command_line: Callable[..., Any]) -> None:
    first, second, *_ = sorted(study.glob("truth-step-100-*"))
    assert {"experiment", "model", "adapter", "seed"} <= set(pd.read_parquet(first / "scores.parquet").columns)
    table = RunFolder(first).table()
    assert set(table["model"]) == {"step-100"}
    assert RunFolder(first).plot().svg.startswith("<svg")
    refused = command_line("score", str(first), str(second), cwd=study)
    assert refused.returncode == 2
    assert "`doxascope collect` pools seeds" in refused.stderr
    asked = {
        int(yaml.safe_load((run / "config.yaml").read_text())["seed"]): run for run in study.glob("ask-step-100-*")
    }
    other = {
        int(yaml.safe_load((run / "config.yaml").read_text())["seed"]): run for run in study.glob("ask-step-200-*")
    }
    compared = doxascope.compare(asked[0], other[0], asked[1], other[1])
    assert {"metric", "difference", "ci_lo", "finding"} <= set(compared.table().columns)
    assert all(len(repr(record)) < 500 for record in compared.explored)
    index = command_line("ls", "--out", ".", "--html", cwd=study)
    assert index.returncode == 0, index.stderr
    assert all(f"seed {seed}" in (study / "index.html").read_text() for seed in range(SEEDS))


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("ask", "-o", "seed=3"), "-o seed=3: a sweep takes its seeds as --seeds 3"),
        (("ask", "--seeds", "two"), "--seeds two: give how many, or which: --seeds 0,4"),
        (("ask", "--vary", "orders=none"), "--vary orders=none: give a list of values"),
        (("truth", "truth"), "is there twice"),
        (("truth", "--seeds", "1,1"), "is there twice"),
        (("truth", "--seeds", "9000000000"), "seeds: give how many seeds, from 1 to 10,000"),
        (("ask", "truth", "--seeds", "10000"), "are 20,000 runs; at most 10,000 fit"),
        (("truth", "--vary", "items=[many]"), "truth.yaml with items, seed of the sweep: items: "),
        (("truth", "--vary", "experiment=[consistency]"), "setting experiment: truth is one; name consistency"),
        (("truth", "-o", "itms=3"), "did you mean 'items'"),
        (("plan.yaml", "ask"), "plan.yaml: is a plan of a sweep; give it alone"),
        (("truth", "ask", "-m", "./step-100", "--seeds", "2"), "ask on ./step-100, seed 0: questions: none are given"),
        (("truth", "--slurm", "timeout_min=3"), "is for jobs of Slurm; give it with --executor slurm"),
        (("truth", "--executor", "slurm"), "--executor slurm: "),
        (("truth", "--vary", "seed=[1, 2]"), "setting seed: a sweep takes its seeds as --seeds 3"),
        (
            ("truth", "-m", "./step-100", "-m", "./step-200", "-o", "model.trust_remote_code=true"),
            "would allow the code of 2 models; name each: --allow-code",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_line_before_anything_is_run(
    place: Path, command_line: Callable[..., Any], args: tuple[str, ...], told: str
) -> None:
    done = command_line("sweep", *args, "--out", "none", cwd=place)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list((place / "none").glob("*/manifest.json"))


def test_a_file_stands_behind_the_experiment_that_takes_it() -> None:
    plan = load_plan(["ask", "q.jsonl", "truth"], {"models": ["smollm2-135m"]})
    assert plan.experiments == {"ask": {"questions.file": "q.jsonl"}, "truth": {}}
    varied = plan.model_copy(update={"vary": {"orders": ["none", "latin"]}, "experiments": {"ask": {}}})
    assert [getattr(cell.config, "orders", "") for cell in cells_of(varied)] == ["none", "latin"]


def test_a_model_is_loaded_once_for_runs_that_read_what_they_would_alone(
    place: Path, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    whole = worker.open_model

    def counted(spec: Any, **settings: Any) -> Any:
        opened.append(spec.name)
        return whole(spec, **settings)

    monkeypatch.chdir(place)
    monkeypatch.setattr(worker, "open_model", counted)
    plan = load_plan(["plan.yaml"], {"models": ["./step-100"], "seeds": 1})
    made = sweep(plan, tmp_path)
    assert (opened, [run.path.name.split("-")[0] for run in made]) == (["step-100"], ["ask", "truth"])
    first, second = cells_of(plan)
    with worker.sharing_a_model() as shared:
        with shared(first.experiment, first.config) as reads:
            threads = torch.get_num_threads()
            reads.use_threads(threads + 1)  # as one that goes on with a run of another machine
        with shared(second.experiment, second.config) as reads:
            assert reads.began.config.model.threads == torch.get_num_threads() == threads
    for run in made:
        assert (run.path / "scores.json").read_bytes() == (study / run.path.name / "scores.json").read_bytes()


def test_what_fails_is_told_after_the_others_have_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    given = {"experiments": {"truth": {"items": 5}}, "settings": {"capture": None, "stated": {}, "bootstrap_draws": 50}}
    (place / "partly.yaml").write_text(yaml.safe_dump({**given, "models": ["./broken", "./step-100"]}))
    shutil.copytree(place / "step-100", place / "broken", ignore=shutil.ignore_patterns("*.safetensors"))
    with pytest.raises(UserError, match=r"1 of 2 runs failed; the same command goes on with them: truth on ./broken"):
        doxascope.sweep("partly.yaml", out="partly")
    assert len(_scored(place / "partly")) == 1
    (scores,) = _scored(place / "partly")
    scores.write_text("{}")
    with pytest.raises(UserError, match=r"3 of 4 runs failed") as failed:
        doxascope.sweep("partly.yaml", vary={"items": [5, 6]}, out="partly")  # what is damaged stops no other
    named = (
        "truth on ./broken, seed 0, items 5 and truth on ./broken, seed 0, items 6: ",
        "./step-100, seed 0, items 5",
    )
    assert all(name in str(failed.value) for name in named)
    assert "scores.json: is damaged" in str(failed.value)
    assert len(_scored(place / "partly")) == 2


def test_a_run_is_finished_for_the_files_that_it_was_of(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    (place / "few.jsonl").write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS[:3]))
    plan = load_plan(["ask", "few.jsonl"], {"models": ["./step-100"], "settings": {"bootstrap_draws": 50}})
    (cell,) = cells_of(plan)
    run_cell(cell, place / "few")
    assert finished(cells_of(plan)[0], place / "few") is not None
    record = place / "few" / RECORDS / f"{cell.key}.json"
    for elsewhere in (str(place / "study"), "../study", ".."):
        record.write_text(json.dumps(sealed({"run": elsewhere})))
        with pytest.raises(UserError, match="is no name of a run beside it"):
            finished(cell, place / "few")
    (place / "few.jsonl").write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS[3:6]))
    assert finished(cells_of(plan)[0], place / "few") is None
    with pytest.raises(UserError, match=r"1 of 1 runs failed.*was run under other conditions \(dataset"):
        sweep(plan, place / "few")


def test_a_plan_holds_what_is_not_given_beside_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    (place / "empty.yaml").write_text("experiments: [truth]\nmodels: [./step-100]\nseeds: 2\nvary:\n")
    plan = load_plan(["empty.yaml"], {"vary": {"items": [5, 6]}})
    assert len(cells_of(plan)) == 4
    for changes in ({"settings": {"seed": 3}}, {"experiments": {"truth": {"seed": 3}}}):
        with pytest.raises(UserError, match="setting seed: a sweep takes its seeds"):
            cells_of(plan.model_copy(update=changes))
    code = ["model.trust_remote_code=true"]
    (alone, *_) = cells_of(plan, code)
    assert alone.config.model.code_allowed
    both = plan.model_copy(update={"models": ("./step-100", "./step-200")})
    with pytest.raises(UserError, match="would allow the code of 2 models"):
        cells_of(both, code, [place / "step-100"])
    assert len(cells_of(both, code, [place / "step-100", place / "step-200"])) == 8


def test_seeds_of_a_call_take_the_place_of_those_of_a_plan(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(study.parent)
    assert len(doxascope.sweep("plan.yaml", out=study)) == 4 * SEEDS
    assert len(doxascope.sweep("plan.yaml", seeds=1, out=study)) == 4


def test_collect_goes_on_without_what_is_malformed_and_tells_it(study: Path, tmp_path: Path) -> None:
    stored = sorted(study.glob("ask-*"))
    runs = [shutil.copytree(run, tmp_path / "runs" / f"{i}-{run.name}") for i, run in enumerate([*stored, *stored[:2]])]
    (runs[0] / "scores.json").write_text("{}")
    _rewrite(runs[1], lambda record: record["conditions"].pop("model"))
    _rewrite(runs[2], lambda record: record["conditions"]["model"].pop("sampler"))
    _rescore(runs[3], lambda stored: stored.update(scores=[]))
    _rescore(runs[4], lambda stored: (stored.pop("lead"), stored.pop("headline")))
    _rescore(runs[5], lambda stored: [score.update(n_clusters=["many"]) for score in stored["scores"]])
    (tmp_path / "runs" / "other").mkdir()
    (tmp_path / "runs" / "other" / "manifest.json").write_text('{"a": 1}')
    found = collect(tmp_path / "runs")
    assert {run.path.name for run in found.runs} == {runs[i].name for i in (2, 4)}
    told = "\n".join(found.left_out)
    for name, why in (
        (runs[0].name, "is damaged"), (runs[1].name, "KeyError: 'model'"), (runs[3].name, "holds no number"),
        (runs[5].name, "TypeError"), ("other", "is no record with a digest"),
    ):  # fmt: skip
        assert any(name in line and why in line for line in told.splitlines()), (name, told)
    to_text(page(found), 120)
    with pytest.raises(UserError, match="is damaged"):
        collect(runs[4], runs[0])  # what is named itself is needed


def test_a_second_run_of_a_seed_is_told_if_it_is_of_other_conditions(study: Path, tmp_path: Path) -> None:
    run = next(study.glob("ask-step-100-*"))
    copies = [shutil.copytree(run, tmp_path / "runs" / name) for name in ("a", "b", "c")]
    _rewrite(copies[2], lambda record: record["conditions"].update(dataset="another"))
    found = collect(tmp_path / "runs")
    assert {run.path.name for run in found.runs} == {"a", "b"}  # a copy is no other run
    (line,) = found.left_out
    assert f"{copies[2]} is left out: is of the same experiment" in line
    assert "differs in dataset;" in line
    assert len(collect(copies[0], copies[2]).left_out) == 1


def _rewrite(run: Path, change: Callable[[Any], object]) -> None:
    """Another manifest, as whole as the one before."""
    record = unsealed(json.loads((run / "manifest.json").read_text()))
    change(record)
    (run / "manifest.json").write_text(json.dumps(sealed(record)))


def _rescore(run: Path, change: Callable[[Any], object]) -> None:
    """Other scores, as whole as those before."""
    stored = json.loads((run / "scores.json").read_text())
    change(stored)
    (run / "scores.json").write_text(json.dumps(stored))
    digest = file_digest(run / "scores.json")
    _rewrite(run, lambda record: record["written"].update({"scores.json": digest}))


def test_seeds_that_change_nothing_are_one(study: Path, tmp_path: Path) -> None:
    runs = [shutil.copytree(run, tmp_path / run.name) for run in sorted(study.glob("ask-step-100-*"))]
    scores = json.loads((runs[0] / "scores.json").read_text())["scores"]
    again = [score | {"estimate": score["estimate"] and score["estimate"] * (1 + 1e-15)} for score in scores]
    for run in runs[1:]:
        _rescore(run, lambda stored: stored.update(scores=again))  # of items in another order
    found = collect(tmp_path)
    assert set(found.pooled["seeds"]) <= {0, 1}
    assert "ask, step-100: seeds 0, 1 have read the same, and count as one." in found.left_out
    _rescore(runs[1], lambda stored: _number(stored, "log_loss").update(estimate=1.25))
    changed = collect(tmp_path).pooled.query("subset == 'all'").set_index("metric")["seeds"]
    assert changed["log_loss"] == changed["accuracy"] == 2  # a number that agrees by chance is of two seeds


def test_what_all_seeds_withhold_has_their_reason_alone(study: Path, tmp_path: Path) -> None:
    for run in sorted(study.glob("ask-step-100-*")):
        copy = shutil.copytree(run, tmp_path / run.name)
        _rescore(copy, lambda stored: _number(stored, "log_loss").update(estimate=None, status="wordings_disagree"))
    pooled = collect(tmp_path).pooled.query("subset == 'all'").set_index("metric")
    assert pooled["status"]["log_loss"] == "wordings_disagree"


def test_a_verdict_names_the_methods_where_there_are_several(study: Path) -> None:
    rows = collect(study).named(["log_loss"]).assign(verdict="not shown to be readable")
    assert _verdict(rows) == "step-100, step-200: not shown to be readable."
    both = pd.concat([rows, rows.assign(method="texts")])
    assert _verdict(both) == ("letters and texts of step-100, letters and texts of step-200: not shown to be readable.")


def test_a_run_of_all_items_is_called_so(study: Path) -> None:
    several = [run for run in collect(study).runs if run.experiment == "ask"]
    named, _ = _settings([replace(run, settings={"items": str(6 if run.seed else 10**7)}) for run in several])
    assert {run.seed: run.setting for run in named} == {0: "all items", 1: "items 6"}


def _number(stored: Any, metric: str) -> Any:
    return next(score for score in stored["scores"] if score["metric"] == metric and score["subset"] == "all")


def test_a_line_over_a_setting_is_of_one_experiment(study: Path) -> None:
    """Two experiments of the same models, each with other items: none of the points is at the other's place."""
    found = collect(study)
    items = {
        ("ask", "step-100"): "6",
        ("ask", "step-200"): "12",
        ("truth", "step-100"): "5",
        ("truth", "step-200"): "9",
    }
    runs = [replace(run, settings={"items": items[run.experiment, run.model]}) for run in found.runs]
    places, _ = _places(replace(found, runs=runs), "items")
    assert places == {(*group, ""): float(text) for group, text in items.items()}


def test_a_forest_says_how_many_rows_it_does_not_draw(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = collect(study)
    assert "rows the first" not in found.plot("log_loss").caption
    monkeypatch.setattr(collection_figures, "MOST_ROWS", 1)
    assert "Of 2 rows the first 1 are drawn." in found.plot("log_loss").caption


def test_a_step_is_a_word_of_a_name() -> None:
    assert STEP.search("Jupiter-7b") is None
    assert STEP.search("step-3.5-flash") is None
    assert [match[1] for name in ("iter-7", "m_step100", "Checkpoint 2000") if (match := STEP.search(name))] == [
        "7", "100", "2000",
    ]  # fmt: skip


def test_jobs_of_slurm_are_made_by_submitit(place: Path, study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its executor of processes, since there is no cluster here; the runs are those that are made without it."""
    pytest.importorskip("submitit")
    monkeypatch.chdir(place)
    both = load_plan(["plan.yaml"], {"models": ["./step-100", "./gone"], "seeds": 1})
    both = both.model_copy(update={"experiments": {"truth": both.experiments["truth"]}})
    shutil.copytree(place / "step-100", place / "gone", ignore=shutil.ignore_patterns("*.safetensors"))
    with pytest.raises(UserError, match=r"1 of 2 runs failed.*truth on ./gone, seed 0: .*_log\.err"):
        sweep(both, place / "jobs", slurm={"cluster": "local", "timeout_min": 9})
    kept = place / "jobs" / RECORDS / "slurm"
    assert list(kept.glob("*.failed"))
    assert list(kept.glob("*.job")) == []
    for pickled in kept.glob("*_result.pkl"):
        pickled.write_bytes(b"what a stranger put there is not read")
    plan = both.model_copy(update={"models": ("./step-100",)})
    (run,) = sweep(plan, place / "jobs", slurm={"cluster": "local", "timeout_min": 9})  # at once: it is finished
    assert (run.path / "scores.json").read_bytes() == (study / run.path.name / "scores.json").read_bytes()
    shutil.move(kept, place / "elsewhere")
    kept.symlink_to(place / "elsewhere")
    with pytest.raises(UserError, match="slurm: is a link"):
        sweep(plan, place / "jobs", slurm={"cluster": "local"})


def test_workers_of_ray_make_the_same_runs(place: Path, study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install doxascope[ray]")
    monkeypatch.chdir(place)
    plan = load_plan(["plan.yaml"], {"models": ["./step-100"], "seeds": 1})
    clusters: list[int] = []

    def cluster(threads: int) -> Any:
        clusters.append(threads)
        return ray_cluster(None, threads)

    made = sweep(plan, place / "by-ray", workers=ray_workers(1), cluster=cluster)
    assert clusters == [1]  # for both runs
    assert not ray.is_initialized()
    assert [run.path.name.split("-")[0] for run in made] == ["ask", "truth"]
    for run in made:
        assert (run.path / "scores.json").read_bytes() == (study / run.path.name / "scores.json").read_bytes()


def test_a_job_that_the_cluster_does_not_know_is_waited_for_as_long_as_it_may_take(tmp_path: Path) -> None:
    submitit = pytest.importorskip("submitit")
    job = submitit.SlurmJob(tmp_path, "123")  # no cluster here knows it
    (noted := tmp_path / "key.job").write_text("123")
    assert not _ended(job, noted, 60)
    os.utime(noted, (1, 1))
    assert _ended(job, noted, 60)
