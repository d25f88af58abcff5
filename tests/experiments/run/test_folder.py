import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from doxascope import UserError
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.integrity import restore
from doxascope.metrics import belief_table


def beliefs(name: str) -> object:
    return belief_table([{"readout_id": name, "kind": "exact", "status": "ok", "prob": 0.5, "option_index": 0}])


def spoken(name: str) -> dict[str, object]:
    messages = [{"role": "user", "content": f"{name}?"}]
    return {"readout_id": name, "messages": messages, "prefill": "", "options": ["x"], "thoughts": [], "answers": []}


@contextlib.contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """Writing fails beyond so many bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def begun(path: Path) -> RunFolder:
    folder = RunFolder.create(path)
    folder.write_manifest({})
    return folder


def test_a_batch_counts_from_its_commit_line_on(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    folder.commit(1, beliefs("b"), [{"readout_id": "b"}], {"readouts": 1})  # type: ignore
    folder.commit(0, beliefs("a"), [{"readout_id": "a"}], {"readouts": 1})  # type: ignore
    assert folder.beliefs()["readout_id"].tolist() == ["a", "b"]
    commits = folder.path / "commits.jsonl"
    commits.write_text(commits.read_text().splitlines(keepends=True)[0])
    assert folder.beliefs()["readout_id"].tolist() == ["b"]


def test_the_parts_of_a_belief_table_are_whole_batches_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doxascope.experiments.run.folder.ROWS_AT_ONCE", 2)
    folder = begun(tmp_path / "run")
    for number, name in enumerate("edcba"):
        folder.commit(4 - number, beliefs(name), [], {"readouts": 1})  # type: ignore
    parts = folder.belief_parts()
    for _ in range(2):  # as often as one likes
        assert [part["readout_id"].tolist() for part in parts] == [["a", "b"], ["c", "d"], ["e"]]


def test_a_torn_line_and_half_written_files_are_cleared_away(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    folder.commit(0, beliefs("a"), [], {"readouts": 1})  # type: ignore
    with (folder.path / "commits.jsonl").open("a") as file:
        file.write('{"batch": 1, "read')
    leftover = folder.path / "beliefs" / ".writing-part-00001.parquet"
    leftover.write_bytes(b"half")
    folder.tidy()
    assert not leftover.exists()
    folder.commit(1, beliefs("b"), [], {"readouts": 1})  # type: ignore
    assert folder.committed() == [0, 1]


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


def test_a_folder_that_vanished_is_one_line_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.write_manifest({"batches": 1})
    folder.path.rename(tmp_path / "away")
    with pytest.raises(UserError, match=r"run: is gone, or holds no manifest\.json; bring it back"):
        _ = folder.missing
    (tmp_path / "away").rename(folder.path)
    assert folder.missing == 1


def test_what_is_added_to_a_run_that_vanished_does_not_take_its_place(tmp_path: Path) -> None:
    """As of a card, whose runs were read before and are read again."""
    folder = RunFolder.create(tmp_path / "run")
    assert folder.manifest == {}
    folder.write_manifest({"status": "complete"})
    before = folder.manifest
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is gone"):
        folder.write_manifest(folder.manifest | {"written": {}})
    (tmp_path / "elsewhere").rename(tmp_path / "run")
    assert folder.manifest == before


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
    for batch, name in enumerate("ab"):
        folder.commit(batch, beliefs(name), [spoken(name)], {"readouts": 1})  # type: ignore
    part = folder.path / "beliefs/part-00001.parquet"
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"part-00001\.parquet: is damaged: its digest is wrong; .* --restore"):
        folder.beliefs()
    part.unlink()
    with pytest.raises(UserError, match=r"part-00001\.parquet: No such file or directory; .* --restore"):
        folder.beliefs()
    restore(folder)  # as the next run does, if asked
    assert folder.committed() == [0]
    with pytest.raises(UserError, match="holds no beliefs yet"):
        begun(tmp_path / "other").beliefs()


def test_a_damaged_transcript_or_commit_line_is_named(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    for batch, name in enumerate("ab"):
        folder.commit(batch, beliefs(name), [spoken(name)], {"readouts": 1})  # type: ignore
    assert folder.transcripts({"b"})["b"]["messages"] == [{"role": "user", "content": "b?"}]
    with pytest.raises(UserError, match="has no transcript of c"):
        folder.transcripts({"a", "c"})
    (folder.path / "transcripts/part-00000.jsonl").write_text('{"readout_id"')
    with pytest.raises(UserError, match=r"transcripts/part-00000\.jsonl: is damaged: its digest is wrong"):
        folder.transcripts({"a"})
    commits = folder.path / "commits.jsonl"
    commits.write_text(commits.read_text().replace('{"batch": 0', '{"batch', 1))
    with pytest.raises(UserError, match=r"commits\.jsonl: line 1 is damaged; .* --restore"):
        folder.committed()


def test_a_full_disk_is_one_line_and_takes_nothing_that_is_committed(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    folder.commit(0, beliefs("a"), [spoken("a")], {"readouts": 1})  # type: ignore
    for at_most, file in ((1000, "beliefs/part-00001.parquet"), (20_000, "transcripts/part-00001.jsonl")):
        with (
            no_file_beyond(at_most),
            pytest.raises(UserError, match=rf"{file}: cannot be written \(.*\); make room and give the same command"),
        ):
            folder.commit(1, beliefs("b"), [spoken("b" * 30_000)], {"readouts": 1})  # type: ignore
        assert folder.beliefs()["readout_id"].tolist() == ["a"]
    folder.tidy()
    assert not list(folder.path.rglob(".writing-*"))
    folder.commit(1, beliefs("b"), [spoken("b")], {"readouts": 1})  # type: ignore
    assert folder.beliefs()["readout_id"].tolist() == ["a", "b"]


def test_a_commit_line_that_does_not_fit_is_cleared_away(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    folder.commit(0, beliefs("a"), [], {"note": "x" * 30_000})  # type: ignore
    size = (folder.path / "commits.jsonl").stat().st_size
    with no_file_beyond(size + 10), pytest.raises(UserError, match=r"commits\.jsonl: cannot be written"):
        folder.commit(1, beliefs("b"), [], {"readouts": 1})  # type: ignore
    assert (folder.path / "commits.jsonl").stat().st_size == size + 10
    assert folder.committed() == [0]
    folder.tidy()
    folder.commit(1, beliefs("b"), [], {"readouts": 1})  # type: ignore
    assert folder.committed() == [0, 1]
