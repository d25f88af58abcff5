import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from doxascope import UserError
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.runner import report, run
from doxascope.hooks.backends.libraries import TransformersBackend
from doxascope.hooks.lm import LanguageModel
from doxascope.hooks.model.spec import BACKENDS, resolve_model
from doxascope.hooks.store.commits import rewrite

ONE_METHOD = "methods={free: {forms: ['{option}', '{Option}']}}"


@pytest.fixture(scope="module")
def tiny_folder(tiny_for: Callable[[str], Path]) -> Path:
    """A tiny model that does not spell every prompt."""
    return tiny_for("*")


@pytest.fixture(scope="module")
def sampled(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Any]:
    """Experiment, configuration and folder of a run with a few sampled answers."""
    wanted = ["items=2", "sampled.draws=3", "bootstrap_draws=50"]
    experiment, config = load_config("consistency", wanted, str(tiny_folder))
    return experiment, config, run(experiment, config, tmp_path_factory.mktemp("runs"))


def test_a_run_that_ran_out_of_memory_says_so_and_reads_the_same(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: Any
) -> None:
    experiment, config = load_config("consistency", ["items=2", "bootstrap_draws=50"])
    config = config.model_copy(update={"model": resolve_model(str(tiny_folder))})
    free = run(experiment, config, tmp_path / "free", scored=False)

    whole = TransformersBackend.run

    def short(self: TransformersBackend, pack: Any, **wanted: Any) -> Any:
        if (pack.most or len(pack)) > 600:
            raise torch.OutOfMemoryError
        return whole(self, pack, **wanted)

    monkeypatch.setattr(TransformersBackend, "run", short)
    tight = run(experiment, config, tmp_path / "tight", scored=False)
    before, after = (json.loads((f.path / "manifest.json").read_text())["totals"] for f in (free, tight))
    assert before["halvings"] == 0
    assert after["halvings"] > 0
    assert after["smallest_budget"] < before["smallest_budget"]
    assert after["tokens_run"] <= 1.05 * before["tokens_run"]  # in pieces
    logp = free.beliefs()["logp"]
    np.testing.assert_allclose(tight.beliefs()["logp"], logp, atol=noise(logp))


def test_a_run_with_sampled_answers_and_several_orders_resumes_to_the_same_bytes(
    tiny_folder: Path, tmp_path: Path, cut_short: Any
) -> None:
    wanted = ["items=1", "orders=latin", "batch_items=1", "sampled.draws=3", "sampling.max_new_tokens=8"]
    wanted += [
        "sampled.mentions=['{option}']",
        "temperatures=[0.5]",
        "bootstrap_draws=50",
        "fork.methods=[]",
        ONE_METHOD,
    ]
    experiment, config = load_config("consistency", wanted)
    config = config.model_copy(update={"model": resolve_model(str(tiny_folder))})
    whole = run(experiment, config, tmp_path / "whole").path
    part = shutil.copytree(whole, tmp_path / "part" / whole.name)
    cut_short(part, 1)
    (part / "beliefs/part-00002.parquet").unlink()
    run(experiment, config, tmp_path / "part")
    for name in ("scores.json", "published.csv", "transcripts/part-00002.jsonl"):
        assert (part / name).read_bytes() == (whole / name).read_bytes()
    answers = json.loads((whole / "transcripts/part-00000.jsonl").read_text().splitlines()[0])["answers"]
    assert [answer["draw"] for answer in answers] == list(range(3))


def test_items_that_share_passes_resume_to_the_same_bytes_and_read_those_of_each_alone(
    tiny_folder: Path, tmp_path: Path, cut_short: Any
) -> None:
    wanted = ["together=true", "items=3", "bootstrap_draws=50", "fork.methods=[]", "token_budget=2048", ONE_METHOD]
    experiment, config = load_config("consistency", [*wanted, "batch_items=2"], str(tiny_folder))
    whole = run(experiment, config, tmp_path / "whole")
    part = shutil.copytree(whole.path, tmp_path / "part" / whole.path.name)
    cut_short(part, 1)
    (part / "beliefs/part-00001.parquet").unlink()
    run(experiment, config, tmp_path / "part")
    for name in ("scores.json", "beliefs/part-00001.parquet", "transcripts/part-00001.jsonl"):
        assert (part / name).read_bytes() == (whole.path / name).read_bytes()
    _, alone = load_config("consistency", [*wanted, "batch_items=1"], str(tiny_folder))
    apart = run(experiment, alone, tmp_path / "alone", scored=False)
    assert apart.beliefs()["logp"].to_numpy().tobytes() == whole.beliefs()["logp"].to_numpy().tobytes()


