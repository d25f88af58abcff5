import json
from pathlib import Path

import pytest

from doxascope import UserError
from doxascope.experiments.run_folder import RunFolder
from doxascope.metrics import belief_table


def beliefs(name: str) -> object:
    return belief_table([{"readout_id": name, "kind": "exact", "status": "ok", "prob": 0.5, "option_index": 0}])


def begun(path: Path) -> RunFolder:
    folder = RunFolder.create(path)
    folder.write_json("manifest.json", {})
    return folder


def test_a_batch_counts_from_its_commit_line_on(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    folder.commit(1, beliefs("b"), [{"readout_id": "b"}], {"readouts": 1})  # pyright: ignore[reportArgumentType]
    folder.commit(0, beliefs("a"), [{"readout_id": "a"}], {"readouts": 1})  # pyright: ignore[reportArgumentType]
    assert folder.beliefs()["readout_id"].tolist() == ["a", "b"]
    (folder.path / "commits.jsonl").write_text(json.dumps({"batch": 0}) + "\n")
    assert folder.beliefs()["readout_id"].tolist() == ["a"]


def test_a_torn_line_and_half_written_files_are_cleared_away(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    folder.commit(0, beliefs("a"), [], {"readouts": 1})  # pyright: ignore[reportArgumentType]
    with (folder.path / "commits.jsonl").open("a") as file:
        file.write('{"batch": 1, "read')
    leftover = folder.path / "beliefs" / ".writing-part-00001.parquet"
    leftover.write_bytes(b"half")
    folder.tidy()
    assert not leftover.exists()
    folder.commit(1, beliefs("b"), [], {"readouts": 1})  # pyright: ignore[reportArgumentType]
    assert sorted(folder.commits()) == [0, 1]


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="not a doxascope run and not empty"):
        RunFolder.create(tmp_path)
    with pytest.raises(UserError, match=r"no manifest\.json"):
        RunFolder.open(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_run_that_was_killed_before_its_manifest_can_begin_again(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.write("config.yaml", "experiment: consistency")
    (folder.path / ".writing-manifest.json").write_text("{")
    assert RunFolder.create(tmp_path / "run").path == folder.path


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        RunFolder.create(tmp_path / "file" / "run")


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    with (
        folder.writing(),
        pytest.raises(UserError, match="another process is writing"),
        RunFolder(folder.path).writing(),
    ):
        pass


def test_a_damaged_part_is_named_not_scored(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    folder.commit(0, beliefs("a"), [], {"readouts": 1})  # pyright: ignore[reportArgumentType]
    (folder.path / "beliefs/part-00000.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(UserError, match="beliefs cannot be read"):
        folder.beliefs()
    with pytest.raises(UserError, match="holds no beliefs yet"):
        begun(tmp_path / "other").beliefs()
