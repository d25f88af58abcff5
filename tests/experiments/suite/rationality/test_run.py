"""The experiment from a world to the report, on a tiny random model."""

import json
import shutil
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import UserError
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.runner import run
from doxascope.experiments.suite.locate.config import CovariatePairs
from doxascope.experiments.suite.rationality.learners import out_of_fold
from doxascope.experiments.suite.rationality.samples import actions, detailed, methods, weights

Configured = Callable[..., Any]


def test_actions_are_a_tree_of_two_lines(configured: Configured, tiny_run: RunFolder) -> None:
    _, config = configured()
    table = detailed(tiny_run.beliefs())
    acts = actions(config, table)
    np.testing.assert_allclose(acts.tree.sum(axis=1), 1)
    for i, item in enumerate(acts.items):
        rows = table[(table["item"] == item) & (table["option_index"] == 0)].set_index("readout_id")["prob"]
        forced = []
        for order in (0, 1):
            able, yes, no = (rows[f"{item}/{n}.{order}"] for n in ("line 1", "line 2, Yes", "line 2, No"))
            forced.append(able * yes + (1 - able) * no)
        assert acts.forced[i] == pytest.approx(np.mean(forced))
        defer = 1 - np.mean([rows[f"{item}/line 1.{order}"] for order in (0, 1)])
        assert acts.tree[i, 1] == pytest.approx(defer)
    np.testing.assert_allclose(acts.two.sum(axis=1), 1)
    np.testing.assert_allclose(acts.three.sum(axis=1), 1)


def test_every_method_reads_every_prompt_and_case(configured: Configured, tiny_run: RunFolder) -> None:
    _, config = configured()
    table = detailed(tiny_run.beliefs())
    every = {method.method: method for method in methods(table, actions(config, table).items)}
    assert list(every) == ["words", "letters", "json numbers"]
    for method in every.values():
        assert set(method.readings) == set(config.prompts)
        assert method.cases.shape == (config.items, 3)
    assert every["words"].readings["standard"].shape == (config.items, 4)  # two paraphrases in two orders
    assert np.isfinite(every["json numbers"].spread).all()


def test_the_page_shows_what_was_read(configured: Configured, tiny_run: RunFolder) -> None:
    page = (tiny_run.path / "report.html").read_text()
    for shown in ("Belief against truth", "Is the belief enough?", "true chance", "did: yes"):
        assert shown in page
    named = {(s["metric"], s["method"]) for s in json.loads((tiny_run.path / "scores.json").read_text())["scores"]}
    assert {"sufficiency", "gcm_exact", "cyclic", "lie", "gate"} <= {metric for metric, method in named}
    assert ("latent_truth", "words beyond json numbers") in named


def test_a_run_that_was_killed_ends_with_the_same_bytes(
    configured: Configured, tiny_run: RunFolder, tmp_path: Path, cut_short: Any
) -> None:
    experiment, config = configured()
    begun = tmp_path / tiny_run.path.name
    shutil.copytree(tiny_run.path, begun)
    cut_short(begun, 1)
    for name in ("scores.json", "published.csv", "report.html"):
        (begun / name).unlink()
    resumed = run(experiment, config, tmp_path)
    assert resumed.path == begun
    for name in ("scores.json", "published.csv"):
        assert (resumed.path / name).read_bytes() == (tiny_run.path / name).read_bytes()


def test_lines_and_sampled_answers_are_read_with_their_sum(configured: Configured, tmp_path: Path) -> None:
    said = "said={numbers: [unit lines], sampled: [unit], repetitions: 2, auxiliary: true}"
    experiment, config = configured(said, "items=2", "prompts={standard: ''}", "world={of: asia}", "resamples=5")
    folder = run(experiment, config, tmp_path)
    table = detailed(folder.beliefs())
    every = {method.method: method for method in methods(table, actions(config, table).items)}
    assert np.isfinite(every["unit lines numbers"].excess).all()
    assert every["unit sampled"].readings["standard"].shape == (2, 2)
    states = table[(table["scenario"] == "auxiliary") & (table["kind"] == "verbal")]
    assert (states.groupby("item")["option_index"].nunique() == 2).all()
    of_item = states.groupby("item")[["prob", "stated"]].sum()
    assert of_item["prob"].to_numpy() == pytest.approx(1)
    scores = json.loads((folder.path / "scores.json").read_text())["scores"]
    (excess,) = (row["estimate"] for row in scores if row["metric"] == "stated_excess")
    assert excess == pytest.approx(of_item["stated"].mean() - 1)
    assert weights(table, np.unique(table["item"]))["verbal"].sum(axis=1) == pytest.approx(of_item["stated"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("reveal=[3,1]", "the less first"),
        ("world={of: asai}", "did you mean 'asia'"),
        ("world={of: brfss}", "world.data"),
        ("world={of: net.bif}", "cannot be read"),
        ("prompts={squared: x}", "standard"),
        ("items=5000", "lower items"),
        ("said={numbers: [roman]}", "roman"),
        ("wording.menu='{patient}'", "patient"),
    ],
)
def test_a_users_mistake_is_one_line(configured: Configured, change: str, said: str) -> None:
    def asked() -> None:
        experiment, config = configured(change)
        experiment.items(config)

    with pytest.raises(UserError, match=said) as error:
        asked()
    assert "\n" not in str(error.value)


