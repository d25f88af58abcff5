"""Probes over several options, on planted features."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from doxascope import UserError
from doxascope.hooks.store import ActivationStore, ActivationWriter, Header
from doxascope.metrics import belief_table
from doxascope.probes.dataset import ProbeData, belief_over_options, make_target, option_rows
from doxascope.probes.estimators import Multinomial
from doxascope.probes.evidence.controls import baseline_r2, surface_features
from doxascope.probes.evidence.crossfit import logits_of_options, softmax_calibration
from doxascope.probes.evidence.study import StudyPlan
from doxascope.probes.features import ArrayFeatures, ReadAt, StoreFeatures
from doxascope.probes.groups import grouped_folds
from doxascope.probes.job import RegisteredPlace, train
from doxascope.probes.probe import Probe

AT = ReadAt("resid_post", 1, "before-question")
EITHER_WAY = pytest.mark.parametrize(
    "plan", [StudyPlan(folds=4), StudyPlan(folds=4, over_options="multinomial", penalties=(1.0, 10.0))]
)


def header(d: int) -> Header:
    model = {"model": {"name": "m"}}
    return Header(sites=("resid_post",), layers=(1,), d_model=d, dtype="float32", conditions=model)


def planted(n_groups: int, of_group: int = 3, d: int = 12, k: int = 3, strength: float = 1.0) -> tuple[Any, Any]:
    """Features whose first k entries are the log-odds of a distribution over k options, with noise."""
    rng = np.random.default_rng(7)
    n = n_groups * of_group
    x = rng.normal(size=(n, d))
    prob = softmax(strength * x[:, :k] + 0.1 * rng.normal(size=(n, k)), axis=1)
    groups = np.repeat([f"g{i}" for i in range(n_groups)], of_group)
    rows = pd.DataFrame({"readout_id": [f"r{i}" for i in range(n)], "group": groups, "cluster": groups})
    data = ProbeData(rows, make_target("exact", prob[:, 0]), ArrayFeatures({AT: x}), (AT,), prob)
    return data, prob


@EITHER_WAY
def test_a_planted_distribution_is_read_off_groups_that_were_held_out(tmp_path: Path, plan: StudyPlan) -> None:
    data, prob = planted(120)
    probe = train(data, RegisteredPlace(AT, "before the question"), header(12), plan, "held")
    read = probe.beliefs(data.read(AT), data.groups)
    assert read.sum(axis=1) == pytest.approx(1)
    base = prob.mean(axis=0)
    assert np.abs(read - prob).mean() < 0.35 * np.abs(base - prob).mean()
    np.testing.assert_allclose(
        np.log(read[:, 0] / (1 - read[:, 0])), probe.logit(data.read(AT), data.groups), atol=1e-9
    )
    probe.save(tmp_path / "held")
    again = Probe.load(tmp_path / "held.npz")
    np.testing.assert_array_equal(again.beliefs(data.read(AT), data.groups), read)
    (tmp_path / "held.2.npz").unlink()
    with pytest.raises(UserError, match=r"held\.2"):
        Probe.load(tmp_path / "held")


@EITHER_WAY
def test_what_a_group_believes_has_no_part_in_how_it_is_read(plan: StudyPlan) -> None:
    """Its target is changed beyond recognition, and its own reading stays as it was, but for rounding."""
    data, prob = planted(20)
    place = RegisteredPlace(AT, "before the question")
    own = data.groups == "g3"
    other = np.where(own[:, None], prob[:, ::-1] ** 3, prob)
    other /= other.sum(axis=1, keepdims=True)
    changed = ProbeData(data.rows, make_target("exact", other[:, 0]), data.features, data.points, other)
    first, second = (
        train(each, place, header(12), plan, "held").beliefs(data.read(AT), data.groups) for each in (data, changed)
    )
    np.testing.assert_allclose(first[own], second[own], atol=1e-12)
    assert np.abs(first[~own] - second[~own]).max() > 1e-6


def test_ratios_that_lie_along_directions_are_read_as_they_are_though_an_option_is_ruled_out() -> None:
    """Log-odds against the rest are not linear in them: a regression of those misses by up to .08 nat."""
    rng = np.random.default_rng(0)
    x = np.repeat(0.7 * rng.normal(size=(80, 3)), 4, axis=0)
    ruled_out = np.tile([[0.0] * 3, *(-2 * np.eye(3))], (80, 1))
    prob, groups = softmax(x + ruled_out, axis=1), np.repeat([f"g{i}" for i in range(80)], 4)
    rows = pd.DataFrame({"readout_id": [f"r{i}" for i in range(320)], "group": groups})
    features = np.hstack([x + ruled_out, rng.normal(size=(320, 4))])
    data = ProbeData(rows, make_target("exact", prob[:, 0]), ArrayFeatures({AT: features}), (AT,), prob)
    probe = train(data, RegisteredPlace(AT, "before the question"), header(7), StudyPlan(), "held")
    read = np.log(probe.beliefs(data.read(AT), data.groups))
    np.testing.assert_allclose(read - read.mean(axis=1, keepdims=True), logits_of_options(prob), atol=0.03)


@pytest.mark.parametrize("d", [5, 90])
def test_all_options_at_once_are_fitted_as_by_scikit_learn(d: int) -> None:
    """Shares of 0 and 1 are labels, and fewer rows than features change nothing but the time."""
    rng = np.random.default_rng(1)
    x, labels = rng.normal(size=(60, d)), rng.integers(0, 3, 60)
    fit = Multinomial(2.0).fit(x, np.eye(3)[labels])
    theirs = make_pipeline(StandardScaler(), LogisticRegression(C=0.5, max_iter=1000)).fit(x, labels)
    np.testing.assert_allclose(softmax(fit.score(x), axis=1), theirs.predict_proba(x), atol=1e-3)


def test_the_softmax_is_calibrated_where_its_cross_entropy_is_least() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4000, 4))
    slope, intercepts = 0.6, np.array([0.5, -0.2, -0.4, 0.1])
    prob = softmax(slope * scores + intercepts, axis=1)
    found, offsets = softmax_calibration(scores, prob)
    assert found == pytest.approx(slope, abs=1e-3)
    np.testing.assert_allclose(offsets, intercepts, atol=1e-3)

    def loss(a: float, b: Any) -> float:
        return float(-(prob * log_softmax(a * scores + b, axis=1)).sum(axis=1).mean())

    least = loss(found, offsets)
    assert all(least <= loss(found + da, offsets + db) for da in (-0.05, 0.05) for db in 0.05 * np.eye(4))


@pytest.fixture
def of_options(tmp_path: Path) -> Callable[..., tuple[pd.DataFrame, ActivationStore]]:
    """Beliefs over two to four options that are others in every question, and a store whose residuals hold, where each
    option's own text ends, what speaks for it; or that of another question."""

    def make(*, held: bool) -> tuple[pd.DataFrame, ActivationStore]:
        rng = np.random.default_rng(0)
        sizes = rng.integers(2, 5, 120)
        speaks = [rng.normal(0, 1.5, k) for k in sizes]
        shown = speaks if held else [rng.normal(0, 1.5, k) for k in sizes]
        beliefs, rows, vectors = [], [], []
        for i, (z, own) in enumerate(zip(speaks, shown, strict=True)):
            where = {"readout_id": f"q{i}", "item": f"q{i}", "cluster": f"q{i}", "kind": "exact", "method": "texts"}
            for j, p in enumerate(softmax(z)):
                beliefs.append(where | {"option": f"{i}-{j}", "option_index": j, "prob": p, "status": "ok"})
                rows.append({"readout_id": f"q{i}", "position": f"option-{j}", "token_index": j, "ids_hash": f"h{i}"})
                vectors.append(np.append(own[j], rng.normal(size=15)))
        conditions = {"model": {"name": "planted", "n_layers": 1}}
        header = Header(sites=("resid_post",), layers=(0,), d_model=16, dtype="float32", conditions=conditions)
        with ActivationWriter.open(tmp_path / f"held-{held}", header) as writer:
            writer.add(0, pd.DataFrame(rows), {"resid_post": np.array(vectors, dtype=np.float32)[:, None]})
        return belief_table(beliefs), ActivationStore.open(tmp_path / f"held-{held}")

    return make


