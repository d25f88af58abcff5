"""Steering as a job: what it reads is what edits give, controls are what they are called, files are read or refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

import doxascope
from doxascope import Steer, UserError, Vector
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.plan import make_plan
from doxascope.experiments.suite.steer import SteerExperiment, _over_draws
from doxascope.experiments.suite.steer.directions import OWN, ways
from doxascope.metrics.number import Number
from doxascope.probes import probe_arrays

QUESTIONS = (
    "id,question,option_1,option_2,negation\n"
    "a,apple stone which,river,apple,apple stone\nb,which word did you choose,stone,word,you choose\n"
)
STATEMENTS = "statement,label\napple stone river,1\nwhich river did,0\nriver apple you,1\nchoose did which,0\n"
WIDTH, LAYERS = 32, 3


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "questions.csv").write_text(QUESTIONS)
    (tmp_path / "statements.csv").write_text(STATEMENTS)
    return tmp_path


def settings(place: Path, model: str, **changes: Any) -> Any:
    given = {"questions.file": str(place / "questions.csv"), "layers": [1], **changes}
    return load_config("steer", model=model, settings=given)[1]


def test_a_run_has_what_edits_give(place: Path, tiny_folder: Path, tiny: Any) -> None:
    direction = np.random.default_rng(0).normal(size=WIDTH)
    np.savez(place / "truth.npz", direction)
    changes = {
        "questions.file": str(place / "questions.csv"),
        "direction.file": str(place / "truth.npz"),
        "layers": [1],
        "strengths": [0.5],
        "controls": {"random": 2, "orthogonal": 0, "shuffled": 0},
        "bootstrap_draws": 50,
    }
    run = doxascope.run("steer", str(tiny_folder), overrides=changes, out=place / "runs")
    plan, ran = make_plan(*load_config("steer", model=str(tiny_folder), settings=changes)), run.manifest["totals"]
    assert plan.tokens_run == ran["tokens_run"]  # with its edited branches
    answers = pd.read_csv(run.path / "answers.csv")
    assert set(answers["alpha"]) == {0.0, 0.5, -0.5}
    assert set(answers["direction"].dropna()) == {"direction", "random"}
    asked = "apple stone which\nAnswer with one of: river, apple."
    more = {
        name: [Steer(Vector(direction, name), strength=k, layers=1, at="prompt")] for name, k in (("up a bit", 0.5),)
    }
    found = tiny.beliefs(asked, ["river", "apple"], edits=more)
    expected = found.beliefs[found.beliefs["option"] == "river"]["prob"].to_numpy()
    own = answers[(answers["id"] == "a") & (answers["scenario"] == "asked")].set_index(["direction", "alpha"])["prob"]
    read = np.ravel([own[np.nan, 0.0], own["direction", 0.5]])  # by some versions of pandas each is a column
    np.testing.assert_allclose(read, expected, atol=1e-5)
    scores = run.table().set_index(["metric", "method", "subset"])["estimate"]
    by_item = answers[answers["direction"] == "direction"].pivot_table(
        index=["id", "scenario"], columns="alpha", values="prob"
    )
    by_item = by_item.xs("asked", level="scenario")
    assert scores["shift", "layer 1, direction", "all"] == pytest.approx(((by_item[0.5] - by_item[-0.5]) / 2).mean())
    assert ("beyond", "layer 1, random", "alpha 0.5") in scores.index
    assert {"gap_change", "coverage_change", "neutral_kl", "change", "gate"} <= {metric for metric, *_ in scores.index}
    assert "Dose" in (run.path / "report.html").read_text()


def test_without_neutral_chats_everything_else_is_scored(place: Path, tiny_folder: Path) -> None:
    np.savez(place / "truth.npz", np.ones(WIDTH))
    changes = {
        "questions.file": str(place / "questions.csv"),
        "direction.file": str(place / "truth.npz"),
        "layers": [1],
        "neutral": False,
        "bootstrap_draws": 50,
    }
    run = doxascope.run("steer", str(tiny_folder), overrides=changes, out=place / "runs")
    metrics = {score["metric"] for score in json.loads((run.path / "scores.json").read_text())["scores"]}
    assert "shift" in metrics
    assert "neutral_kl" not in metrics


def test_controls_are_what_they_are_called(place: Path, tiny_folder: Path, tiny: Any) -> None:
    controls = {"random": 3, "orthogonal": 1, "shuffled": 1}
    changes = {"direction.statements": str(place / "statements.csv"), "controls": controls}
    config = settings(place, str(tiny_folder), **changes)
    own, *others = [(way.name, way.vector.values.double().numpy()) for way in ways(config, tiny)]
    assert own[0] == OWN
    assert [name for name, _ in others] == ["random"] * 3 + ["orthogonal", "shuffled"]
    sizes = [np.linalg.norm(values) for _, values in (own, *others)]
    np.testing.assert_allclose(sizes, sizes[0], rtol=1e-6)
    across = dict(others)["orthogonal"]
    assert abs(across @ own[1]) < 1e-6 * sizes[0] ** 2
    assert abs(dict(others)["random"] @ own[1]) > 1e-3 * sizes[0] ** 2


def test_every_file_of_a_direction(place: Path, tiny_folder: Path, tiny: Any) -> None:
    rng = np.random.default_rng(0)
    one, each = rng.normal(size=WIDTH).astype(np.float32), rng.normal(size=(LAYERS, WIDTH)).astype(np.float32)
    np.save(place / "one.npy", one)
    save_file({"a": one, "b": each}, place / "two.safetensors")
    y = rng.integers(0, 2, 80)
    x = rng.normal(size=(80, WIDTH)) + y[:, None]
    probe_arrays(x, y, range(80), layers=[2], refits=20, permutations=19, control_draws=1).probe.save(place / "probe")

    def first(file: str, **changes: Any) -> Any:
        return ways(settings(place, str(tiny_folder), **{"direction.file": str(place / file), **changes}), tiny)[0]

    np.testing.assert_allclose(first("one.npy").vector.values, one)
    np.testing.assert_allclose(first("two.safetensors", **{"direction.key": "a"}).vector.values, one)
    np.testing.assert_allclose(first("two.safetensors", **{"direction.key": "b"}).vector.values, each[1])
    for name in ("probe", "probe.npz", "probe.json"):
        way = first(name, layers=None)
        assert way.layer == 2
        assert "probe" in way.vector.source
    half, whole = (float(first("probe", layers=None, length=k).vector.values.norm()) for k in (0.5, 1.0))
    assert whole == pytest.approx(2 * half, rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "direction: none is given"),
        ({"direction.file": "two.npz"}, "has a, b; name one by -o direction.key=a"),
        ({"direction.file": "two.npz", "direction.key": "c"}, "has no array 'c'; known: a, b"),
        (
            {"direction.file": "two.npz", "direction.key": "a"},
            "direction: has 5 entries, the residual stream of this mod",
        ),
        ({"direction.file": "two.npz", "direction.key": "b"}, "give finite numbers [d], or [layers, d]"),
        ({"direction.file": "nothing.npy"}, "nothing.npy"),
        ({"direction.statements": "same.csv"}, "all labels are 1; a direction needs both"),
        ({"direction.statements": "asked.csv"}, "'apple stone which' stands in a question, too"),
        ({"direction.file": "zero.npy"}, "direction: has length 0"),
        ({"direction.file": "two.npz", "direction.key": "a", "layers": [7]}, "layers: 7 is none of this model's"),
    ],
)
def test_what_holds_no_direction_is_one_line(
    place: Path, tiny_folder: Path, tiny: Any, changes: dict[str, Any], message: str
) -> None:
    np.savez(place / "two.npz", a=np.ones(5), b=np.full(5, np.nan))
    np.save(place / "zero.npy", np.zeros(WIDTH))
    (place / "same.csv").write_text("statement,label\nx,1\ny,1\n")
    (place / "asked.csv").write_text("statement,label\napple stone which,1\ny,0\n")
    full = {
        key: str(place / value) if key in ("direction.file", "direction.statements") else value
        for key, value in changes.items()
    }
    with pytest.raises(UserError) as error:
        ways(settings(place, str(tiny_folder), **full), tiny)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def planted(effect: float) -> pd.DataFrame:
    """Beliefs of 40 questions which the direction shifts by `effect` for each alpha, and a random one by noise."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(40):
        base = rng.uniform(0.3, 0.7)
        shared: dict[str, Any] = {
            "item": f"q{i}",
            "cluster": f"q{i}",
            "scenario": "asked",
            "kind": "exact",
            "option_index": 0,
        }
        shared |= {"option": "yes", "coverage": 0.9}
        rows.append(shared | {"method": "as it is", "direction": "", "alpha": 0.0, "prob": base})
        pushes = [("direction", 0, effect), *(("random", draw, rng.normal(0, 0.01)) for draw in range(3))]
        for name, draw, per in pushes:
            for alpha in (-2.0, -1.0, 1.0, 2.0):
                told = {"method": f"layer 3, {name}", "direction": name, "draw": draw, "alpha": alpha}
                read = {"steered_layer": 3, "prob": base + per * alpha, "neutral_kl": alpha**2}
                rows.append(shared | told | read)
    return pd.DataFrame(rows)


