"""Peak memory of whole runs, by their number of items: does it grow with them?

    python benchmarks/memory.py [repetitions]
    python benchmarks/memory.py RUN RUN ...

A process of its own for each figure, with a tiny random model, whose own memory is next to nothing. `reading` is the
peak when all is read and committed; `uncached` the same without the tokenizer's cache, which keeps every word that it
meets, up to 10,000 of them; `report` that of scoring and reporting what was read. Of runs that are there, the second
line measures `report` alone, and writes their scores and pages anew.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import multiprocessing
import resource
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

SIZES = (100, 300, 1000)
PHASES = ("reading", "uncached", "report")


def save_model(folder: Path) -> None:
    """A tiny random model whose tokenizer knows the texts of the game."""
    from doxascope.experiments.run.config import load_config
    from doxascope.hooks.checks.tiny_models import save_tiny

    experiment, settings = load_config("consistency", ["items=1"])
    questions = experiment.questions(settings, experiment.items(settings)[0])
    save_tiny(folder, [turn["content"] for question in questions for turn in question.conversation])


def reading(model: Path, out: Path, items: int, cached: bool) -> float:
    """Peak memory in KB when all is read."""
    from doxascope.experiments.run import runner, worker
    from doxascope.experiments.run.config import load_config

    loading = worker.open_model

    def without_cache(*args: Any, **settings: Any) -> Any:
        lm: Any = loading(*args, **settings)
        lm.tokenizer.backend_tokenizer.model._resize_cache(0)
        return lm

    worker.open_model = loading if cached else without_cache  # type: ignore
    experiment, config = load_config("consistency", [f"items={items}"], str(model))
    runner.run(experiment, config, out, scored=False)
    return peak()


def report(path: Path) -> float:
    """Peak memory in KB of `doxascope report`."""
    from doxascope.experiments.run.config import stored_config
    from doxascope.experiments.run.folder import RunFolder
    from doxascope.experiments.run.runner import report

    report(RunFolder.open(path), *stored_config(path / "config.yaml"))
    return peak()


def peak() -> float:
    """Of this process so far, in KB (macOS tells bytes)."""
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found / 1024 if sys.platform == "darwin" else found


def main(repetitions: int) -> None:
    """Print the peaks, the median of the repetitions, and what an item adds to each."""
    import doxascope

    print(f"doxascope {doxascope.__version__}, peak memory in MB, median of {repetitions}")
    print(f"{'items':>8}" + "".join(f"{phase:>10}" for phase in PHASES), flush=True)
    found = []
    with tempfile.TemporaryDirectory() as place:
        model = Path(place) / "tiny"
        alone(save_model, model)
        for items in SIZES:
            peaks = []
            for repetition in range(repetitions):
                out, other = (Path(place) / f"{items}-{repetition}-{way}" for way in ("cached", "uncached"))
                read = [alone(reading, model, folder, items, folder is out) for folder in (out, other)]
                peaks.append([*read, alone(report, next(out.iterdir()))])
            found.append(np.median(peaks, axis=0))
            print(f"{items:>8}" + "".join(f"{x / 1024:>10.1f}" for x in found[-1]), flush=True)
    slopes = np.polyfit(SIZES, np.array(found), 1)[0]
    print("KB/item " + "".join(f"{slope:>10.2f}" for slope in slopes))


def of_runs(paths: Sequence[Path]) -> None:
    """Print the peaks of reporting these runs, and what an item adds."""
    found = {}
    for path in paths:
        items = sum(1 for _ in (path / "items.jsonl").open())
        found[items] = alone(report, path)
        print(f"{items:>8}{found[items] / 1024:>10.1f}", flush=True)
    if len(found) > 1:
        print(f"KB/item {np.polyfit([*found], [*found.values()], 1)[0]:>10.2f}")


def alone(work: Callable[..., Any], *arguments: Any) -> Any:
    """What it returns in a process that has imported nothing yet."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


if __name__ == "__main__":
    given = sys.argv[1:]
    if given and not given[0].isdecimal():
        of_runs([Path(one) for one in given])
    else:
        main(int(given[0]) if given else 1)