@pytest.mark.parametrize("held", [True, False])
def test_one_direction_reads_options_that_change_from_question_to_question(
    of_options: Callable[..., tuple[pd.DataFrame, ActivationStore]], held: bool
) -> None:
    beliefs, store = of_options(held=held)
    rows = option_rows(beliefs, store)
    assert len(rows) == len(beliefs)
    at = ReadAt("resid_post", 0, "option")
    numbers = rows["option_index"].tolist()
    features = StoreFeatures([store], [0] * len(rows), rows["readout_id"].tolist(), options=numbers)
    data = ProbeData(rows, make_target("exact", rows["p_exact"], options_of=rows["readout_id"]), features, (at,))
    assert data.n_groups == 120
    probe = train(data, RegisteredPlace(at, "read-out"), store.header, StudyPlan(), "planted")
    read = belief_over_options(probe.logit(data.read(at), data.groups), rows["readout_id"])
    assert pd.Series(read).groupby(rows["readout_id"]).sum().to_numpy() == pytest.approx(1)
    size = rows.groupby("readout_id")["readout_id"].transform("size")
    gain = (rows["p_exact"] * np.log(read * size)).groupby(rows["readout_id"]).sum().to_numpy(dtype=np.float64)
    best = (rows["p_exact"] * np.log(rows["p_exact"] * size)).groupby(rows["readout_id"]).sum()
    t = float(gain.mean() / gain.std() * np.sqrt(len(gain)))
    assert (gain.mean() > 0.9 * best.mean() and t > 5) if held else t < 2


