"""Work that is broken at random moments and gone on with: is anything lost that was committed, and are the bytes those
of the unbroken work?

    python benchmarks/faults.py [--seed 0] [--faults 10] [--experiments consistency,ask] [--executors local,shards,ray]
    python benchmarks/faults.py --record faults.jsonl --faults 1000 --minutes 60      goes on where the record ends
    python benchmarks/faults.py --seed 1 --clock --executors local     clock jumps among them
    python benchmarks/faults.py --seed 1 --clock --kinds clock         nothing but clock jumps
    python benchmarks/faults.py --seed 3 --first 7 --episodes 1 --experiments truth --executors local    episode 7 again

An episode begins with nothing; up to 24 faults befall it, one after the other, and after each the same work is begun
again; then it goes on undisturbed to its end. Every episode is drawn by the seed, the experiment, the executor and its
number; a moment that depends on the speed of the machine is drawn alike, and not met alike. What befalls it:

    killed      SIGKILL, at any moment: while it loads, reads, writes, commits or scores; of Ray the driver
    interrupted SIGINT, as by Ctrl-C
    full        no file may grow beyond a size drawn at random, as on a disk that is full
    memory      no more memory than is taken at the beginning and something drawn at random
    gone        the folder has another name for a second, as a network folder that vanishes
    readonly    nothing can be made or taken away in its folders for a second, from the beginning or from any moment
    clock       the clock jumps by up to ten years, either way, and what is at work is killed soon after (libfaketime)
    worker, raylet, store   SIGKILL of an actor of Ray, of the process of its node, of its control store

After each fault everything that counted before has to count still, with the same files, and no process may have ended
in a traceback. At the end `check` has to find nothing, and scores, beliefs, transcripts, activations, probes, cards and
comparisons have to be those of the unbroken work to the byte; but where memory was short, matrices may have been
multiplied in another way (their library does so without a word if it gets no buffer), and numbers may differ in their
last bits (1e-5), which is counted by itself. Each attempt is a process, forked from this one, which
has all libraries loaded.
"""

import argparse
import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import platform
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from breakable import SETTINGS, WORKS, Run, asked, save_model
from processes import as_a_user, command, descendants, readonly, taken

from doxascope.base.errors import UserError, lacks_memory
from doxascope.experiments.run.sessions import Shard

CLOCK = "FAKETIME_TIMESTAMP_FILE"
"""In the environment of a process whose clock can jump: the file that says by how much."""
LIBRARY = "faketime/libfaketimeMT.so.1"
MOST = 24
"""Faults of an episode."""
PATIENCE = 300
"""Seconds after which a process that has not ended hangs."""
HERE = ("killed", "interrupted", "full", "memory", "gone", "readonly", "clock")
RAY = ("killed", "worker", "raylet", "store")
KINDS = (*HERE, *RAY[1:])
NAMES = {"worker": "ray::_Actor", "raylet": "raylet/raylet", "store": "gcs_server"}
"""What the processes of Ray are called."""
YEARS = 3650
COSTS: dict[tuple[Path, str], float] = {}
"""Unbroken outcome and executor -> seconds of the processor that it takes."""
LOADED = ("doxascope", "transformers", "torch", "matplotlib", "pandas", "scipy", "sklearn", "pyarrow", "h5py")
FORK = multiprocessing.get_context("fork")


