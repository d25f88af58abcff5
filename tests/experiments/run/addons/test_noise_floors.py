"""Noise floors of scores, from the certificate that a run refers to."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from doxascope.experiments.run.addons.noise_floors import perturbed, score_floors
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.runner import run
from doxascope.experiments.run.scores import score_run
from doxascope.hooks.checks.certificate import Certificate, Change, find_certificate, save_certificate
from doxascope.hooks.identity import Identity
from doxascope.metrics.number import Key

NAMES = ("metric", "method", "kind", "subset")
SETTINGS = ["items=3", "bootstrap_draws=50", "fork.methods=[]", "methods={free: {forms: ['{option}', '{Option}']}}"]


@pytest.fixture(scope="module")
def measured(
    certificate: Certificate, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunFolder, bytes, str]:
    """A run that has a certificate; its scores and its page from before."""
    out = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOXASCOPE_CACHE", str(out / "cache"))
        experiment, config = load_config("consistency", SETTINGS, str(tiny_folder))
        before = run(experiment, config, out)
        scores, page = (before.path / "scores.json").read_bytes(), (before.path / "report.html").read_text()
        assert not (before.path / "floors.json").exists()
        save_certificate(certificate)
        return run(experiment, config, out), scores, page


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty one."""
    monkeypatch.setenv("DOXASCOPE_CACHE", str(tmp_path / "cache"))


def test_a_run_refers_to_the_certificate_of_its_model(
    measured: tuple[RunFolder, bytes, str], certificate: Certificate
) -> None:
    folder, scores, page = measured
    assert "doxascope certify MODEL" in page
    assert "measures it, and the same run command then shows it." in page
    assert (folder.path / "scores.json").read_bytes() == scores
    assert folder.manifest["certificate"] == certificate.hash
    floors = json.loads((folder.path / "floors.json").read_text())
    assert floors["certificate"] == certificate.hash
    assert floors["nat"] == certificate.worst("float32", "transformers").nat
    told = {tuple(row[name] for name in NAMES): row["floor"] for row in floors["scores"]}
    for score in json.loads(scores)["scores"]:
        floor = told[tuple(score[name] for name in NAMES)]
        assert (floor is None) == (score["estimate"] is None)
    headline = told["c2", "free", "exact", "all"]
    assert 0 < headline < 1e-4
    page = (folder.path / "report.html").read_text()
    assert f"numerical error {headline:.0e}" in page
    assert certificate.hash in page
    assert "doxascope certify" not in page


def test_a_score_below_its_floor_is_flagged(
    measured: tuple[RunFolder, bytes, str], certificate: Certificate, tmp_path: Path, tiny_folder: Path
) -> None:
    noisy = certificate.model_copy(update={"floor": {"float32": {"packed": Change(probability=0.3, nat=2.0)}}})
    save_certificate(noisy)
    shutil.copytree(measured[0].path, tmp_path / measured[0].path.name)
    folder = run(*load_config("consistency", SETTINGS, str(tiny_folder)), tmp_path)
    assert folder.manifest["certificate"] == noisy.hash
    assert "within its numerical error" in (folder.path / "report.html").read_text()


def test_only_the_certificate_of_these_weights_under_these_libraries_is_found(
    measured: tuple[RunFolder, bytes, str], certificate: Certificate
) -> None:
    save_certificate(certificate)
    identity = Identity.model_validate(measured[0].manifest["conditions"]["model"])
    assert find_certificate(identity) == certificate
    assert find_certificate(identity.model_copy(update={"weights": "other"})) is None
    assert find_certificate(identity.model_copy(update={"device": "cuda"})) is None
    assert find_certificate(identity.model_copy(update={"dtype": "float16"})) is None
    save_certificate(certificate.model_copy(update={"versions": {"torch": "1.0"}}))
    assert find_certificate(identity) is None


def test_what_is_perturbed_stays_a_distribution(measured: tuple[RunFolder, bytes, str]) -> None:
    beliefs = measured[0].beliefs()
    failed = beliefs["readout_id"] == beliefs["readout_id"][0]
    beliefs = beliefs.assign(**{name: beliefs[name].mask(failed) for name in ("prob", "logp")})
    nat = 1e-3
    moved = perturbed(beliefs, nat, np.random.default_rng(0))
    sums = moved.groupby("readout_id", observed=True)["prob"].sum(min_count=1).dropna()
    np.testing.assert_allclose(sums, 1)
    np.testing.assert_allclose(np.abs(moved["logp"] - beliefs["logp"])[~failed], nat)
    assert 0 < np.abs(moved["prob"] - beliefs["prob"]).max() < nat
    masses = moved.assign(mass=np.exp(moved["logp"])).groupby("readout_id", observed=True)["mass"]
    mass = masses.transform("sum")
    np.testing.assert_allclose(moved["coverage"][~failed], mass[~failed])
    assert (moved["prob"].isna() == failed).all()
    assert (moved["logp"].isna() == failed).all()


def test_the_floor_of_a_score_grows_with_that_of_the_options(measured: tuple[RunFolder, bytes, str]) -> None:
    experiment, config = load_config("consistency", SETTINGS)
    beliefs = measured[0].beliefs()
    numbers = score_run(experiment, config, beliefs)
    key = Key("c2", "free", "exact", "all")
    none, small, large = (score_floors(experiment, config, beliefs, numbers, floor)[key] for floor in (0, 1e-4, 1e-2))
    assert none < 1e-12
    assert none < small < large


def test_a_number_that_only_one_of_the_tables_has_needs_no_floor(measured: tuple[RunFolder, bytes, str]) -> None:
    experiment, config = load_config("consistency", SETTINGS)
    beliefs = measured[0].beliefs()
    first, *others = score_run(experiment, config, beliefs)
    gone = replace(first, subset="withheld elsewhere")
    floors = score_floors(experiment, config, beliefs, [gone, *others], 1e-4)
    assert floors.keys() == {gone.key, *(one.key for one in others)}
    assert math.isnan(floors[gone.key])