@pytest.mark.parametrize("k", [2, 3, 4])
def test_logits_that_lie_at_options_own_tokens_are_read_as_they_are(k: int) -> None:
    """Softmax of log-odds against the rest would read their ratios up to twice as large."""
    at, rng = ReadAt("resid_post", 1, "option"), np.random.default_rng(0)
    prob = softmax(rng.normal(size=(200, k)), axis=1)
    logits = logits_of_options(prob)
    ids = np.repeat([f"r{i}" for i in range(200)], k)
    features = ArrayFeatures({at: np.column_stack([logits.ravel(), rng.normal(size=(200 * k, 7))])})
    rows = pd.DataFrame({"readout_id": ids, "group": ids})
    data = ProbeData(rows, make_target("exact", prob.ravel(), options_of=ids), features, (at,))
    probe = train(data, RegisteredPlace(at, "read-out"), header(8), StudyPlan(), "held")
    read = belief_over_options(probe.logit(data.read(at), data.groups), ids).reshape(prob.shape)
    np.testing.assert_allclose(logits_of_options(read), logits, atol=0.05)


def test_words_and_place_of_an_option_are_controls_of_what_is_read_at_its_own_tokens(tmp_path: Path) -> None:
    """Where an option's word alone, or its place alone, makes it likely, the bag of words, or the place, finds it."""
    rng = np.random.default_rng(3)
    likes = {"gold": 2.0, "iron": 0.5, "lead": -1.0, "zinc": -2.0}
    names = [str(name) for name in likes]
    for by, control in (("word", "bag of words"), ("place", "option position")):
        beliefs, rows = [], []
        for i in range(60):
            own = rng.permutation(names)[:3]
            listed = rng.permutation(3)  # which option stands at each place
            place = np.argsort(listed)
            where = {"readout_id": f"q{i}", "item": f"q{i}", "cluster": f"q{i}", "kind": "exact", "method": "texts"}
            for j, p in enumerate(
                softmax([likes[name] for name in own] if by == "word" else [2.0, 0.0, -2.0] @ np.eye(3)[place].T)
            ):
                beliefs.append(where | {"option": own[j], "option_index": j, "prob": p, "status": "ok"})
                rows.append(
                    {
                        "readout_id": f"q{i}",
                        "position": f"option-{j}",
                        "token_index": 9 + 2 * int(place[j]),
                        "ids_hash": "",
                    }
                )
        conditions = {"model": {"name": "planted", "n_layers": 1}}
        header = Header(sites=("resid_post",), layers=(0,), d_model=1, dtype="float32", conditions=conditions)
        with ActivationWriter.open(tmp_path / by, header) as writer:
            writer.add(0, pd.DataFrame(rows), {"resid_post": np.zeros((len(rows), 1, 1), dtype=np.float32)})
        made = option_rows(belief_table(beliefs), ActivationStore.open(tmp_path / by))
        asked = made.assign(text="Which metal: gold, iron, lead, zinc?")
        folds = grouped_folds(made["group"].to_numpy(), 5, 0)
        r2 = {
            name: baseline_r2(x, made["exact"].to_numpy(), folds, (1.0, 100.0))
            for name, x in surface_features(asked).items()
        }
        assert r2[control] > 0.8
        assert all(value < 0.3 for name, value in r2.items() if name != control)
        blind = surface_features(asked.drop(columns=["option_text", "option_position"]))
        assert all(baseline_r2(x, made["exact"].to_numpy(), folds, (1.0,)) < 0.05 for x in blind.values())
