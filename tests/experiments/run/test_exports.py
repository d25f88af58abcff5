"""A run as other tools read it: each of them reads it back, with every belief to the bit."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import doxascope
from doxascope import UserError
from doxascope.base.files import file_digest, sealed, unsealed
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.exports.readouts import Exported
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.runner import run
from doxascope.metrics.beliefs import belief_table
from doxascope.metrics.forms.recognition import understand
from doxascope.metrics.tables.harness_logs import inspect_rows
from doxascope.metrics.tables.source import open_table

QUESTIONS = """id,question,option_1,option_2,option_3,truth
whale,What is a whale?,a fish,a mammal,a bird,a mammal
sky,What colour is a clear sky at noon?,blue,green,,blue
odd,Which word comes next?,river,stone,,
"""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Three questions to the chat model in two ways, of two of which the truth is known."""
    folder = tmp_path_factory.mktemp("asked")
    (folder / "questions.csv").write_text(QUESTIONS)
    changes = ["answers=[letters, texts]", "orders=none", "bootstrap_draws=50"]
    return run(*load_config("ask", changes, "smollm2-135m", (), str(folder / "questions.csv")), folder / "runs")


def plain(table: pd.DataFrame) -> pd.DataFrame:
    """Its columns in the order of their names, texts as texts."""
    texts = [name for name in table.columns if isinstance(table[name].dtype, pd.CategoricalDtype)]
    return table[sorted(table.columns)].astype(dict.fromkeys(texts, "str"))


def test_an_inspect_log_has_each_read_out_with_its_scores_and_gives_the_belief_table_back(
    asked: RunFolder, tmp_path: Path
) -> None:
    inspect_log = pytest.importorskip("inspect_ai.log", reason="Inspect is not installed")
    (line,) = doxascope.export(asked, "inspect", tmp_path)
    (file,) = tmp_path.glob("*.eval")
    assert line.startswith(f"{file}: 6 samples, ")
    log = inspect_log.read_eval_log(str(file))
    assert (log.status, log.eval.model) == ("success", "HuggingFaceTB/SmolLM2-135M-Instruct")
    beliefs, said = asked.beliefs(), {line["readout_id"]: line for line in asked.said()}
    assert {sample.uuid for sample in log.samples} == {*beliefs["readout_id"].astype(str)}
    for sample in log.samples:
        own = beliefs[beliefs["readout_id"].astype(str) == sample.uuid]
        best = own.iloc[own["prob"].to_numpy().argmax()]
        assert sample.id == f"{own['item'].iloc[0]}/{own['method'].iloc[0]}"
        assert [message.text for message in sample.messages[:-1]] == [
            message["content"] for message in said[sample.uuid]["messages"]
        ]
        assert sample.scores["likeliest"].value == best["prob"]
        assert sample.messages[-1].text.endswith(str(best["option"]))
        known = own["outcome"].notna().all()
        assert ("correct" in sample.scores) == known
        if known:
            (right,) = own.loc[own["outcome"] == 1, "prob"]
            assert sample.scores["true option"].value == right
    back = belief_table(inspect_rows(file))
    pd.testing.assert_frame_equal(plain(back), plain(beliefs).reset_index(drop=True), check_exact=True)
    named = ("metric", "method", "kind")
    estimates = {" ".join(filter(None, map(number.get, named))): number["estimate"] for number in _numbers(asked)}
    told = {score.name: score.metrics["estimate"].value for score in log.results.scores}
    assert told == estimates
    assert "Each sample is one read-out." in log.eval.metadata["samples"]
    assert understand(file).samples  # and can be scored and compared as it is


def _numbers(folder: RunFolder) -> list[dict[str, Any]]:
    scores = json.loads((folder.path / "scores.json").read_text())["scores"]
    return [score for score in scores if score["estimate"] is not None and score["subset"] == "all"]