def test_items_of_several_batches_share_passes_once_it_is_known_how_long_they_are(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"q{i},Is it {'very ' * (i % 4)}wet?,yes|no" for i in range(9)]
    (tmp_path / "questions.csv").write_text("\n".join(["id,question,options", *rows]))
    wanted = [
        f"questions.file={tmp_path / 'questions.csv'}",
        "answers=[texts]",
        "together=true",
        "bootstrap_draws=50",
        "token_budget=1024",
    ]
    start, rounds = LanguageModel.start_reading, list[int]()

    def counted(lm: LanguageModel, requests: Any, **settings: Any) -> Any:
        rounds.append(len(requests))
        return start(lm, requests, **settings)

    monkeypatch.setattr(LanguageModel, "start_reading", counted)
    read = {}
    for n in (1, 9):
        experiment, config = load_config("ask", [*wanted, f"batch_items={n}"], str(tiny_folder))
        read[n] = run(experiment, config, tmp_path / str(n), scored=False).beliefs()["logp"].to_numpy().tobytes()
    assert rounds[:2] == [1, 1]
    assert max(rounds[2:-1]) > 1
    assert read[1] == read[9]


def test_sampled_beliefs_stand_beside_the_exact_ones_of_the_same_contexts(sampled: tuple[Any, Any, Any]) -> None:
    beliefs = sampled[2].beliefs()
    free = beliefs[beliefs["scenario"].isin(["prior", "posterior"])].groupby("method")
    contexts = {method: set(rows["readout_id"].str.removesuffix("/sampled")) for method, rows in free}
    assert contexts["free sampled"] == contexts["free"]
    assert set(beliefs.loc[beliefs["method"] == "free sampled", "kind"]) == {"verbal"}
    assert beliefs.loc[beliefs["scenario"] == "posterior", "forced_logp"].notna().any()


def test_the_published_tables_are_all_there(sampled: tuple[Any, Any, Any]) -> None:
    table = pd.read_csv(sampled[2].path / "published.csv")
    assert set(table["table"]) == {f"Table {n}" for n in range(1, 10)} - {"Table 4"}  # words of one window
    free = table[table["read as"] == "free"].set_index(["table", "column"])["value"]
    score = "Consistency, 2 classes"
    assert free["Table 1", score] == pytest.approx((3 * free["Table 5", score] + 6 * free["Table 6", score]) / 9)
    assert free["Table 9", "posteriors"] == 18
    raw = 1 - free["Table 1", "Verbal Error, Prior"]  # each word is rejected as often as the others
    assert free["Table 8", "p invalid prior, Raw"] == pytest.approx(raw / 3)


def test_a_run_through_any_back_end_holds_the_same_beliefs(tiny_folder: Path, tmp_path: Path, noise: Any) -> None:
    experiment, config = load_config("consistency", ["items=1"])
    model = resolve_model(str(tiny_folder))
    tables = {}
    for backend in BACKENDS:
        pytest.importorskip(backend)
        config = config.model_copy(update={"model": model.model_copy(update={"backend": backend})})
        folder = run(experiment, config, tmp_path, scored=False)
        assert folder.manifest["conditions"]["model"]["backend"].startswith(backend)
        tables[backend] = folder.beliefs()
    reference = tables.pop("transformers")
    for table in tables.values():
        np.testing.assert_allclose(table["logp"], reference["logp"], atol=noise(reference["logp"]))


def test_a_run_of_another_version_is_refused(sampled: tuple[Any, Any, Any], tmp_path: Path) -> None:
    experiment, config, made = sampled
    folder = RunFolder(shutil.copytree(made.path, tmp_path / "run"))
    rewrite(folder.path / "commits.jsonl", [{"batch": one["batch"], "files": one["files"]} for one in folder.commits()])
    record = {key: value for key, value in folder.manifest.items() if key != "commits"}
    folder.write_manifest(record)
    with pytest.raises(UserError, match="without its halvings, by another version"):
        report(folder, experiment, config)
    (folder.path / "commits.jsonl").write_text('{"batch": 0, "readouts": 2}\n')
    with pytest.raises(UserError, match="line 1 is of an earlier version, which wrote no digests"):
        report(folder, experiment, config)
    (folder.path / "manifest.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match="of an earlier version, which wrote none"):
        report(folder, experiment, config)