@pytest.mark.parametrize("effect", [0.05, 0.0])
def test_what_was_planted_is_found(place: Path, tiny_folder: Path, effect: float) -> None:
    config = settings(place, str(tiny_folder), strengths=[1.0, 2.0], bootstrap_draws=200)
    numbers: list[Number] = list(SteerExperiment().own_scores(config, planted(effect)))
    found = {(one.metric, one.method, one.subset): one.score for one in numbers}
    assert found["shift", "layer 3, direction", "alpha 2"].estimate == pytest.approx(2 * effect)
    assert found["change", "layer 3, direction", "alpha -2"].estimate == pytest.approx(-2 * effect)
    assert found["neutral_kl", "layer 3, random", "alpha 2"].estimate == pytest.approx(4)
    beyond = found["beyond", "layer 3, random", "all"]
    assert (beyond.ci_lo > 0) == (effect > 0)
    assert ("gap_change", "layer 3, direction", "all") not in found


def test_no_interval_leaves_what_a_number_can_be(place: Path, tiny_folder: Path) -> None:
    """Of three questions, one of which moves alone, t reaches far below no size and beyond no change."""
    beliefs = planted(0.0)
    few = beliefs[beliefs["item"].isin(["q0", "q1", "q2"]) & (beliefs["direction"] != "random")]
    config = settings(place, str(tiny_folder), strengths=[1.0, 2.0], bootstrap_draws=50)
    moved = (few["item"] == "q0") & (few["alpha"] > 0)
    numbers = list(SteerExperiment().own_scores(config, few.assign(prob=few["prob"] + 0.3 * moved)))
    ends = {
        (one.metric, end): getattr(one.score, f"ci_{end}")
        for one in numbers
        if one.subset in ("all", "alpha 2")
        for end in ("lo", "hi")
    }
    assert ends["size", "lo"] == ends["neutral_kl", "lo"] - 4 == 0
    assert -0.5 <= ends["shift", "lo"] < 0 < ends["shift", "hi"] <= 0.5
    assert -1 <= ends["change", "lo"] < 0


