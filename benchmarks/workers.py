"""Throughput of two workers of one thread each, as a ratio to that of one, in one run.

    python benchmarks/workers.py [--model smollm2-135m] [--items 24] [--rounds 2] [-o KEY=VALUE ...]

The items of a consistency run are read by one process, by two that are shards of it, and, where Ray is installed, by
one and by two of its actors. What is timed ends with the scores, and begins when all workers have loaded the model, of
which a run says nothing: so each way is also timed with one batch a worker, and that is taken away.
"""

import argparse
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np

SPAWN = multiprocessing.get_context("spawn")
ONE, TWO, RAY_ONE, RAY_TWO = "one process", "two shards", "one actor of Ray", "two actors of Ray"
BATCH = 2


def read(model: str, settings: Sequence[str], out: Path, shard: str, actors: int) -> None:
    """One process's part of the run."""
    from doxascope.experiments.run.config import load_config
    from doxascope.experiments.run.ray_workers import ray_workers
    from doxascope.experiments.run.runner import run
    from doxascope.experiments.run.sessions import parse_shard
    from doxascope.experiments.run.worker import one_here

    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    workers = ray_workers(actors) if actors else one_here
    run(*load_config("consistency", settings, model), out, shard=parse_shard(shard), workers=workers)


def seconds(model: str, settings: Sequence[str], way: str, items: int) -> float:
    """From the start of the processes to the scores."""
    shards = ["1/2", "2/2"] if way == TWO else ["1/1"]
    actors = {RAY_ONE: 1, RAY_TWO: 2}.get(way, 0)
    with tempfile.TemporaryDirectory() as name:
        given = (model, [*settings, f"items={items}"], Path(name))
        processes = [SPAWN.Process(target=read, args=(*given, shard, actors)) for shard in shards]
        began = time.monotonic()
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        if not any(Path(name).glob("*/scores.json")):
            raise SystemExit(f"{way}: was not scored; the bench is wrong")
        return time.monotonic() - began


def main(arguments: Sequence[str]) -> None:
    """Print seconds an item, and the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--items", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("-o", dest="settings", action="append", default=[])
    given = parser.parse_args(arguments)
    ways = [ONE, TWO, *([RAY_ONE, RAY_TWO] if find_spec("ray") else [])]
    settings = ["model.threads=1", f"batch_items={BATCH}", "bootstrap_draws=20", *given.settings]
    libraries = ", ".join(f"{name} {version(name)}" for name in ("doxascope", "torch", "ray") if find_spec(name))
    print(f"`python benchmarks/workers.py {' '.join(arguments)}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {libraries}\n")
    least = 2 * BATCH
    took: dict[str, list[Any]] = {way: [] for way in ways}
    for _ in range(given.rounds):
        for way in ways:
            whole, begun = (seconds(given.model, settings, way, n) for n in (given.items + least, least))
            took[way].append((whole, (whole - begun) / given.items))
            print(f"{way}: {whole:.1f} s, {begun:.1f} s with {least} items", file=sys.stderr, flush=True)
    print("| read by | s in all | s an item | throughput |\n|---|---|---|---|")
    means = {way: np.median(took[way], axis=0) for way in ways}
    for way, (whole, each) in means.items():
        beside = means[RAY_ONE if way in (RAY_ONE, RAY_TWO) else ONE][1]
        print(f"| {way} | {whole:.1f} | {each:.3f} | {beside / each:.2f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
