"""How far a long job is: a bar on a terminal, a line now and then in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

LOG_SECONDS = 30
"""Between two lines of a log."""


@contextmanager
def progress(total: int, unit: str, label: str) -> Iterator[Callable[[int], object]]:
    """Hands out `advance(n)`; shows rate and time left on standard error."""
    if sys.stderr.isatty():
        with tqdm(total=total, unit=unit, desc=label) as bar:
            yield bar.update
        return
    began = last = time.monotonic()
    done = 0

    def advance(n: int) -> None:
        nonlocal done, last
        done += n
        now = time.monotonic()
        if now - last >= LOG_SECONDS or done == total:
            last = now
            rate = done / max(now - began, 1e-9)
            left = (total - done) / rate if rate else 0
            print(
                f"{label}: {done}/{total} {unit}s, {rate:.2f} a second, {left:.0f} s left", file=sys.stderr, flush=True
            )

    yield advance