def test_records_of_every_eval_ever_pass_its_validator_and_hold_each_answer(asked: RunFolder, tmp_path: Path) -> None:
    doxascope.export(asked, "eee", tmp_path)
    (record,) = tmp_path.glob("data/doxascope-ask/HuggingFaceTB/SmolLM2-135M-Instruct/*[0-9a-f].json")
    answers = record.with_name(f"{record.stem}_samples.jsonl")
    told = json.loads(record.read_text())
    known = {result["evaluation_result_id"]: result["score_details"]["score"] for result in told["evaluation_results"]}
    scores = json.loads((asked.path / "scores.json").read_text())["scores"]
    named = ("metric", "method", "kind", "subset")
    assert known == {
        "/".join(score[key] for key in named): score["estimate"] for score in scores if score["estimate"] is not None
    }
    assert "Each sample is one read-out." in told["source_metadata"]["additional_details"]["samples"]
    known_range = {"accuracy": [0, 1], "brier_multiclass": [0, 2], "log_loss": [0, "Infinity"]}
    for result in told["evaluation_results"]:
        config, uncertainty = result["metric_config"], result["score_details"]["uncertainty"]
        metric = config["metric_id"].removeprefix("doxascope.")
        if metric in known_range:
            assert [config["min_score"], config["max_score"]] == known_range.pop(metric)
        share = "Clopper" in uncertainty.get("confidence_interval", {}).get("method", "")
        assert not (share and "standard_error" in uncertainty)
    assert known_range == {}
    lines = [json.loads(line) for line in answers.read_text().splitlines()]
    assert {line["sample_id"] for line in lines} == {"whale", "sky"}
    beliefs = asked.beliefs()
    rows = belief_table(row for line in lines for row in json.loads(line["metadata"]["rows"]))
    of_known = beliefs[beliefs["readout_id"].isin(rows["readout_id"])]
    shared = [name for name in of_known.columns if name in rows]
    pd.testing.assert_frame_equal(
        plain(rows[shared]), plain(of_known[shared]).reset_index(drop=True), check_exact=True, check_dtype=False
    )
    assert doxascope.export(asked, "eee", tmp_path)  # the same files again
    assert len([*tmp_path.rglob("*.json*")]) == 2
    validator = pytest.importorskip(
        "every_eval_ever.validator.validation_core", reason="every-eval-ever is not installed (it wants Python 3.12)"
    )
    for file, validate in ((record, validator.validate_aggregate), (answers, validator.validate_instance_file)):
        place = str(file.relative_to(tmp_path))
        report = validate(
            file, repo_path=place, available_files={str(path.relative_to(tmp_path)) for path in (record, answers)},
            read_repo_file=lambda name: (tmp_path / name).read_text(), run_semantic_checks=True,
        )  # fmt: skip
        assert report.valid, report.errors
        assert not report.warnings


