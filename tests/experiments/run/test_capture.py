import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import UserError
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.runner import run
from doxascope.experiments.run.sessions import WHOLE, Shard
from doxascope.hooks.model.spec import resolve_model
from doxascope.hooks.store import ActivationStore

SETTINGS = ("items=3", "batch_items=2", "bootstrap_draws=50", "capture.layers=[0, -1]", "fork.methods=[]")


def captured(tiny_folder: Path, out: Path, *more: str, shard: Shard = WHOLE) -> Path:
    experiment, config = load_config("consistency", [*SETTINGS, *more])
    config = config.model_copy(update={"model": resolve_model(str(tiny_folder))})
    return run(experiment, config, out, shard=shard, scored=False).path


@pytest.fixture(scope="module")
def whole(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captured(tiny_folder, tmp_path_factory.mktemp("runs"))


def rows_of(run: Path, **wanted: Any) -> tuple[Any, np.ndarray]:
    found = ActivationStore.open(run).read(**wanted)
    order = found.rows.sort_values(["readout_id", "position"]).index
    return found.rows.loc[order].reset_index(drop=True), found.values[order]


def test_a_run_stores_what_its_experiment_declares(tiny: Any, whole: Path, noise: Any) -> None:
    rows, values = rows_of(whole, layer=2)
    transcripts = [json.loads(line) for file in sorted(whole.glob("transcripts/*")) for line in file.open()]
    prior = {"system", "before-reveal", "before-question", "reveal", "answer"}
    posterior = {"question", "rejection"}
    for one in transcripts:
        expected = prior if "/prior/" in one["readout_id"] else prior | posterior
        assert set(rows.loc[rows["readout_id"] == one["readout_id"], "position"]) == expected
    said = next(one for one in transcripts if one["readout_id"].endswith("reject-1/free"))
    _, residuals = tiny.beliefs(said["messages"], said["options"], capture="last")
    mine = (rows["readout_id"] == said["readout_id"]) & (rows["position"] == "answer")
    np.testing.assert_allclose(values[mine][0], residuals[0, 2], atol=noise(residuals[0, 2]))


def test_shards_and_a_resumed_run_store_every_row_once(
    tiny_folder: Path, whole: Path, tmp_path: Path, cut_short: Any
) -> None:
    rows, values = rows_of(whole, layer=0)
    for index in (2, 1):
        parts = captured(tiny_folder, tmp_path / "parts", shard=Shard(index, 2))
    cut_short(parts, 0, file="commits-s00002.jsonl")
    assert len(ActivationStore.open(parts).rows()) < len(rows)
    captured(tiny_folder, tmp_path / "parts", shard=Shard(1, 2))
    again, same = rows_of(parts, layer=0)
    assert again.equals(rows)
    np.testing.assert_array_equal(same, values)


def test_positions_can_be_chosen_and_must_exist(tiny_folder: Path, tmp_path: Path) -> None:
    run = captured(tiny_folder, tmp_path, "items=1", "capture.positions={end: {at: last}}")
    assert set(ActivationStore.open(run).rows()["position"]) == {"end"}
    with pytest.raises(UserError, match="no message 9"):
        captured(tiny_folder, tmp_path, "capture.positions={ninth: {message: 9}}")
    with pytest.raises(UserError, match="no layer 7"):
        captured(tiny_folder, tmp_path, "capture.layers=[7]")


def test_other_settings_of_a_capture_are_another_run(tiny_folder: Path, whole: Path, tmp_path: Path) -> None:
    assert captured(tiny_folder, tmp_path, "capture.sites=[resid_pre]").name != whole.name
