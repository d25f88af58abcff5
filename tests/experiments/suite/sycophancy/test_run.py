"""The experiment from the scenarios to the report, on a tiny random model."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from doxascope import load
from doxascope.experiments.materials.scenarios.scenario import write_evidence
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.plan import make_plan
from doxascope.experiments.run.readouts import compile_questions
from doxascope.experiments.run.runner import run
from doxascope.experiments.suite.locate.pairs import MinimalPair
from doxascope.experiments.suite.sycophancy.ask import contexts, in_want, scenario_of, written_evidence
from doxascope.experiments.suite.sycophancy.readings import mean_readings, readings
from doxascope.hooks.exact.option_beliefs import largest_difference

SMALL = ("tasks={worlds: {kind: computed}, morality: {kind: smoke}}", "argument=true", "stated.greedy=[of 10]")
Configured = Callable[..., Any]


@pytest.fixture(scope="module")
def whole(configured: Configured, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Any]:
    """Experiment, configuration and folder of a run with an argument, askers, and every kind of belief."""
    experiment, config = configured(*SMALL)
    return experiment, config, run(experiment, config, tmp_path_factory.mktemp("runs"))


def test_every_context_is_read_by_every_kind(whole: tuple[Any, Any, Any]) -> None:
    experiment, config, folder = whole
    table = mean_readings(readings(folder.beliefs()))
    kinds = dict(zip(table["method"], table["kind"], strict=True))
    assert kinds == {"yes-no": "exact", "of 10 numbers": "verbal", "of 10 greedy": "verbal"}
    asked = {one.name for item in experiment.items(config) for one in contexts(config, scenario_of(item))}
    assert len(asked) == 30 + 12 + 24 + 6 + 8  # beliefs, likelihoods, reliabilities, askers, arguments
    assert (table[table["method"] == "yes-no"].groupby("item").size() == len(asked)).all()
    said = table[table["method"] == "of 10 numbers"]
    assert set(said["involvement"]) == {"third"}
    assert set(said["asker"]) == {"user"}
    assert (said.groupby("item").size() == 15 + 6 + 12 + 4).all()


def test_the_report_shows_the_arms_their_licences_and_the_conversations(whole: tuple[Any, Any, Any]) -> None:
    _, _, folder = whole
    page = (folder.path / "report.html").read_text()
    for text in ("Arms, each against its own base", "Who asks?", "after the user's word", "Updates on evidence"):
        assert text in page, text
    assert page.count("<svg") >= 4
    rows = json.loads((folder.path / "scores.json").read_text())["scores"]
    names = {row["metric"] for row in rows}
    assert {"excess", "excess_user", "licensed_shift", "arm", "persistence", "grether", "gate"} <= names
    assert {"sycophancy_error", "excess_difference", "complement", "noise_floor"} <= names


def test_the_published_tables_are_filled(whole: tuple[Any, Any, Any]) -> None:
    table = pd.read_csv(whole[2].path / "published.csv")
    exact = table[table["read as"] == "yes-no"]
    found = exact.set_index(["table", "column"])["value"]
    arms = [found["Table 1", f"{arm}, No Syc."] for arm in ("Overall", "Flattery", "Conformity")]
    assert arms[0] == pytest.approx(np.mean(arms[1:]))
    assert {"No Evidence, Base", "Argument, Base"} <= set(found["Table 2"].index)
    bars = found["Figure 1"].groupby(lambda name: name.rpartition(", ")[0]).sum()
    assert bars.to_dict() == pytest.approx({"No Syc.": 1, "Syc.": 1, "Syc., flattery": 1})


def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(
    whole: tuple[Any, Any, Any], tmp_path: Path, cut_short: Any
) -> None:
    experiment, config, folder = whole
    part = shutil.copytree(folder.path, tmp_path / folder.path.name)
    cut_short(part, 1)
    for name in ("beliefs/part-00001.parquet", "scores.json"):
        (part / name).unlink()
    run(experiment, config, tmp_path)
    for name in ("scores.json", "published.csv", "transcripts/part-00001.jsonl"):
        assert (part / name).read_bytes() == (folder.path / name).read_bytes()


def test_contexts_share_their_trunk_and_read_as_they_would_alone(configured: Configured, noise: Any) -> None:
    experiment, config = configured(*SMALL)
    plan = make_plan(experiment, config)
    assert plan.tokens_one_by_one > 5 * plan.tokens_run
    item = experiment.items(config)[0]
    with load(config.model) as lm:
        queries = compile_questions(lm.reader, experiment.questions(config, item))
        found, *_ = lm.read(queries, budget=8192)
        for i in (0, len(queries) // 2, len(queries) - 1):
            assert largest_difference(found[i], lm.read_plain(queries[i])) < noise(found[i].logp)


def test_a_capture_reads_the_end_of_every_part(configured: Configured, tmp_path: Path) -> None:
    from doxascope.hooks.store.reader import ActivationStore

    experiment, config = configured("tasks={worlds: {kind: computed}}", "capture={}", "stated={}", "askers=[]")
    folder = run(experiment, config, tmp_path)
    rows = ActivationStore.open(folder.path).rows()
    told = {"trunk", "involvement", "evidence", "testimony", "suppose", "before-question", "question", "answer"}
    assert set(rows["position"]) == told
    places = rows.groupby("position")["token_index"]
    assert places.nunique()["trunk"] == 1  # one trunk, wherever it is read from
    assert places.min()["trunk"] < places.min()["involvement"] < places.max()["question"] < places.max()["answer"]


def test_locate_has_pairs_in_which_only_the_speaker_differs() -> None:
    experiment, config = load_config("locate", ["pairs={of: testimony}", "items=4"])
    for item in experiment.items(config):
        pair = MinimalPair.from_content(item.content)
        base, donor = (one[0]["content"].split("\n\n") for one in (pair.base, pair.donor))
        assert (base[0], base[2]) == (donor[0], donor[2])
        said = base[1].split(" thinks ")[1]
        assert donor[1] == f"I think {said}"
        assert pair.controls["same answer"][0][0]["content"].split("\n\n")[1].endswith(f" believes {said}")
        assert pair.controls["unrelated"][0][0]["content"].split("\n\n")[0] != base[0]


def test_published_data_get_evidence_written_and_reviewed_and_run(
    configured: Configured, public: Callable[[str], Path], tmp_path: Path
) -> None:
    moral, casino = public("moral_stories/full_dev.jsonl"), public("casino/casino_test.json")
    sources: dict[str, Any] = {
        "morality": {"kind": "moral_stories", "file": str(moral)},
        "conversations": {"kind": "casino", "file": str(casino)},
    }
    changes = ("involvement=[third]", "askers=[]", "stated={}", "evidence=[none, for]")
    _, config = configured(f"tasks={json.dumps(sources)}", *changes)
    path = tmp_path / "evidence.yaml"
    with load(config.model) as lm:
        rows = list(written_evidence(lm, in_want(config), config.seed))
    assert len(rows) == 2
    rows = [{**row, "for": row["for"] or "it rained", "against": row["against"] or "it did not"} for row in rows]
    write_evidence(path, [{**row, "reviewed": True} for row in rows])
    sources = {task: {**source, "evidence": str(path)} for task, source in sources.items()}
    experiment, config = configured(f"tasks={json.dumps(sources)}", *changes)
    folder = run(experiment, config, tmp_path)
    told = yaml.safe_load(path.read_text())
    assert {scenario_of(item).evidence["for"] for item in experiment.items(config)} == {row["for"] for row in told}
    table = mean_readings(readings(folder.beliefs()))
    assert np.isfinite(table["belief"]).all()
    assert table["item"].nunique() == 2
