"""What packing saves a map: patched contexts of a pair in shared packs against one forward pass for each.

    make bench        or: python benchmarks/locate.py [pairs]

Both ways read the swaps of a map on SmolLM2, by turns; the second reads one in eight of them. They must agree within
1e-4 nat of log-odds.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np

from doxascope import load
from doxascope.experiments.run.config import load_config
from doxascope.experiments.suite.locate import Locate
from doxascope.experiments.suite.locate.ask import interchange
from doxascope.experiments.suite.locate.config import LocateConfig
from doxascope.hooks.exact.option_beliefs import ExactReading

MODEL, THREADS, PAIRS = "smollm2-135m", 2, 1
NEAR, EVERY = 1e-4, 8
MINUTES, WHOLE = 5, 12
"""The map of so many pairs is to take no longer."""


def log_odds(readings: Sequence[ExactReading]) -> np.ndarray:
    """[cells] of the first option against the second."""
    return np.array([reading.logp[0] - reading.logp[1] for reading in readings])


def clocks() -> np.ndarray:
    """Seconds of the wall clock, and those that the processor worked for us: on a busy machine they part."""
    return np.array([time.perf_counter(), time.process_time()])


def main(pairs: int) -> None:
    """Measure, compare and print."""
    config = load_config("locate", [f"items={pairs}"], MODEL)[1]
    assert isinstance(config, LocateConfig)
    packed, single = np.zeros(2), np.zeros(2)
    n_cells = n_single = 0
    gap = 0.0
    with load(MODEL, threads=THREADS) as lm:
        for item in Locate().items(config):
            queries = interchange(config, item, lm).queries
            began = clocks()
            together = log_odds(lm.read(queries, budget=config.token_budget).readings)
            between = clocks()
            alone = log_odds([lm.read([query]).readings[0] for query in queries[::EVERY]])
            packed, single = packed + between - began, single + clocks() - between
            n_cells, n_single = n_cells + len(together), n_single + len(alone)
            gap = max(gap, float(np.abs(together[::EVERY] - alone).max()))
    print(f"{platform.machine()}, {THREADS} threads, torch {version('torch')}; {MODEL}, float32")
    print(f"{n_cells} cells of {pairs} pairs; the two ways agree within {gap:.1e} nat\n")
    print("| way | ms a cell | of the processor |\n|---|---|---|")
    for way, took in (("shared packs", packed / n_cells), ("one pass for each", single / n_single)):
        print(f"| {way} | {1000 * took[0]:.0f} | {1000 * took[1]:.0f} |")
    wall, processor = single / n_single / (packed / n_cells)
    minutes = packed / pairs * WHOLE / 60
    print(f"\nOne pass for each over shared packs: {wall:.1f} (of the processor {processor:.1f})")
    print(f"{WHOLE} pairs: {minutes[0]:.1f} minutes, {minutes[1]:.1f} of the processor; at most {MINUTES}")
    if gap > NEAR:
        sys.exit(f"the two ways differ by {gap:.1e} nat")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS)
