"""Mutation score: small changes of the code, one at a time, each of which the tests have to notice.

    python benchmarks/mutants.py [metrics] [exact] [--most 30] [--seed 0]
    python benchmarks/mutants.py metrics/divergence.py:31 --tests tests/metrics/test_divergence.py

Of rooms, files or lines a sample of the changes of `mutations.py` is drawn, from every file in proportion. Each is
tried in a forked process in which the libraries and the package are loaded: the tests that run its line, as
`covered.py` has seen them, quick ones that run little else first, until one of them fails or `--seconds` of them have
passed. A test that fails kills if it passes, in such a process, on the code as it is; so does running far longer. No
file is touched. Survivors are shown with their line: each wants a test, or an explanation why it changes nothing.
"""

import argparse
import contextlib
import gc
import math
import os
import random
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from types import FunctionType
from typing import NamedTuple

import pytest

from doxascope.benchmarks.covered import FORK, PATIENCE, QUIET, Covering, Tracer, covering, limit, quietly
from doxascope.benchmarks.mutations import Functions, Mutant, install, mutants

HERE = Path(__file__).resolve().parent.parent
ROOMS = {
    "metrics": ("metrics",),
    "exact": (
        "hooks/exact",
        "hooks/tree",
        "hooks/prompts/options.py",
        "hooks/prompts/tokenising.py",
        "hooks/model/head.py",
    ),
}
TESTS = ("tests/metrics", *(f"tests/hooks/{name}" for name in ("exact", "tree", "prompts", "model/test_head.py")))
LOADED = (
    "numpy",
    "scipy.stats",
    "pandas",
    "hypothesis",
    "pyarrow.parquet",
    "torch",
    "transformers",
    "sklearn.neighbors",
)
MEMORY = 12 << 30
TIME = "time"


class Code(NamedTuple):
    """What is loaded of the rooms."""

    functions: Functions
    imported: set[tuple[str, int]]
    """(file, line) that has run at import."""


class _Killer:
    """The plugin: tells of the first failure, and has no failing example made smaller."""

    def __init__(self, sender: Connection) -> None:
        self.sender = sender

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        from hypothesis import Phase, settings

        settings.register_profile("as found", settings.default, phases=(Phase.explicit, Phase.generate))
        settings.load_profile("as found")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.sender.send(report.nodeid)


def _tried(
    sender: Connection, mutant: Mutant | None, functions: Functions | None, tests: Sequence[str], seconds: float
) -> None:
    """In a process of its own, silently: it ends as the tests do."""
    quietly()
    limit(seconds)
    os.chdir(HERE)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if mutant is not None:
        install(mutant, HERE, functions)
    os._exit(pytest.main([*QUIET, "-x", *tests], plugins=[_Killer(sender)]))


def failing(mutant: Mutant | None, functions: Functions | None, tests: Sequence[str], seconds: float) -> str:
    """The test that fails, or what else it ends with; empty if all pass."""
    receiver, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_tried, args=(sender, mutant, functions, tests, seconds))
    process.start()
    sender.close()
    process.join(PATIENCE)
    if process.exitcode in (None, -signal.SIGXCPU):
        process.kill()
        process.join()
        return TIME
    with contextlib.suppress(EOFError):
        if receiver.poll():
            return receiver.recv()
    return f"exit code {process.exitcode}" if process.exitcode else ""


@cache
def passes(tests: tuple[str, ...]) -> bool:
    """Whether tests pass on the code as it is."""
    return not failing(None, None, tests, PATIENCE)


def load(files: Sequence[Path]) -> Code:
    """Import libraries, the files and what uses them, once for all mutants."""
    for name in LOADED:
        with contextlib.suppress(ImportError):
            import_module(name)
    tracer = Tracer(files)
    with tracer.watching():
        for file in files:
            import_module(".".join(["doxascope", *file.relative_to(HERE).with_suffix("").parts]))
    import_module("doxascope.experiments.cli.main")
    functions: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
    for function in [known for known in gc.get_objects() if type(known) is FunctionType]:
        code = function.__code__
        functions[code.co_filename, code.co_qualname, code.co_firstlineno].append(function)
    gc.collect()
    gc.freeze()
    return Code(functions, {(str(Path(file).relative_to(HERE)), line) for file, line in tracer.now})


