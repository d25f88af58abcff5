"""Runs that are broken at random moments and gone on with: is anything lost that was committed, and are the bytes those
of the unbroken run?

    python benchmarks/faults.py [--seed 0] [--faults 10] [--experiments consistency,ask] [--executors local,shards,ray]
    python benchmarks/faults.py --executors sweep,card       a probe job on a run of truth, and a model card
    python benchmarks/faults.py --seed 3 --first 7 --faults 1 --experiments truth --executors local     fault 7 again

Tiny random models; each attempt is a process, forked from this one, which has all libraries loaded. Every fault is
drawn by the seed, the experiment, the executor and its number; a moment that depends on the speed of the machine is
drawn alike, and not met alike. What befalls it:

    killed      SIGKILL, at any moment: while it loads, reads, writes, commits or scores; of Ray the driver
    interrupted SIGINT, as by Ctrl-C
    worker      SIGKILL of an actor of Ray
    full        no file may grow beyond a size drawn at random, as on a disk that is full
    memory      no more memory than is held at the beginning and something drawn at random
    gone        the folder of runs has another name for a second, as a network folder that vanishes

First each executor reads the run undisturbed, Ray with one, two and three actors; runs that are broken have as many as
chance has it. After each fault every batch that counted before has to count still, with the same files. At the end
`check` has to find nothing, and scores, beliefs, transcripts and activations have to be those of the unbroken run to
the byte. Nothing depends on clocks: sessions are numbered, so that nodes whose clocks differ are not in each other's
way.
"""

import argparse
import multiprocessing
import os
import platform
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from doxascope import UserError
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.integrity import faults
from doxascope.experiments.run.ray_workers import ray_workers
from doxascope.experiments.run.runner import run
from doxascope.experiments.run.sessions import WHOLE, Shard
from doxascope.experiments.run.worker import one_here
from doxascope.hooks.checks.tiny_models import save_tiny
from doxascope.hooks.store import ActivationStore

SETTINGS = {
    "consistency": ["items=40", "batch_items=1", "fork.methods=[]", "capture={layers: [0]}"],
    "truth": ["items=12", "batch_items=1", "stated.numbers=[]", "capture.sites=[resid_post]"],
    "bscore": ["items=4", "runs=2", "turns=4", "batch_items=1"],
    "rationality": ["items=4", "pool=60", "iterations=2", "prompts={standard: ''}", "batch_items=1"],
    "ask": ["answers=[letters]", "batch_items=1"],
    "martingale": [
        *("items=10", "gate_urns=0", "generation.max_new_tokens=24", "debate.max_new_tokens=8", "debate.turns=2"),
        "stated.judges={}",
    ],
}
ALIKE = ["bootstrap_draws=20", "model.threads=1"]
ACTORS = (1, 2, 3)
LOADING = 6.0
"""Seconds within which a process that has begun is killed, if it is not killed after a commit."""
KINDS = {
    "local": ("killed", "interrupted", "full", "memory", "gone"),
    "shards": ("killed", "interrupted", "full", "memory"),
    "ray": ("killed", "worker"),
    "sweep": ("killed", "interrupted", "full", "memory"),
    "card": ("killed", "interrupted", "full", "memory"),
}
EVERY = ("killed", "interrupted", "worker", "full", "memory", "gone")
TABLE = "id,question,option_1,option_2,truth\n" + "".join(f"q{i},Is {i} even?,yes,no,yes\n" for i in range(8))
SWEPT = ["study={permutations: 9, refits: 20, penalties: [1.0], folds: 3, control_draws: 2, transfer: []}"]
SET = """{version: 1, runs: {consistency: {items: 3, registered.n: 3, bootstrap_draws: 20, fork.methods: []},
 truth: {items: 6, bootstrap_draws: 20, stated.numbers: []}}}"""
FORK = multiprocessing.get_context("fork")