class Episode:
    """Work that is broken again and again, until it is whole."""

    def __init__(self, work: Run, draw: random.Random, kinds: Sequence[str]) -> None:
        self.broken, self.draw, self.kinds = work, draw, kinds
        self.befell: list[str] = []
        self.tracebacks: list[str] = []
        self.lost = self.hung = 0
        self.short_of_memory = False

    def record(self) -> dict[str, Any]:
        """Break it, let it end, and say what became of it."""
        began = time.monotonic()
        shutil.rmtree(self.broken.out, ignore_errors=True)
        attempts = 0
        while attempts < MOST and not self.broken.whole(self.broken.out):
            self._break_once(self.draw.choice(self.kinds))
            attempts += 1
        self._join(self._begin())
        differs = self.broken.differs() if self.broken.whole(self.broken.out) else ["it does not end"]
        found = {"befell": self.befell, "lost": self.lost, "hung": self.hung, "same": not differs, "differs": differs}
        found |= {"rounded": bool(differs) and self.short_of_memory and self.broken.rounded()}
        return found | {"tracebacks": self.tracebacks, "s": round(time.monotonic() - began, 1)}

    def _begin(self, limit: int | None = None, memory: int | None = None) -> list[BaseProcess]:
        """The processes that do it."""
        self.said, told = FORK.Pipe(duplex=False)
        seed = self.draw.random()
        given = [(self.broken, part, seed, limit, memory, told) for part in self.broken.parts]
        begun: list[BaseProcess] = [FORK.Process(target=attempt, args=each) for each in given]
        for process in begun:
            process.start()
        told.close()
        return begun

    def _break_once(self, kind: str) -> None:
        """Begin it, or go on, until something befalls it."""
        before, progress = self.broken.counted(), self.broken.progress()
        limit = int(10 ** self.draw.uniform(2, 5.5)) if kind == "full" else None
        memory = int(2 ** self.draw.uniform(16, 28)) if kind == "memory" else None
        self.short_of_memory |= kind == "memory"
        first = kind == "readonly" and self.broken.out.exists() and self.draw.random() < 0.5
        with readonly(self.broken.out) if first else contextlib.nullcontext():
            begun = self._begin(limit, memory)
            victim = self.draw.choice(begun)
            if first:
                victim.join(1)
        befell = first
        if kind in ("full", "memory"):
            self._join(begun)
            befell = any(process.exitcode != 0 for process in begun)
        elif not first:
            self._wait(victim, progress, committed=self.draw.random() < 0.5)
            befell = victim.is_alive() and self._strike(kind, victim)
        self._join(begun)
        after = self.broken.counted()
        self.lost += sum(after.get(name) != files for name, files in before.items())
        self.befell += [kind] * befell

    def _wait(self, victim: BaseProcess, progress: int, committed: bool) -> None:
        """Up to a moment soon after a commit, or any; in any case until it is at work."""
        while victim.is_alive() and not self.said.poll(0.005):
            pass
        if committed:
            while victim.is_alive() and self.broken.progress() <= progress:
                victim.join(0.01)
            moment = taken(victim) + self.draw.uniform(0, 0.1)
        else:
            moment = self.draw.uniform(0, self.broken.cost)
        while victim.is_alive() and taken(victim) < moment:
            victim.join(0.01)

    def _strike(self, kind: str, victim: BaseProcess) -> bool:
        """Whether there was something to strike."""
        pid, out = victim.pid or 0, self.broken.out
        match kind:
            case "killed" | "interrupted":
                os.kill(pid, signal.SIGKILL if kind == "killed" else signal.SIGINT)
            case "clock":
                Path(os.environ[CLOCK]).write_text(f"{self.draw.randint(-YEARS, YEARS):+}d")
                victim.join(self.draw.uniform(1, 3))  # it is seen within a second
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            case "gone":
                if not out.exists():
                    return False
                away = out.with_name("away")
                out.rename(away)
                victim.join(1)
                while away.exists():  # what is at work may make the folder anew at any moment
                    shutil.rmtree(out, ignore_errors=True)
                    with contextlib.suppress(OSError):
                        away.rename(out)
            case "readonly":
                with readonly(out):
                    victim.join(1)
            case _:
                struck = [child for child in descendants(pid) if NAMES[kind] in command(child)]
                for child in struck and [self.draw.choice(struck)]:
                    os.kill(child, signal.SIGKILL)
                return bool(struck)
        return True

    def _join(self, begun: Sequence[BaseProcess]) -> None:
        """Wait until all have ended, and hear what they say."""
        for process in begun:
            process.join(PATIENCE)
            if process.is_alive():
                self.hung += 1
                process.kill()
                process.join()
        while self.said.poll():
            try:
                word = self.said.recv()
            except EOFError:
                break
            self.tracebacks += [word] if word else []