def test_what_is_beyond_the_controls_holds_for_other_draws_of_them() -> None:
    """Controls that differ among themselves more than questions do; the interval that leaves their draw out misses."""
    rng = np.random.default_rng(0)
    config: Any = load_config("steer", model="smollm2-135m", settings={"bootstrap_draws": 50})[1]
    table = pd.DataFrame()
    n, draws, covered, alone = 30, 5, 0, 0
    for _ in range(200):
        own, controls = rng.normal(0.3, 0.02, n), rng.normal(0.3, 0.05, draws)
        rows = [
            {"item": str(i), "cluster": str(i), "strength": 1.0, "draw_control": d, "beyond": own[i] - size}
            for d, size in enumerate(controls)
            for i in range(n)
        ]
        table = pd.DataFrame(rows)
        score = _over_draws(table, config)
        covered += score.ci_lo <= 0 <= score.ci_hi
        mean, se = own.mean() - controls.mean(), own.std(ddof=1) / np.sqrt(n)
        alone += abs(mean) <= 2.05 * se
        assert score.mean == pytest.approx(mean)
    assert covered >= 186
    assert alone <= 80
    single = _over_draws(table[table["draw_control"] == 0], config)
    assert (single.status, single.ci_method[:10]) == ("one_draw", "none: one ")