class Trial:
    """One experiment and executor, and a run that is broken again and again."""

    def __init__(self, experiment: str, executor: str, model: Path, place: Path, draw: random.Random) -> None:
        self.experiment, self.executor, self.draw = experiment, executor, draw
        material = None
        if experiment == "ask":
            (place / "questions.csv").write_text(TABLE)
            material = str(place / "questions.csv")
        self.given = load_config(experiment, [*SETTINGS[experiment], *ALIKE], str(model), material=material)
        self.out = place / executor
        self.unbroken = place / (f"unbroken-{executor}" if executor in OTHERS else "unbroken")
        self.counts: Counter[str] = Counter()
        self.lost = 0

    def work(self, out: Path, part: Shard, actors: int) -> None:
        """What is broken."""
        run(*self.given, out, shard=part, workers=ray_workers(actors) if actors else one_here)

    def whole(self) -> bool:
        """Whether it has ended."""
        return any(self.out.glob("*/scores.json"))

    def begin(
        self, out: Path, limit: int | None = None, actors: int | None = None, memory: int | None = None
    ) -> list[BaseProcess]:
        """The processes that read the run; of Ray as many actors as are asked for, or as chance has it."""
        parts = [Shard(i, 2) for i in (1, 2)] if self.executor == "shards" else [WHOLE]
        n = (actors or self.draw.choice(ACTORS)) if self.executor == "ray" else 0
        given = [(out, part, n, limit, memory) for part in parts]
        begun: list[BaseProcess] = [FORK.Process(target=self._read, args=each) for each in given]
        for process in begun:
            process.start()
        return begun

    def _read(self, out: Path, part: Shard, actors: int, limit: int | None, memory: int | None) -> None:
        """In a process of its own, silently. It ends with 2 where the command line says a line, with 1 elsewhere."""
        said, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        if memory is not None:
            held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (held + memory, resource.RLIM_INFINITY))
        try:
            self.work(out, part, actors)
        except (UserError, OSError, MemoryError, KeyboardInterrupt):
            os._exit(2)
        except Exception as error:
            if memory is not None and "alloc" in str(error):  # as torch says it
                os._exit(2)
            os.write(said, traceback.format_exc().encode())
            os._exit(1)

    def counted(self) -> dict[int, Any]:
        """Batch -> its files, of those that count."""
        for manifest in self.out.glob("*/manifest.json"):
            return {commit["batch"]: commit["files"] for commit in RunFolder(manifest.parent).commits()}
        return {}

    def break_once(self) -> None:
        """Begin, or go on, until something befalls it; a run that ends before that is begun anew."""
        before = self.counted()
        kind = self.draw.choice(KINDS[self.executor])
        limit = self.draw.randrange(200, 60_000) if kind == "full" else None
        begun = self.begin(self.out, limit, memory=self.draw.randrange(2**20, 2**28) if kind == "memory" else None)
        victim = self.draw.choice(begun)
        if kind in ("full", "memory"):
            victim.join()
            befell = victim.exitcode != 0  # of memory a library may abort
        else:
            self._wait(victim, len(before), committed=kind != "killed" or self.draw.random() < 0.7)
            befell = victim.is_alive() and self._strike(kind, victim)
        for process in begun:
            if process is not victim or kind in ("worker", "gone"):
                process.join()
        victim.join()
        if any(process.exitcode == 1 for process in begun):
            self.counts["TRACEBACK"] += 1
        after = self.counted()
        self.lost += sum(after.get(batch) != files for batch, files in before.items())
        self.counts[kind] += befell
        if self.whole():
            self.compare()
            shutil.rmtree(self.out)

    def _wait(self, victim: BaseProcess, n: int, committed: bool) -> None:
        """Up to a moment soon after a commit, or any."""
        if committed:
            while victim.is_alive() and len(list(self._lines())) <= n:
                time.sleep(0.005)
            time.sleep(self.draw.uniform(0, 0.3))
        else:
            victim.join(self.draw.uniform(0, LOADING))

    def _lines(self) -> list[bytes]:
        return [line for file in self.out.glob("*/commits*.jsonl") for line in file.read_bytes().splitlines()]

    def _strike(self, kind: str, victim: BaseProcess) -> bool:
        if kind in ("killed", "interrupted"):
            os.kill(victim.pid or 0, signal.SIGKILL if kind == "killed" else signal.SIGINT)
            return True
        if kind == "gone":
            away = self.out.with_name("away")
            self.out.rename(away)
            victim.join(1)
            shutil.rmtree(self.out, ignore_errors=True)
            away.rename(self.out)
            return True
        actors = [pid for pid in descendants(victim.pid or 0) if command(pid).startswith("ray::_Actor")]
        if actors:
            os.kill(self.draw.choice(actors), signal.SIGKILL)
        return bool(actors)

    def compare(self) -> None:
        """Against the unbroken run."""
        (whole,), (other,) = (list(place.iterdir()) for place in (self.unbroken, self.out))
        same = content(whole) == content(other) and not list(faults(RunFolder(other)))
        self.counts["same" if same else "DIFFERENT"] += 1

    def finish(self, actors: int | None = None) -> None:
        """Begin, or go on, undisturbed, and compare."""
        for process in self.begin(self.out, actors=actors):
            process.join()
        self.compare()
        shutil.rmtree(self.out)


class Sweep(Trial):
    """A probe job on a run that is whole."""

    kept = ("sweep.json", "card.json", "probe.npz", "probe.json")

    def work(self, out: Path, part: Shard, actors: int) -> None:
        """See `Trial.work`."""
        from doxascope.experiments.probing.jobs import sweep_job
        from doxascope.experiments.probing.settings import load_job

        sweep_job(load_job("probe", [next((out.parent / "swept").iterdir())], [*SWEPT, "neutral=0"]), out)

    def whole(self) -> bool:
        """See `Trial.whole`."""
        return any(self.out.glob("*/report.html"))

    def counted(self) -> dict[int, Any]:
        """Arrays that are kept, by a number of their name."""
        return {hash(file.name): file.read_bytes() for file in self.out.glob("*/*/*.npz")}

    def _lines(self) -> list[bytes]:
        return [bytes(file.name, "utf-8") for file in self.out.glob("*/*/*.npz")]

    def compare(self) -> None:
        """Against the undisturbed one."""
        (whole,), (other,) = (list(place.iterdir()) for place in (self.unbroken, self.out))
        same = all((whole / name).read_bytes() == (other / name).read_bytes() for name in self.kept)
        self.counts["same" if same else "DIFFERENT"] += 1


