"""What digests cost: their share of a run of SmolLM2-135M, and of reading its beliefs from the disk.

python benchmarks/digests.py [FOLDER]
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from doxascope.base import files
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.folder import RunFolder
from doxascope.experiments.run.runner import run

ROUNDS, READS = 9, 20


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """Of one call, on the processor."""
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        experiment, config = load_config("consistency", ["items=8", "bootstrap_draws=100"])
        began = time.perf_counter()
        folder = run(experiment, config, Path(name))
        took = time.perf_counter() - began
        parts = [file for file in folder.path.rglob("part-*") if file.is_file()]
        hashing = seconds(lambda: [files.file_digest(file) for file in parts], READS)
        reading = [seconds(RunFolder(folder.path).beliefs, READS) for _ in range(ROUNDS)]
        hashed = seconds(lambda: [files.file_digest(file) for file in parts if file.suffix == ".parquet"], READS)
        size = sum(file.stat().st_size for file in parts)
        print(f"{len(parts)} files, {size / 1e6:.2f} MB; a run of 8 items takes {took:.1f} s")
        print(f"digests when written: {hashing * 1e3:.2f} ms, {hashing / took:.4%} of the run")
        print(
            f"digests when read: {hashed * 1e3:.2f} ms of {statistics.median(reading) * 1e3:.1f} ms, "
            f"{hashed / statistics.median(reading):.2%} of reading the beliefs"
        )


if __name__ == "__main__":
    main()
