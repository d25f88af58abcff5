"""Writes `docs/calibration.md` and `docs/calibration.csv`; `--help` says what can be asked for."""

import argparse
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from doxascope.base.parallel import spread_over
from doxascope.benchmarks.calibration.design import AGAIN_SEEDS, POWER_SEEDS, SEEDS
from doxascope.benchmarks.calibration.page import PAGE, PROMISED, read, write
from doxascope.benchmarks.calibration.simulation import all_designs, merged, run


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="calibration", description="Write docs/calibration.md from simulated agents.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="per level")
    parser.add_argument("--power-seeds", type=int, default=POWER_SEEDS)
    parser.add_argument("--again", type=int, default=AGAIN_SEEDS, help="fresh seeds of what is outside its level")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes; all cores if not said")
    parser.add_argument("--executor", choices=("local", "ray"), default="local", help="what the workers run on")
    parser.add_argument("--address", help="of a running Ray cluster")
    parser.add_argument("--only", default="", help="designs whose key begins with this")
    parser.add_argument("--promised", action="store_true", help="only designs of whose rates something was asked")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--page-only", action="store_true", help="the page anew, from the table that is there")
    asked = parser.parse_args(arguments)
    chosen = [design for design in all_designs() if design.key.startswith(asked.only)]
    if asked.promised:
        chosen = [design for design in chosen if design.key in PROMISED]
    if not chosen:
        parser.error(f"--only: no design begins with {asked.only!r}")
    if asked.page_only:
        write(merged(read(asked.out), []), asked.out)
        return
    started = time.monotonic()
    with spread_over(asked.workers, asked.executor, asked.address, local=ProcessPoolExecutor) as spread:
        rows = run(chosen, asked.seeds, asked.power_seeds, asked.again, spread)
    write(merged(read(asked.out) if asked.only or asked.promised else [], rows), asked.out)
    print(f"{len(rows)} rows in {time.monotonic() - started:.0f} s: {asked.out / PAGE}")


if __name__ == "__main__":
    main()
