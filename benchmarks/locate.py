"""What packing saves a map: patched contexts of a pair in shared packs against one forward pass for each.

    make bench        or: python benchmarks/locate.py [pairs]

Both ways read the same swaps on SmolLM2, by turns; they must agree within 1e-4 nat of log-odds.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import platform
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version

import numpy as np

from doxascope import load
from doxascope.experiments.config import load_config
from doxascope.experiments.locate.config import LocateConfig
from doxascope.experiments.locate.experiment import Locate
from doxascope.experiments.locate.reading import interchange
from doxascope.hooks.exact import ExactReading, Query
from doxascope.hooks.lm import LanguageModel

MODEL, THREADS, PAIRS = "smollm2-135m", 2, 1
NEAR = 1e-4
MINUTES, WHOLE = 5, 12
"""The map of so many pairs is to take no longer."""


def log_odds(readings: Sequence[ExactReading]) -> np.ndarray:
    """[cells] of the first option against the second."""
    return np.array([reading.logp[0] - reading.logp[1] for reading in readings])


def clocks() -> np.ndarray:
    """Seconds of the wall clock, and those that the processor worked for us: on a busy machine they part."""
    return np.array([time.perf_counter(), time.process_time()])


def shared(lm: LanguageModel, queries: Sequence[Query], budget: int) -> list[ExactReading]:
    """In as few packs as the budget allows."""
    return lm.read(queries, budget=budget).readings


def alone(lm: LanguageModel, queries: Sequence[Query], budget: int) -> list[ExactReading]:
    """A pass for each."""
    return [lm.read([query], budget=budget).readings[0] for query in queries]


WAYS: dict[str, Callable[[LanguageModel, Sequence[Query], int], list[ExactReading]]] = {
    "shared packs": shared,
    "one pass per cell": alone,
}


def main(pairs: int) -> None:
    """Measure, compare and print."""
    config = load_config("locate", [f"items={pairs}"], MODEL)[1]
    assert isinstance(config, LocateConfig)
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    n_cells, gap = 0, 0.0
    with load(MODEL, threads=THREADS) as lm:
        for item in Locate().items(config):
            queries = interchange(config, item, lm).queries
            found = []
            for name, read in WAYS.items():
                began = clocks()
                found.append(log_odds(read(lm, queries, config.token_budget)))
                wall, processor = clocks() - began
                took[name].append((wall, processor))
            n_cells += len(queries)
            gap = max(gap, float(np.abs(found[0] - found[1]).max()))
    print(f"{platform.machine()}, {THREADS} threads, torch {version('torch')}; {MODEL}, float32")
    print(f"{n_cells} cells of {pairs} pairs; the two ways agree within {gap:.1e} nat\n")
    print("| way | seconds a pair | of the processor |\n|---|---|---|")
    (packed, work), (single, alone_work) = (np.sum(seconds, axis=0) for seconds in took.values())
    for name, wall, processor in zip(WAYS, (packed, single), (work, alone_work), strict=True):
        print(f"| {name} | {wall / pairs:.1f} | {processor / pairs:.1f} |")
    minutes = packed / pairs * WHOLE / 60
    print(f"\nOne pass per cell over shared packs: {single / packed:.2f} (processor {alone_work / work:.2f})")
    print(f"{WHOLE} pairs: {minutes:.1f} minutes; at most {MINUTES}: {'met' if minutes <= MINUTES else 'MISSED'}")
    if gap > NEAR:
        sys.exit(f"the two ways differ by {gap:.1e} nat")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS)
