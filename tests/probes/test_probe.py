"""A probe is kept, found again, and refused where it does not belong."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import UserError
from doxascope.base.files import sealed
from doxascope.hooks.store import Header
from doxascope.probes import Probe, import_probe
from doxascope.probes.dataset import ProbeData
from doxascope.probes.evidence.study import StudyPlan
from doxascope.probes.features import ReadAt
from doxascope.probes.groups import grouped_folds
from doxascope.probes.job import RegisteredPlace, train

MODEL = {"name": "tiny", "architecture": "Llama", "n_layers": 4, "d_model": 20, "weights": "abc", "tokenizer": "t"}
PLAN = StudyPlan(penalties=(1.0, 100.0))


def header(dtype: Any = "float32", **model: Any) -> Header:
    return Header(
        sites=("resid_post",), layers=(0, 1), d_model=20, dtype=dtype, conditions={"model": {**MODEL, **model}}
    )


@pytest.fixture(scope="module")
def data(planted: Callable[..., ProbeData]) -> ProbeData:
    return planted({0: 1.5}, layers=1)


@pytest.fixture(scope="module")
def probe(data: ProbeData) -> Probe:
    return train(data, RegisteredPlace(data.points[0], "before the question"), header(), PLAN, "truthful")


def test_it_is_the_same_from_the_disk_and_reads_no_group_by_what_was_trained_on_it(
    probe: Probe, data: ProbeData, tmp_path: Path
) -> None:
    probe.save(tmp_path / "deep" / "mine")
    again = Probe.load(tmp_path / "deep" / "mine.json")
    assert again.meta.model_copy(update={"numbers": ""}) == probe.meta
    x = data.read(data.points[0])
    np.testing.assert_array_equal(again.logit(x, data.groups), probe.logit(x, data.groups))
    folds = grouped_folds(data.groups, PLAN.folds, PLAN.seed)
    crossed = probe.logit(x, data.groups)
    for k in range(PLAN.folds):
        np.testing.assert_array_equal(crossed[folds == k], probe.crossed[k].logit(x[folds == k]))
    new = probe.logit(x, [f"new {group}" for group in data.groups])
    np.testing.assert_array_equal(new, probe.readout.logit(x))
    assert (new != crossed).all()


def test_a_run_knows_clusters_and_not_the_groups_of_a_user(data: ProbeData) -> None:
    """Trained on groups that a user made of two clusters each, no cluster is read by what was trained on it."""
    clusters = data.groups.astype(str)
    code = np.unique(clusters, return_inverse=True)[1]
    grouped = replace(data, rows=data.rows.assign(cluster=clusters, group=[f"mine {i // 2}" for i in code]))
    probe = train(grouped, RegisteredPlace(data.points[0], "before the question"), header(), PLAN, "grouped")
    x, folds = data.read(data.points[0]), grouped_folds(grouped.groups, PLAN.folds, PLAN.seed)
    assert probe.meta.n_groups == data.n_groups // 2
    for names in (clusters, grouped.groups):
        found = probe.logit(x, names)
        for k in range(PLAN.folds):
            np.testing.assert_array_equal(found[folds == k], probe.crossed[k].logit(x[folds == k]))
    crossed = replace(grouped, rows=grouped.rows.assign(group=clusters[::-1]))
    with pytest.raises(UserError, match="is the name of a cluster of another group"):
        train(crossed, RegisteredPlace(data.points[0], "before the question"), header(), PLAN, "crossed")


@pytest.mark.parametrize(
    ("head", "at", "message"),
    [
        (header(), ReadAt("resid_post", 1, "statement"), "layer: trained on 0, given 1"),
        (header(), ReadAt("resid_pre", 0, "statement"), "site: trained on resid_post, given resid_pre"),
        (header(), ReadAt("resid_post", 0, "answer"), "position: trained on statement, given answer"),
        (header("bfloat16"), ReadAt("resid_post", 0, "statement"), "dtype: trained on float32, given bfloat16"),
        (header(weights="xyz"), ReadAt("resid_post", 0, "statement"), "weights: trained on abc, given xyz"),
        (header(), ReadAt("resid_post", 0, "statement", 3), "head: trained on None, given 3"),
    ],
)
def test_other_activations_are_refused(probe: Probe, head: Header, at: ReadAt, message: str) -> None:
    probe.require_fit(header(), ReadAt("resid_post", 0, "statement"))
    with pytest.raises(UserError, match=f"probe truthful: does not read these activations .*{message}"):
        probe.require_fit(head, at)


def test_damaged_and_swapped_files_are_refused(probe: Probe, tmp_path: Path) -> None:
    probe.save(tmp_path / "one")
    with pytest.raises(UserError, match=r"two\.json: cannot be read"):
        Probe.load(tmp_path / "two")
    raw = (tmp_path / "one.npz").read_bytes()
    (tmp_path / "one.npz").write_bytes(raw[:-20])
    with pytest.raises(UserError, match="is damaged, or of another probe"):
        Probe.load(tmp_path / "one")
    meta = json.loads((tmp_path / "one.json").read_text())
    (tmp_path / "one.json").write_text(json.dumps(meta | {"layer": meta["layer"] + 1}))
    with pytest.raises(UserError, match=r"one\.json: is damaged: its digest is wrong; train the probe anew"):
        Probe.load(tmp_path / "one")
    meta.pop("digest")
    (tmp_path / "one.json").write_text(json.dumps(sealed(meta | {"layr": 3})))
    with pytest.raises(UserError, match="unknown key 'layr'; did you mean 'layer'"):
        Probe.load(tmp_path / "one")


def test_a_direction_of_another_tool_is_a_probe(data: ProbeData, tmp_path: Path) -> None:
    at = data.points[0]
    found = import_probe(np.eye(20)[0], -0.1, header(), at, name="theirs", target="truth")
    found.save(tmp_path / "theirs")
    x = data.read(at)
    np.testing.assert_allclose(Probe.load(tmp_path / "theirs").logit(x, data.groups), x[:, 0] - 0.1)
    with pytest.raises(UserError, match="has 3 numbers, the activations 20"):
        import_probe(np.ones(3), 0.0, header(), at, name="theirs", target="truth")
    wrong: list[tuple[Any, float]] = [
        (np.full(20, np.nan), 0.0),
        (np.eye(20), 0.0),
        (["x"] * 20, 0.0),
        (np.ones(20), np.inf),
    ]
    for direction, bias in wrong:
        with pytest.raises(UserError, match="probe theirs: "):
            import_probe(direction, bias, header(), at, name="theirs", target="truth")
    with pytest.raises(UserError, match="probe far: cannot be kept: its weights"):
        import_probe(np.full(20, 1e200), 0.0, header(), at, name="far", target="truth").save(tmp_path / "far")
    assert not list(tmp_path.glob("far*"))
