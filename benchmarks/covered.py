"""Which tests run which lines: every test file is traced once, in a forked process, and what was seen is kept.

A fixture that several tests share is traced for itself, and its lines are those of all tests that ask for it.
"""

import contextlib
import hashlib
import json
import math
import multiprocessing
import os
import resource
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

FORK = multiprocessing.get_context("fork")
PATIENCE = 600
"""Seconds after which nothing is waited for, whatever of the processor it had."""
QUIET = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")


class Covering(NamedTuple):
    """A test that passes, the seconds that it takes alone under tracing, and the lines that it runs by file."""

    name: str
    seconds: float
    lines: dict[str, set[int]]


class Tracer:
    """Notes lines of the files that are asked for, in the set that is `now`."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = frozenset(map(str, files))
        self.now: set[tuple[str, int]] = set()

    def __call__(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        """What looks at the lines of a frame; none where its file is not asked for."""
        return self._line if frame.f_code.co_filename in self.files else None

    def _line(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
        if event == "line":
            self.now.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """While it looks, in all threads."""
        sys.settrace(self)
        threading.settrace(self)
        yield
        sys.settrace(None)
        threading.settrace(None)


class _Watch:
    """The plugin: lines and seconds of tests and of the fixtures that they share."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.lines: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self.seconds: dict[str, float] = defaultdict(float)
        self.fixtures: dict[str, list[str]] = {}
        self.passed: list[str] = []
        self.context = ""

    @contextlib.contextmanager
    def _as(self, context: str) -> Iterator[None]:
        outer, self.context = self.context, context
        before, self.tracer.now = self.tracer.now, self.lines[context]
        began = time.perf_counter()
        yield
        took = time.perf_counter() - began
        self.context, self.tracer.now = outer, before
        self.seconds[context] += took
        self.seconds[outer] -= took

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self.fixtures[item.nodeid] = [f"fixture {name}" for name in getattr(item, "fixturenames", ())]
        with self._as(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
        if fixturedef.scope == "function":
            return (yield)
        with self._as(f"fixture {fixturedef.argname}"):
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.append(report.nodeid)

    def found(self) -> list[Any]:
        """Name, seconds and lines of every test that passed, with those of its fixtures."""
        every = []
        for name in self.passed:
            contexts = [name, *(fixture for fixture in self.fixtures[name] if fixture in self.lines)]
            lines = defaultdict(list)
            for file, line in sorted(set().union(*(self.lines[context] for context in contexts))):
                lines[file].append(line)
            every.append((name, round(sum(self.seconds[context] for context in contexts), 3), lines))
        return every


def quietly() -> None:
    """What this process prints is lost."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def limit(seconds: float) -> None:
    """After so many seconds of the processor this process ends."""
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds + time.process_time()), resource.RLIM_INFINITY))


def _traced(sender: Connection, test: str, root: Path, files: Sequence[Path], seconds: float) -> None:
    quietly()
    limit(seconds)
    os.chdir(root)
    watch = _Watch(Tracer(files))
    with watch.tracer.watching():
        pytest.main([*QUIET, test], plugins=[watch])
    sender.send(watch.found())
    os._exit(0)


def covering(root: Path, tests: Sequence[str], files: Sequence[Path], seconds: float, kept: Path) -> list[Covering]:
    """The tests below these paths whose files take no more of the processor than so many seconds. What was seen is read
    from the folder `kept` where neither a test file nor the code has changed."""
    kept.mkdir(parents=True, exist_ok=True)
    code = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    paths = [
        path for name in tests for path in ([root / name], (root / name).rglob("test_*.py"))[(root / name).is_dir()]
    ]
    strip, every = len(str(root)) + 1, []
    for path in sorted(set(paths)):
        test = str(path.relative_to(root))
        digest = code + hashlib.sha256(path.read_bytes()).hexdigest()
        record = kept / f"{test.replace('/', '.')}.json"
        seen: dict[str, Any] = json.loads(record.read_text()) if record.exists() else {}
        if seen.get("digest") != digest:
            seen = {"digest": digest, "tests": _seen(test, root, files, seconds)}
            record.write_text(json.dumps(seen))
        for name, took, lines in seen["tests"]:
            every.append(Covering(name, took, {file[strip:]: set(numbers) for file, numbers in lines.items()}))
    return every


def _seen(test: str, root: Path, files: Sequence[Path], seconds: float) -> list[Any]:
    """What the tests of a file run; nothing of a file that takes too long."""
    receiver, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_traced, args=(sender, test, root, files, seconds))
    began = time.monotonic()
    process.start()
    sender.close()
    seen = None
    with contextlib.suppress(EOFError):
        seen = receiver.recv() if receiver.poll(PATIENCE) else None
    process.kill()
    process.join()
    told = "left out" if seen is None else f"{len(seen)} tests"
    print(f"{test}: {told}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return seen or []