def chosen(mutant: Mutant, tests: Sequence[Covering], at_import: bool, seconds: float) -> list[str]:
    """The tests that run a mutant, those first that are quick and run little else; of what runs at import, those that
    run anything of its file, or, where nobody does, of its folder."""
    if at_import:
        found = [(test, len(test.lines.get(mutant.file, ()))) for test in tests]
        if not any(lines for _, lines in found):
            folder = mutant.file.rpartition("/")[0]
            found = [(test, sum(len(v) for k, v in test.lines.items() if k.startswith(folder))) for test in tests]
    else:
        found = [(test, len(lines)) for test in tests if mutant.lines & (lines := test.lines.get(mutant.file, set()))]
    every = sum
    order = sorted(
        (test.seconds * every(map(len, test.lines.values())) / lines, test) for test, lines in found if lines
    )
    taken, spent = [], 0.0
    for _, test in order:
        if not taken or spent + test.seconds <= seconds:
            taken.append(test.name)
            spent += test.seconds
    return taken


class Tried(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    tests: int
    by: str
    """The test that kills it, or what else does; empty if it survives."""


def tried(mutant: Mutant, code: Code, covered: Sequence[Covering], seconds: float) -> Tried:
    """Run its tests, without those that fail on the code as it is."""
    at_import = mutant.function is None or any((mutant.file, line) in code.imported for line in mutant.lines)
    tests = chosen(mutant, covered, at_import, seconds)
    by = ""
    while tests:
        by = failing(mutant, None if at_import else code.functions, tests, 60 + 4 * seconds)
        if by in ("", TIME) or passes((by,) if by in tests else tuple(tests)):
            break
        tests = [test for test in tests if test != by] if by in tests else []
        by = ""
    return Tried(mutant, len(tests), by)


def spread(every: Sequence[Mutant], most: int, seed: int) -> list[Mutant]:
    """A random sample with every file in proportion to its mutants."""
    draw = random.Random(seed)
    mixed = sorted(every, key=lambda mutant: (mutant.file, draw.random()))
    step = max(1.0, len(mixed) / most)
    start = draw.random() * step
    return [mixed[int(start + i * step)] for i in range(math.ceil((len(mixed) - start) / step))]


def wilson(killed: int, n: int) -> str:
    """The share and its interval of .95."""
    z = 1.959964
    middle, half = (
        (killed + z * z / 2) / (n + z * z),
        z / (n + z * z) * math.sqrt(killed * (n - killed) / n + z * z / 4),
    )
    return f"{killed / n:.3f} [{middle - half:.3f}, {middle + half:.3f}]"


def sources(names: Sequence[str]) -> Iterator[tuple[Path, int | None]]:
    """(file, line or none) of rooms, folders, files and lines."""
    for place in [place for name in names for place in ROOMS.get(name, (name,))]:
        path, _, line = place.partition(":")
        files = sorted((HERE / path).rglob("*.py")) if (HERE / path).is_dir() else [HERE / path]
        yield from ((file, int(line) if line else None) for file in files)


def main(arguments: Sequence[str]) -> int:
    """Count the killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("places", nargs="*", default=[*ROOMS], help="rooms (metrics, exact), folders, files, file:line")
    parser.add_argument("--tests", nargs="+", default=TESTS)
    parser.add_argument("--most", type=int, default=30, help="mutants of each place")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20, help="of tests for each mutant")
    parser.add_argument(
        "--light", type=float, default=60, help="test files that take longer, under tracing, are left out"
    )
    given = parser.parse_args(arguments)
    every = sorted({file for file, _ in sources([*ROOMS, *given.places])})
    code = load(every)
    covered = covering(HERE, given.tests, every, given.light, HERE / "build" / "covered")
    print(f"`python benchmarks/mutants.py {' '.join(arguments)}`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n")
    heads = ("place", "files", "mutants", "tried", "killed", "share, .95", "by time", "no test", "s a mutant")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    alive: list[Tried] = []
    for place in given.places:
        made = [m for file, line in sources([place]) for m in mutants(file, HERE) if line in (None, m.line)]
        taken = spread(made, given.most, given.seed)
        began, done = time.monotonic(), list[Tried]()
        for i, mutant in enumerate(taken):
            done.append(tried(mutant, code, covered, given.seconds))
            told = f"{i + 1}/{len(taken)} {mutant.file}:{mutant.line} `{mutant.before}` -> `{mutant.after}`"
            print(told, done[-1].by or "SURVIVES", f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        left = [result for result in done if not result.by]
        alive += left
        counts = Counter(result.by == TIME for result in done)[True], sum(not result.tests for result in done)
        files, n = len({mutant.file for mutant in made}), len(taken)
        print(f"| {place} | {files} | {len(made)} | {n} | {n - len(left)} | {wilson(n - len(left), n)} | ", end="")
        print(f"{counts[0]} | {counts[1]} | {(time.monotonic() - began) / n:.1f} |", flush=True)
    print()
    for result in alive:
        mutant = result.mutant
        print(f"- {mutant.file}:{mutant.line}: `{mutant.before}` -> `{mutant.after}` ({result.tests} tests)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
