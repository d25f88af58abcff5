"""How far a long score is: a line now and then on standard error, and none of a short one."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 5.0
"""Seconds that nothing is said."""
PAUSE = 15.0
"""Between two lines after that."""


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Hands out `begin(what)`, to be called before each step; a step may take long itself."""
    began, done, now, over = time.monotonic(), -1, "", threading.Event()

    def begin(what: str) -> None:
        nonlocal done, now
        done, now = done + 1, what

    def tell() -> None:
        wait = PATIENCE
        while not over.wait(wait):
            wait = PAUSE
            seconds = time.monotonic() - began
            print(
                f"scoring: {max(done, 0)} done after {seconds:.0f} s, now {now}",
                file=sys.stderr,
                flush=True,
            )

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield begin
    finally:
        over.set()
        teller.join()
