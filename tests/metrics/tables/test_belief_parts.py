"""A belief table that is read and scored part by part gives what it gives in one piece, to the bit."""

import gc
import resource
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doxascope import UserError
from doxascope.experiments.run.addons.noise_floors import score_floors
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.experiment import Experiment
from doxascope.experiments.run.scores import score_run
from doxascope.experiments.suite.consistency.instances import stored_tables, tables
from doxascope.hooks.exact.option_beliefs import exact_rows
from doxascope.metrics import belief_table
from doxascope.metrics.tables.belief_parts import BeliefParts

Setup = tuple[Experiment, Any]


@pytest.fixture(scope="module")
def setup() -> Setup:
    return load_config("consistency", ["items=3", "orders=latin", "rejections=2", "bootstrap_draws=20"])


@pytest.fixture(scope="module")
def table(setup: Setup) -> pd.DataFrame:
    """Of an agent that believes anything at all."""
    experiment, config = setup
    rng = np.random.default_rng(0)
    rows = []
    for item in experiment.items(config):
        for question in experiment.questions(config, item):
            about: dict[str, Any] = {"readout_id": question.readout_id, "item": item.id, "cluster": item.cluster}
            about |= {"method": question.method, "scenario": question.scenario, "forced_logp": rng.normal()}
            about |= question.conditions
            logp = np.log(0.9 * rng.dirichlet(np.ones(len(question.options))))
            rows += [about | row for row in exact_rows(logp, question.options, 0.5)]
    return belief_table(rows)


def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[BeliefParts.__module__], "ROWS_AT_ONCE", 300)


def told(numbers: Any) -> list[str]:
    return [repr((number.key, number.score, number.beside, number.equivalence)) for number in numbers]


def test_every_number_is_the_same_by_parts(setup: Setup, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = told(score_run(*setup, table))
    in_small_parts(monkeypatch)
    assert len(list(BeliefParts.of(table))) > 5
    assert told(score_run(*setup, table)) == whole


def test_numerical_errors_are_the_same_by_parts(
    setup: Setup, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = score_run(*setup, table)
    whole = score_floors(*setup, table, numbers, 1e-4)
    in_small_parts(monkeypatch)
    by_parts = score_floors(*setup, BeliefParts.of(table), numbers, 1e-4)
    assert {key: repr(floor) for key, floor in by_parts.items()} == {key: repr(floor) for key, floor in whole.items()}


def test_what_was_made_is_read_as_it_was_made(table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_parts(monkeypatch)
    stored = stored_tables(table)
    for name in tables(table):
        whole = pd.concat([tables(part)[name].astype(object) for part in BeliefParts.of(table)], ignore_index=True)
        assert stored.methods(name) == [*dict.fromkeys(whole["method"])]
        for method in stored.methods(name):
            own = stored.read(name, method, list(whole.columns)).astype(object)
            pd.testing.assert_frame_equal(
                own, whole[whole["method"] == method], check_exact=True, check_index_type=False
            )
        some = np.random.default_rng(1).permutation(len(whole))[:20]
        chosen = stored.rows(name, some, list(whole.columns)).astype(object)
        pd.testing.assert_frame_equal(chosen, whole.loc[some], check_exact=True, check_index_type=False)


def test_what_is_made_needs_the_memory_of_one_part(table: pd.DataFrame) -> None:
    few, many = (peak_of_making(table, n) for n in (2, 12))
    assert many < 1.5 * few


def peak_of_making(table: pd.DataFrame, n: int) -> int:
    def parts() -> Iterator[pd.DataFrame]:
        for i in range(n):
            names = {name: [f"{i} {text}" for text in table[name]] for name in ("readout_id", "item", "cluster")}
            yield table.assign(**names)

    tracemalloc.start()
    stored_tables(BeliefParts(parts))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.fixture
def small_disk() -> Iterator[int]:
    """The most bytes of a file, as a disk has them that is almost full."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE), 100_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    yield most
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.filterwarnings("error")
def test_a_full_disk_is_one_line_and_leaves_nothing(small_disk: int, tmp_path: Path) -> None:
    part = pd.DataFrame({"method": "free", "x": np.arange(small_disk, dtype=np.float64)})
    with pytest.raises(UserError, match=f"^{tmp_path}: .*make room") as raised:
        BeliefParts(lambda: [part], tmp_path).tabulated(lambda rows: {"all": rows})
    del raised
    gc.collect()
    assert not [*tmp_path.iterdir()]


@pytest.mark.filterwarnings("error")
def test_a_damaged_part_is_told_and_nothing_else(tmp_path: Path) -> None:
    def parts() -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"method": "free", "x": np.arange(9.0)})
        raise UserError("part-1 is damaged")

    with pytest.raises(UserError, match=r"^part-1 is damaged$") as raised:
        BeliefParts(parts, tmp_path).tabulated(lambda rows: {"all": rows})
    del raised
    gc.collect()
    assert not [*tmp_path.iterdir()]
