import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock

from doxascope import UserError
from doxascope.experiments.engine.config import load_config
from doxascope.experiments.engine.runner import run
from doxascope.experiments.runs.folder import RunFolder
from doxascope.experiments.runs.shard import WHOLE, Shard, parse_shard
from doxascope.hooks.model.spec import resolve_model

Run = Callable[..., RunFolder]


SETTINGS = ["items=5", "batch_items=1", "bootstrap_draws=50", "fork.methods=[]"]
ONE = "methods={free: {forms: ['{option}']}}"


@pytest.fixture(scope="module")
def run_tiny(tiny_folder: Path) -> Run:
    experiment, config = load_config("consistency", [*SETTINGS, ONE])
    config = config.model_copy(update={"model": resolve_model(str(tiny_folder))})

    def run_it(out: Path, *shard: int) -> RunFolder:
        return run(experiment, config, out, shard=Shard(*shard) if shard else WHOLE)

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
    for name in ("scores.json", "published.csv", "beliefs/part-00004.parquet"):
        assert (part.path / name).read_bytes() == (whole / name).read_bytes()
    manifest = json.loads((part.path / "manifest.json").read_text())
    assert manifest["status"] == "complete"
    assert len(manifest["sessions"]) == 3
    assert all(session["ended"] for session in manifest["sessions"])


def test_shards_at_the_same_time(run_tiny: Run, whole: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(lambda index: run_tiny(tmp_path / "parts", index, 2), (1, 2)))
    assert (parts[0].path / "scores.json").read_bytes() == (whole / "scores.json").read_bytes()


def test_a_shard_that_stopped_goes_on_where_it_was(run_tiny: Run, tmp_path: Path) -> None:
    part = run_tiny(tmp_path / "parts", 1, 2)
    commits = part.path / "commits-1-of-2.jsonl"
    commits.write_text(commits.read_text().splitlines()[0] + '\n{"batch": 2, "rea')
    assert RunFolder(part.path).committed() == [0]
    assert run_tiny(tmp_path / "parts", 1, 2).committed() == [0, 2, 4]
    assert all(json.loads(line)["readouts"] for line in commits.read_text().splitlines())


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