def test_a_covariate_that_is_exchanged_moves_the_truth_and_nothing_else() -> None:
    pairs = list(islice(CovariatePairs().candidates(0), 12))
    for pair in pairs:
        base, donor = (str(conversation[0]["content"]) for conversation in (pair.base, pair.donor))
        said = pair.spans["covariate"].text
        assert said is not None
        assert said in base
        assert said not in donor
        head = base.index(said)
        assert base[:head] == donor[:head]
        assert base[head + len(said) :].endswith(donor[-40:])
    assert len({pair.base[0]["content"] for pair in pairs}) == 12


def test_inner_layers_answer_to_the_evidence_or_are_barred(configured: Configured, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("\n\n".join(f"It was {i} then, and {i * i % 17} after that." for i in range(30)))
    experiment, config = configured(
        f"lens={{text: {text}, layers: all}}", "prompts={standard: ''}", "said={}", "iterated=false", "world={of: asia}"
    )
    folder = run(experiment, config, tmp_path / "runs")
    table = detailed(folder.beliefs())
    assert set(table[table["scenario"] == "prior"]["kind"]) == {"exact", "lens"}
    scores = json.loads((folder.path / "scores.json").read_text())["scores"]
    inner = [score for score in scores if score["kind"] == "lens" and score["metric"] == "response"]
    assert inner
    assert {score["status"] for score in inner} <= {"ok", "gate_failed", "constant", "too_few"}


@pytest.mark.parametrize(
    ("world", "data"),
    [("quite", "quite/data/cancer0.json"), ("brfss", "brfss2015/diabetes_binary_5050split_BRFSS2015.csv.gz")],
)
def test_public_worlds_are_read_and_scored(
    configured: Configured, public: Callable[[str], Path], tmp_path: Path, world: str, data: str
) -> None:
    experiment, config = configured(
        f"world={{of: {world}, data: '{public(data)}'}}", "said={}", "prompts={standard: ''}", "batch_items=4"
    )
    folder = run(experiment, config, tmp_path)
    table = detailed(folder.beliefs())
    assert len(actions(config, table).items) == config.items
    assert ("case" in set(table["scenario"])) == (world == "brfss")  # queries in words have no covariate to reveal
    assert "Belief against truth" in (folder.path / "report.html").read_text()


def test_a_learner_that_is_not_installed_is_missed_before_anything_is_read(
    configured: Configured, tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "catboost", None)
    experiment, config = configured("learner=catboost")
    with pytest.raises(UserError, match=r"not installed; pip install doxascope\[catboost\], or give -o learner=boost"):
        experiment.read(config, experiment.items(config)[0], tiny)


def test_nothing_to_learn_from_leaves_the_frequencies_and_what_tells_all_leaves_none(configured: Configured) -> None:
    _, config = configured("iterations=20")
    actions, groups = np.tile([0, 0, 1], 20), np.arange(60)
    blind = out_of_fold(config, np.full((60, 1), 0.5), actions, groups)
    assert blind[:, 1] == pytest.approx(1 / 3, abs=0.1)
    seeing = out_of_fold(config, actions[:, None].astype(float), actions, groups)
    assert (seeing[np.arange(60), actions] > 0.9).all()
    once = np.where(np.arange(60) == 7, 1.0, np.nan)  # revealed in one context: the others cannot learn from it
    beside = out_of_fold(config, np.column_stack([actions.astype(float), once]), actions, groups)
    np.testing.assert_allclose(np.delete(beside, 7, axis=0), np.delete(seeing, 7, axis=0))