def attempt(work: Run, part: Shard, seed: float, limit: int | None, memory: int | None, told: Any) -> None:
    """In a process of its own, silently. It ends with 2 where the command line says a line, with 1 elsewhere."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        as_a_user()
        told.send("")
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        if memory is not None:
            taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (taken + memory, resource.RLIM_INFINITY))
        work.work(work.out, part, random.Random(seed))
    except (UserError, OSError, MemoryError, KeyboardInterrupt):
        os._exit(2)
    except Exception as error:
        if memory is not None and lacks_memory(error):
            os._exit(2)
        told.send(traceback.format_exc())
        os._exit(1)
    os._exit(0)


def kinds(executor: str, given: str) -> list[str]:
    """What befalls the work of an executor, of the kinds that are asked for; all if none are."""
    here = RAY if executor == "ray" else HERE if CLOCK in os.environ else HERE[:-1]
    return [kind for kind in here if not given or kind in given.split(",")]


def begun(experiment: str, executor: str, place: Path) -> Run:
    """Work with its model and its unbroken outcome; what that imports is loaded here, too."""
    work = WORKS[executor](experiment, executor, place)

    unbroken = Run(experiment, "local", place) if work.kind == "run" else work

    def first() -> None:
        if not (place / "tiny").exists():
            save_model(experiment, place)
        work.prepare()
        whole(work.unbroken)

    def whole(out: Path) -> None:
        unbroken.work(out, unbroken.parts[0], random.Random(0))
        (place / "modules").write_text("\n".join(sys.modules))

    def cost(part: Callable[..., None], *given: Path) -> float:
        before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        (process := FORK.Process(target=part, args=given)).start()
        process.join()
        if process.exitcode:
            raise SystemExit(f"{experiment}, {executor}: the unbroken one fails")
        return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before

    if not work.unbroken.exists():
        place.mkdir(exist_ok=True)
        cost(first)
        for name in (place / "modules").read_text().split():
            if name.partition(".")[0] in LOADED:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
        gc.collect()
        gc.freeze()
    if (work.unbroken, executor) not in COSTS:
        shutil.rmtree(unbroken.out, ignore_errors=True)
        COSTS[work.unbroken, executor] = cost(whole, unbroken.out)
        if differs := unbroken.differs():
            raise SystemExit(f"{experiment}, {executor}: two that are unbroken differ in {differs}")
    work.cost = COSTS[work.unbroken, executor]
    return work


def with_a_clock() -> None:
    """Begin this process anew with a clock that can jump, by libfaketime.

    Its own remedy for timed waits is switched off: with it a thread takes 80 ms of the processor to start, of which
    every prompt needs one, and without it waits on the monotonic clock end in time (tried with jumps of 3,000 days).
    """
    folders = (Path("/usr/lib"), Path("/usr/local/lib"), *Path("/usr/lib").glob("*-linux-gnu"))
    found = next((folder / LIBRARY for folder in folders if (folder / LIBRARY).exists()), None)
    if CLOCK not in os.environ and not found:
        raise SystemExit(f"{LIBRARY}: is not installed; leave out --clock")
    if CLOCK not in os.environ:
        with tempfile.NamedTemporaryFile("w", suffix=".clock", delete=False) as file:
            file.write("+0d")
        faked = {CLOCK: file.name, "FAKETIME_CACHE_DURATION": "1"}
        faked |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1", "FAKETIME_FORCE_MONOTONIC_FIX": "0"}
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **faked, "LD_PRELOAD": str(found)})
    if CLOCK in os.environ:
        os.environ.pop("LD_PRELOAD", None)  # what is begun from here has the clock of the machine
        # Its clock_nanosleep fails where the monotonic clock is the machine's, as of 0.9.10.
        time.sleep = lambda seconds: select.select([], [], [], seconds) and None  # type: ignore


def table(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A row for each experiment and executor, and one for all."""
    wrong = ("committed and lost", "other bytes", "other last bits", "tracebacks", "hung")
    yield f"| what | episodes | faults | {' | '.join((*KINDS, *wrong))} |"
    yield f"|{'---|' * (len(KINDS) + len(wrong) + 3)}"
    for name in (*dict.fromkeys(line["name"] for line in lines), "all"):
        own = [line for line in lines if name in (line["name"], "all")]
        counts = Counter(kind for line in own for kind in line["befell"])
        bad = [sum(line[key] for line in own) for key in ("lost", "hung")]
        bits, said = sum(line.get("rounded", False) for line in own), sum(len(line["tracebacks"]) for line in own)
        other = sum(not line["same"] for line in own) - bits
        row = (len(own), counts.total(), *(counts[kind] for kind in KINDS), bad[0], other, bits, said, bad[1])
        yield f"| {name} | {' | '.join(map(str, row))} |"


