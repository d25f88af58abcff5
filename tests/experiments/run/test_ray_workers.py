"""Runs whose batches are read by actors of Ray, on a cluster of this machine alone."""

import importlib.util
import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from doxascope import UserError
from doxascope.base.parallel import sizes, spread_over
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.integrity import faults
from doxascope.experiments.run.ray_workers import ray_workers
from doxascope.experiments.run.runner import run
from doxascope.hooks.store import ActivationStore

HAS_RAY = importlib.util.find_spec("ray") is not None
with_ray = pytest.mark.skipif(not HAS_RAY, reason="ray is not installed: pip install doxascope[ray]")
SETTINGS = ("items=12", "batch_items=1", "bootstrap_draws=20", "fork.methods=[]", "model.threads=1")
FREE = "methods={free: {forms: ['{option}']}}"
SAME = ("scores.json", "published.csv", "config.yaml", "items.jsonl")


@pytest.fixture(scope="module")
def given(tiny_folder: Path) -> tuple[Any, Any]:
    return load_config("consistency", [*SETTINGS, FREE, "capture={layers: [0, -1]}"], str(tiny_folder))


@pytest.fixture(scope="module")
def whole(given: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(*given, tmp_path_factory.mktemp("whole")).path


def content(path: Path) -> dict[str, bytes]:
    """What has to be the same, whoever has read it."""
    files = [path / name for name in SAME]
    files += [file for room in ("beliefs", "transcripts", "activations") for file in (path / room).glob("part-*")]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@with_ray
def test_two_actors_give_the_bytes_of_one_process(given: tuple[Any, Any], whole: Path, tmp_path: Path) -> None:
    done = run(*given, tmp_path, workers=ray_workers(2), verify=1).path
    assert content(done) == content(whole)
    assert json.loads((done / "manifest.json").read_text())["verification"]["readouts"]
    assert not list(ActivationStore.open(done).check())


@with_ray
def test_the_command_line_reads_by_ray(
    tiny_folder: Path, whole: Path, command_line: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[Any, ...]] = []
    where = "doxascope.experiments.run.ray_workers.ray_workers"
    monkeypatch.setattr(where, lambda *asked: opened.append(asked) or ray_workers(*asked))
    options = [part for one in (*SETTINGS, FREE, "capture={layers: [0, -1]}") for part in ("-o", one)]
    named = ("-m", str(tiny_folder), "--executor", "ray", "--workers", "1", "--out", str(tmp_path))
    done = command_line("run", "consistency", *named, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.glob("consistency-*")
    assert content(folder) == content(whole)
    assert opened == [(1, None, None)]


@with_ray
def test_actors_that_are_killed_and_a_driver_that_stops_lose_nothing(
    given: tuple[Any, Any], whole: Path, tmp_path: Path
) -> None:
    def after(batches: int, then: Callable[[Any], None], n: int) -> Any:
        """Opens workers that do so many batches before something befalls them."""

        @contextmanager
        def opened(*asked: Any) -> Iterator[Any]:
            with ray_workers(n)(*asked) as at_work:
                mine: Any = at_work
                read = mine.read

                def interrupted(*asked: Any) -> Iterator[Any]:
                    for done, one in enumerate(read(*asked)):
                        if done == batches:
                            then(mine)
                        yield one

                mine.read = interrupted
                yield mine

        return opened

    def stop(_: Any) -> None:
        raise KeyboardInterrupt

    def kill_one(workers: Any) -> None:
        ray = pytest.importorskip("ray")
        os.kill(ray.get(workers._actors[0].__ray_call__.remote(lambda _: os.getpid())), signal.SIGKILL)

    with pytest.raises(KeyboardInterrupt):
        run(*given, tmp_path, workers=after(4, stop, 1))
    done = run(*given, tmp_path, workers=after(2, kill_one, 2))
    assert content(done.path) == content(whole)
    assert not list(faults(done))
    assert len(done.sessions) == 2


@with_ray
def test_what_a_worker_cannot_do_is_said_in_its_own_line(tiny_folder: Path, tmp_path: Path) -> None:
    experiment, config = load_config("consistency", [*SETTINGS, "capture={layers: [7]}"], str(tiny_folder))
    with pytest.raises(UserError, match="no layer 7"):
        run(experiment, config, tmp_path, workers=ray_workers(1))


def third(n: int) -> tuple[int, float]:
    if n == 13:
        raise UserError("thirteen: is not read")
    return n, n / 3


@pytest.mark.parametrize("executor", ["local", pytest.param("ray", marks=with_ray)])
def test_tasks_side_by_side_give_what_they_give_one_after_the_other(executor: str) -> None:
    with spread_over(2, executor, local=ProcessPoolExecutor) as spread:
        assert list(spread(third, range(12))) == list(map(third, range(12)))
        with pytest.raises(UserError, match="thirteen: is not read"):
            list(spread(third, range(10, 20)))


def test_a_cluster_that_is_too_small_is_refused() -> None:
    assert sizes({"CPU": 8.0, "GPU": 4.0}, None, None, 1) == (4, 1.0)
    assert sizes({"CPU": 8.0}, None, None, 1) == (1, 0.0)
    assert sizes({"CPU": 8.0, "GPU": 4.0}, None, 2, 1) == (2, 2)
    for there, n, gpus in (({"CPU": 8.0}, 1, 1.0), ({"CPU": 2.0}, 3, None), ({"CPU": 8.0, "GPU": 2.0}, 3, None)):
        with pytest.raises(UserError, match="take fewer workers"):
            sizes(there, n, gpus, 1)


@pytest.mark.skipif(HAS_RAY, reason="ray is installed")
def test_without_ray_the_line_says_what_brings_it(command_line: Callable[..., Any], tmp_path: Path) -> None:
    done = command_line("run", "consistency", "--executor", "ray", cwd=tmp_path)
    assert done.returncode == 2
    assert 'pip install "doxascope[ray]"' in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--executor", "ray", "--shard", "1/2"), "leave it out with --executor ray"),
        (("--workers", "2"), "--workers: is for Ray; give it with --executor ray"),
        (("--take-over",), "give it with --shard"),
    ],
)
def test_options_that_do_not_go_together(
    options: tuple[str, ...], said: str, command_line: Callable[..., Any], tmp_path: Path
) -> None:
    done = command_line("run", "consistency", *options, cwd=tmp_path)
    assert (done.returncode, said in done.stderr) == (2, True)