class CardOf(Sweep):
    """A model card."""

    kept = ("card.json", "report.html")

    def work(self, out: Path, part: Shard, actors: int) -> None:
        """See `Trial.work`."""
        from doxascope.experiments.compare.card import make_card

        (out.parent / "set.yaml").write_text(SET)
        make_card(str(out.parent / "tiny"), out, chosen=str(out.parent / "set.yaml"))

    def counted(self) -> dict[int, Any]:
        """See `Trial.counted`."""
        manifests = self.out.glob("*/runs/*/manifest.json")
        runs = {file.parent.name: list(RunFolder(file.parent).commits()) for file in manifests}
        return {hash((name, one["batch"])): one["files"] for name, lines in runs.items() for one in lines}

    def _lines(self) -> list[bytes]:
        return [line for file in self.out.glob("*/runs/*/commits.jsonl") for line in file.read_bytes().splitlines()]


OTHERS = {"sweep": Sweep, "card": CardOf}


def content(path: Path) -> list[bytes]:
    """All that is read and scored, in the order of the batches, whatever the files are called."""
    files = [path / "scores.json", path / "published.csv"]
    commits = sorted(RunFolder(path).commits(), key=lambda commit: commit["batch"])
    files += [path / name for commit in commits for name in commit["files"]]
    store = ActivationStore.open(path).parts if (path / "activations").is_dir() else []
    return [file.read_bytes() for file in [*files, *(part.path for part in store)]]


def descendants(pid: int) -> list[int]:
    """Processes that a process has begun, and those that these have."""
    below: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        below.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += below.get(one, [])
    return found[1:]


def command(pid: int) -> str:
    """With which a process was begun, or what it calls itself."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def save_model(experiment: str, folder: Path) -> None:
    """A tiny model whose tokenizer knows the words of the experiment's settings."""
    import doxascope

    save_tiny(folder, [(Path(doxascope.__path__[0]) / "configs" / f"{experiment}.yaml").read_text("utf-8")])


def _asked(experiments: Sequence[str], executors: Sequence[str]) -> list[tuple[str, str]]:
    """Each experiment with each executor of runs; jobs and cards are of their own experiment, whatever is asked for."""
    runs = [(experiment, executor) for experiment in experiments for executor in executors if executor not in OTHERS]
    return runs + [("truth", executor) for executor in executors if executor in OTHERS]


def _begun(experiment: str, executor: str, place: Path, draw: random.Random) -> Trial:
    """A trial with its model, and its undisturbed outcome."""
    if not place.exists():
        place.mkdir()
        (process := FORK.Process(target=save_model, args=(experiment, place / "tiny"))).start()
        process.join()
    trial = OTHERS.get(executor, Trial)(experiment, executor, place / "tiny", place, draw)
    if executor == "sweep":
        (process := Trial(experiment, "local", place / "tiny", place, draw).begin(place / "swept")[0]).join()
    if not trial.unbroken.exists():
        first = trial if executor in OTHERS else Trial(experiment, "local", place / "tiny", place, draw)
        (process := first.begin(trial.unbroken)[0]).join()
    return trial


def main(arguments: Sequence[str]) -> int:
    """Break, go on, compare and count."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--faults", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--experiments", default=",".join(SETTINGS))
    parser.add_argument("--executors", default="local,shards,ray,sweep,card")
    parser.add_argument("--first", type=int, default=0, help="the number of the first fault")
    given = parser.parse_args(arguments)
    names = [name for name in given.executors.split(",") if name != "ray" or find_spec("ray")]
    libraries = ", ".join(f"{name} {version(name)}" for name in ("doxascope", "torch", "ray") if find_spec(name))
    print(f"`python benchmarks/faults.py {' '.join(arguments)}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {libraries}\n")
    kinds = (*EVERY, "same", "DIFFERENT", "TRACEBACK")
    print(f"| run | {' | '.join(kinds)} | committed and lost | s |\n|{'---|' * (len(kinds) + 3)}")
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        for experiment, executor in _asked(given.experiments.split(","), names):
            place = Path(name) / experiment
            draw = random.Random(f"{given.seed} {experiment} {executor}")
            trial = _begun(experiment, executor, place, draw)
            began, number = time.monotonic(), given.first
            for actors in ACTORS if executor == "ray" else (None,):
                trial.finish(actors)
            while sum(trial.counts[kind] for kind in EVERY) < given.faults:
                trial.draw = random.Random(f"{given.seed} {experiment} {executor} {number}")
                trial.break_once()
                number += 1
            trial.finish()
            counts = " | ".join(str(trial.counts[kind]) for kind in kinds)
            took = time.monotonic() - began
            print(f"| {experiment}, {executor} | {counts} | {trial.lost} | {took:.0f} |", flush=True)
            wrong += trial.lost + trial.counts["DIFFERENT"] + trial.counts["TRACEBACK"]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
