import errno
import fcntl
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from doxascope import UserError
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.integrity import faults
from doxascope.experiments.run.runner import run
from doxascope.experiments.run.sessions import WHOLE, Shard, parse_shard
from doxascope.experiments.run.worker import MOST_BATCHES, batches
from doxascope.hooks.model.spec import resolve_model
from doxascope.hooks.store.commits import append_commit

Run = Callable[..., RunFolder]


SETTINGS = ["items=5", "batch_items=1", "bootstrap_draws=50", "fork.methods=[]"]
ONE = "methods={free: {forms: ['{option}']}}"


@pytest.fixture(scope="module")
def run_tiny(tiny_folder: Path) -> Run:
    experiment, config = load_config("consistency", [*SETTINGS, ONE])
    config = config.model_copy(update={"model": resolve_model(str(tiny_folder))})

    def run_it(out: Path, *shard: int, take_over: bool = False) -> RunFolder:
        return run(experiment, config, out, shard=Shard(*shard) if shard else WHOLE, take_over=take_over)

    return run_it


@pytest.fixture(scope="module")
def whole(run_tiny: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_tiny(tmp_path_factory.mktemp("whole")).path


def test_shards_in_any_order_give_the_bytes_of_the_whole_run(run_tiny: Run, whole: Path, tmp_path: Path) -> None:
    for done, index in enumerate((2, 3)):
        part = run_tiny(tmp_path / "parts", index, 3)
        assert not (part.path / "scores.json").exists()
        assert json.loads((part.path / "manifest.json").read_text())["status"] == "running"
        assert part.missing == 3 - done
    part = run_tiny(tmp_path / "parts", 1, 3)
    for name in ("scores.json", "published.csv"):
        assert (part.path / name).read_bytes() == (whole / name).read_bytes()
    for own, other in zip(*(sorted((path / "beliefs").iterdir()) for path in (part.path, whole)), strict=True):
        assert own.read_bytes() == other.read_bytes()
    assert json.loads((part.path / "manifest.json").read_text())["status"] == "complete"
    assert [session["shard"] for session in part.sessions] == ["2-of-3", "3-of-3", "1-of-3"]
    assert all(session["ended"] for session in part.sessions)
    assert not list(faults(part))


def test_shards_at_the_same_time(run_tiny: Run, whole: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(lambda index: run_tiny(tmp_path / "parts", index, 2), (1, 2)))
    assert (parts[0].path / "scores.json").read_bytes() == (whole / "scores.json").read_bytes()


def test_a_shard_that_stopped_goes_on_where_it_was(run_tiny: Run, tmp_path: Path) -> None:
    part = run_tiny(tmp_path / "parts", 1, 2)
    commits = part.path / "commits-s00001.jsonl"
    commits.write_text(commits.read_text().splitlines()[0] + '\n{"batch": 2, "rea')
    assert RunFolder(part.path).committed() == [0]
    assert run_tiny(tmp_path / "parts", 1, 2).committed() == [0, 2, 4]
    assert (part.path / "commits-s00002.jsonl").read_text().count("\n") == 2


def test_the_idle_take_over_what_others_have_not_read(run_tiny: Run, whole: Path, tmp_path: Path) -> None:
    done = run_tiny(tmp_path / "parts", 2, 3, take_over=True)  # the others never come
    assert (done.path / "scores.json").read_bytes() == (whole / "scores.json").read_bytes()
    before = {path: path.read_bytes() for path in done.path.rglob("*") if path.is_file()}
    late = run_tiny(tmp_path / "parts", 1, 3)  # one that comes then finds nothing to do
    changed = {path.name for path, data in before.items() if path.read_bytes() != data}
    assert changed <= {"manifest.json", "report.html", "report.json"}  # which say how many sessions there were
    assert not list(faults(late))


def test_of_two_that_read_the_same_batch_one_counts(run_tiny: Run, whole: Path, tmp_path: Path) -> None:
    """A shard that is started twice, on a disk without locks, or that was taken for dead and was not."""
    path = run_tiny(tmp_path / "parts", 1, 2).path
    late = RunFolder(path, Shard(1, 2))
    session = late.begin_session(shard="1-of-2", conditions=RunFolder(path).sessions[0]["conditions"])
    (own,) = RunFolder(path).path.glob("commits-s*.jsonl")
    first = json.loads(own.read_text().splitlines()[0])
    for name in first["files"]:
        table = (path / name).read_bytes()
        (path / name.replace("-s00001", session.mark)).write_bytes(table + b"\n")
    late_files = {name.replace("-s00001", session.mark): "0" * 64 for name in first["files"]}
    append_commit(path / f"commits{session.mark}.jsonl", 0, {"readouts": 1, "files": late_files})
    done = run_tiny(tmp_path / "parts", 2, 2)
    assert (done.path / "scores.json").read_bytes() == (whole / "scores.json").read_bytes()
    append_commit(own, 1, {"readouts": 1, "files": late_files})  # after the run was scored: nobody reads it
    assert not list(faults(RunFolder(path)))
    assert RunFolder(path).beliefs().equals(RunFolder(whole).beliefs())


def test_shards_need_no_locks_and_the_whole_run_says_so(
    run_tiny: Run, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: Any
) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", flock)
        patched.setenv("DOXASCOPE_CACHE", str(tmp_path / "cache"))
        with pytest.raises(UserError, match=r"no file locks .*read the run in shards"):
            run_tiny(tmp_path / "parts")
        with ThreadPoolExecutor(2) as pool:
            parts = list(pool.map(lambda index: run_tiny(tmp_path / "parts", index, 2), (1, 2)))
        assert not parts[0].missing
        assert not (parts[0].path / "scores.json").exists()
        done = command_line("report", str(parts[0].path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (parts[0].path / "scores.json").read_bytes() == (whole / "scores.json").read_bytes()
    assert parts[0].manifest["status"] == "complete"


def test_a_machine_of_another_kind_is_refused_before_the_scores(run_tiny: Run, tmp_path: Path) -> None:
    path = run_tiny(tmp_path / "parts", 1, 2).path
    RunFolder(path, Shard(1, 2)).begin_session(shard="1-of-2", conditions="other")
    with pytest.raises(UserError, match="session 00002 read under other conditions"):
        run_tiny(tmp_path / "parts", 2, 2)


def test_many_items_make_few_files(tiny_folder: Path) -> None:
    _, config = load_config("consistency", ["items=1", "batch_items=4"], str(tiny_folder))
    items: list[Any] = list(range(100_001))
    found = batches(config, items)
    assert len(found) <= MOST_BATCHES
    assert [item for batch in found for item in batch] == items
    assert all(len(batch) % config.batch_items == 0 for batch in found[:-1])
    assert len(batches(config, items[:400])) == 100


def test_nobody_writes_what_another_writes(run_tiny: Run, tmp_path: Path) -> None:
    path = run_tiny(tmp_path / "parts", 1, 2).path
    with FileLock(path / ".lock-1-of-2"):
        for shard in ((1, 2), (1, 1)):
            with pytest.raises(UserError, match="another process is writing this run"):
                run_tiny(tmp_path / "parts", *shard)
        run_tiny(tmp_path / "parts", 2, 2)


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "1/0", "-1/2", "a/b", "1/2/3"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="give i/n"):
        parse_shard(text)


def test_shards_share_all_batches_out() -> None:
    shards = [parse_shard(f"{index}/3") for index in (1, 2, 3)]
    assert [sum(batch in shard for shard in shards) for batch in range(10)] == [1] * 10