def main(arguments: Sequence[str]) -> int:
    """Break, go on, compare and count."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--faults", type=int, default=10, help="of each experiment and executor, at least")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--experiments", default=",".join(SETTINGS))
    parser.add_argument("--executors", default=",".join(WORKS))
    parser.add_argument("--first", type=int, default=0, help="the number of the first episode")
    parser.add_argument("--episodes", type=int, help="of each, at most")
    parser.add_argument("--minutes", type=float, help="after which no episode begins")
    parser.add_argument("--clock", action="store_true", help="let the clock jump, too (libfaketime)")
    parser.add_argument("--kinds", default="", help="of faults; all that there are, if not given")
    parser.add_argument("--record", type=Path, help="a line for each episode; what is there is not done again")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    libraries = ", ".join(f"{name} {version(name)}" for name in ("doxascope", "torch", "ray") if find_spec(name))
    print(
        f"`python benchmarks/faults.py {' '.join(arguments)}`, commit {commit}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    )
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {libraries}\n", flush=True
    )
    lines: list[dict[str, Any]] = []
    if given.record and given.record.exists():
        lines = list(map(json.loads, given.record.read_text().splitlines()))
    executors = [name for name in given.executors.split(",") if name != "ray" or find_spec("ray")]
    executors = [name for name in executors if kinds(name, given.kinds)]
    number = given.first
    with tempfile.TemporaryDirectory() as name:
        left = asked(given.experiments.split(","), executors)
        while left and (given.episodes is None or number < given.first + given.episodes):
            for experiment, executor in list(left):
                called = f"{experiment}, {executor}"
                own = [line for line in lines if line["name"] == called and line["seed"] == given.seed]
                if sum(len(line["befell"]) for line in own) >= given.faults:
                    left.remove((experiment, executor))
                elif number not in [line["episode"] for line in own]:
                    if given.minutes is not None and time.monotonic() - began > 60 * given.minutes:
                        left = []
                        break
                    work = begun(experiment, executor, Path(name) / experiment)
                    draw = random.Random(f"{given.seed} {called} {number}")
                    found = Episode(work, draw, kinds(executor, given.kinds)).record()
                    how = {"commit": commit, "asked": " ".join(arguments)}
                    lines.append({"name": called, "seed": given.seed, "episode": number, **how, **found})
                    if given.record:
                        with given.record.open("a") as file:
                            file.write(json.dumps(lines[-1]) + "\n")
            number += 1
    for told in dict.fromkeys(f"`{line['asked']}` at {line['commit']}" for line in lines if "asked" in line):
        print(f"episodes of {told}")
    print("\n" + "\n".join(table(lines)))
    bad = [line for line in lines if line["lost"] or line["hung"] or line["tracebacks"] or not line["same"]]
    for line in bad:
        print(f"\n{line['name']}, seed {line['seed']}, episode {line['episode']}, commit {line['commit']}: {line}")
    sound = (line.get("rounded") and not (line["lost"] or line["hung"] or line["tracebacks"]) for line in bad)
    return 0 if all(sound) else 1


if __name__ == "__main__":
    if "--clock" in sys.argv:
        with_a_clock()
    sys.exit(main(sys.argv[1:]))
