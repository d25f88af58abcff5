"""How far a long job is: a bar on a terminal, a line now and then in a log. What it is made of shows no line of its
own, but where it stands.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

LOG_SECONDS = 30
"""Between two lines of a log."""
_around: list[Callable[[str], object]] = []
"""Tells the job that is around this one, if there is one, where this one stands."""


@contextmanager
def progress(
    total: int, unit: str, label: str, *, before: int = 0, of_jobs: bool = False
) -> Iterator[Callable[[int], object]]:
    """Hands out `advance(n)`; shows rate and time left on standard error.

    Args:
        before: how much of it was done before, which is no part of the rate.
        of_jobs: whether it is made of jobs with a progress each, which then stands beside that of the whole.
    """
    if _around:
        with _within(total, unit, label, before) as advance:
            yield advance
        return
    with (_bar if sys.stderr.isatty() else _log)(total, unit, label, before) as (advance, tell):
        _around.extend([tell] * of_jobs)
        try:
            yield advance
        finally:
            _around.clear()


def stand(line: str) -> None:
    """Say where a job stands that has no count: beside the job around it, or in a line of its own."""
    for tell in _around or [lambda told: print(told, file=sys.stderr, flush=True)]:
        tell(line)


@contextmanager
def _within(total: int, unit: str, label: str, before: int) -> Iterator[Callable[[int], object]]:
    done = before

    def advance(n: int) -> None:
        nonlocal done
        done += n
        for tell in _around:
            tell(f"{label} {done}/{total} {unit}s")

    advance(0)
    yield advance


Shown = tuple[Callable[[int], object], Callable[[str], object]]
"""`advance(n)`, and what tells where a job within stands."""


@contextmanager
def _bar(total: int, unit: str, label: str, before: int) -> Iterator[Shown]:
    with tqdm(total=total, unit=unit, desc=label, initial=before) as bar:
        yield bar.update, bar.set_postfix_str


@contextmanager
def _log(total: int, unit: str, label: str, before: int) -> Iterator[Shown]:
    began = last = finished = time.monotonic()
    done, within = before, ""

    def advance(n: int) -> None:
        nonlocal done, last, finished
        done += n
        now = time.monotonic()
        finished = now if n else finished  # what is at work is no part of the rate
        if now - last >= LOG_SECONDS or done == total:
            last = now
            rate = (done - before) / max(finished - began, 1e-9)
            pace = f"{rate:.1f} {unit}s a second" if rate >= 1 else f"{1 / rate:.1f} s per {unit}" if rate else ""
            left = max((total - done) / rate - (now - finished), (total - done - 1) / rate) if rate else 0
            told = f", {pace}, {left:.0f} s left" if rate else ""
            beside = f"; {within}" if within and done < total else ""
            line = f"{label}: {done}/{total} {unit}s{told}{beside}"
            print(line, file=sys.stderr, flush=True)

    def tell(line: str) -> None:
        nonlocal within, last
        last = last if within else -math.inf  # the first of them says that it has begun
        within = line
        if done < total:
            advance(0)

    if before == total:
        advance(0)
    yield advance, tell