def test_a_dataset_is_loaded_by_datasets_with_every_belief(asked: RunFolder, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    doxascope.export(asked, "datasets", tmp_path / "set")
    loaded = datasets.load_dataset(str(tmp_path / "set"), "beliefs", split="train", cache_dir=str(tmp_path / "cache"))
    beliefs, back = asked.beliefs(), loaded.to_pandas()
    for name in ("logp", "prob", "coverage", "outcome"):
        assert np.array_equal(back[name].to_numpy(), beliefs[name].to_numpy(), equal_nan=True)
    assert back["readout_id"].tolist() == beliefs["readout_id"].astype(str).tolist()
    spoken = datasets.load_dataset(str(tmp_path / "set"), "transcripts", split="train", cache_dir=str(tmp_path / "c"))
    assert [line["readout_id"] for line in spoken] == [line["readout_id"] for line in asked.said()]
    columns = open_table(tmp_path / "set" / "beliefs.parquet").columns
    assert {"readout_id", "prob", "logp"} <= {*columns}


def test_results_for_a_model_card_are_read_back_by_the_hub_library(asked: RunFolder, tmp_path: Path) -> None:
    from huggingface_hub import ModelCard

    doxascope.export(asked, "model-card", tmp_path)
    card = ModelCard.load(tmp_path / "model-index.md")
    headline = json.loads((asked.path / "scores.json").read_text())["headline"]
    made_for = [number["estimate"] for number in _numbers(asked) if number["metric"] == headline]
    assert made_for
    results: Any = card.data.eval_results  # pyright: ignore
    assert [result.metric_value for result in results] == made_for
    verdicts = json.loads((asked.path / "scores.json").read_text())["lead"]["verdicts"]
    readable = {verdict["method"]: verdict["readable"] for verdict in verdicts}
    assert {result.metric_args["readable"] for result in results} <= {*readable.values()}
    weights = (asked.manifest["conditions"]["model"]["quantisation"] or "").partition(",")[0]
    assert (f"({weights})" in card.data.model_name) == bool(weights)  # pyright: ignore
    assert (f"Read with {weights}" in card.content) == bool(weights)


def _recipe(library: str) -> str:
    """The lines for a tracker on the page of formats."""
    page = (Path(__file__).parents[3] / "docs" / "formats.md").read_text()
    return page.partition(f"import doxascope, {library}\n")[2].partition("```")[0]


@pytest.mark.parametrize("library", ["mlflow", "wandb"])
def test_the_recipes_for_trackers_log_the_numbers(
    library: str, asked: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.chdir(asked.path.parent.parent)
    offline = {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "MLFLOW_ALLOW_FILE_STORE": "true"}
    for name, value in offline.items():
        monkeypatch.setenv(name, value)
    if library == "mlflow":
        tracker.set_tracking_uri((tmp_path / "mlruns").as_uri())
    exec(_recipe(library), {"doxascope": doxascope, library: tracker})
    expected = doxascope.collect("runs").scalars()
    assert "ask/smollm2-135m/letters/accuracy" in expected
    if library == "mlflow":
        told = tracker.get_run(tracker.last_active_run().info.run_id).data.metrics
        assert {name: told[name] for name in expected} == expected
    else:  # its file holds names and values as JSON
        (kept,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
        content = kept.read_bytes()
        assert all(part.encode() in content for item in expected.items() for part in (item[0], json.dumps(item[1])))


def test_what_cannot_be_exported_is_one_line(asked: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'csv': is no format; known: inspect, eee, datasets, model-card"):
        doxascope.export(asked, "csv", tmp_path)
    with pytest.raises(UserError, match="is not a doxascope run"):
        doxascope.export(tmp_path, "eee", tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        doxascope.export(asked, "eee", tmp_path / "file")


@pytest.mark.parametrize(("to", "name"), [("datasets", "README.md"), ("model-card", "model-index.md"), ("inspect", "")])
def test_a_file_of_the_user_is_kept_and_one_of_an_export_is_written_anew(
    asked: RunFolder, to: str, name: str, tmp_path: Path
) -> None:
    if to == "inspect":
        pytest.importorskip("inspect_ai", reason="Inspect is not installed")
    file = tmp_path / (name or f"{asked.path.name}.eval")
    file.write_text(words := "mine\nRead by doxascope last year.")
    with pytest.raises(UserError, match=rf"{file.name}: is not of an export, and would be lost"):
        doxascope.export(asked, to, tmp_path)
    assert [(there.name, there.read_text()) for there in tmp_path.iterdir()] == [(file.name, words)]
    file.unlink()
    for _ in range(2):
        doxascope.export(asked, to, tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("ci_lo", "low", "ci_lo of accuracy is 'low'"), ("n_rows", 2.5, "n_rows of accuracy is 2.5"),
        ("params", None, "params of accuracy is None"), ("estimate", True, "estimate of accuracy is True"),
        ("quantity", 3, "quantity of accuracy is 3"),
    ],
)  # fmt: skip
def test_a_field_of_another_type_is_named(
    asked: RunFolder, field: str, value: object, told: str, tmp_path: Path
) -> None:
    copy = shutil.copytree(asked.path, tmp_path / "copy")
    stored = json.loads((copy / "scores.json").read_text())
    next(score for score in stored["scores"] if score["metric"] == "accuracy")[field] = value
    (copy / "scores.json").write_text(json.dumps(stored))
    record = unsealed(json.loads((copy / "manifest.json").read_text()))
    record["written"]["scores.json"] = file_digest(copy / "scores.json")
    (copy / "manifest.json").write_text(json.dumps(sealed(record)))
    with pytest.raises(UserError, match=rf"copy: scores\.json: {told}; restore the run"):
        doxascope.export(RunFolder(copy), "eee", tmp_path / "out")


def test_a_run_without_its_session_is_refused(asked: RunFolder, tmp_path: Path) -> None:
    shutil.copytree(asked.path, tmp_path / "copy")
    (tmp_path / "copy" / "sessions" / "00001-ended.json").unlink()
    with pytest.raises(UserError, match=r"00001-ended\.json: "):
        doxascope.export(RunFolder(tmp_path / "copy"), "eee", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_name_of_a_run_leads_out_of_the_folder(asked: RunFolder) -> None:
    exported = Exported.of(asked)
    odd = replace(exported, scores={"experiment": "x/../../escaped"}, config={"model": {"hub": "../.."}})
    assert odd.experiment == "x-..-..-escaped"
    assert odd.hub_name.startswith("local/")
    assert exported.hub_name == "HuggingFaceTB/SmolLM2-135M-Instruct"
