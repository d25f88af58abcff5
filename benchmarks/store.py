"""What the store costs over plain HDF5, and that its memory is flat, in one run.

    python benchmarks/store.py [FOLDER]

Both write the same residuals into datasets with the same chunks and checksums, and fsync; rounds alternate, so that a
machine whose speed drifts favours neither. Memory is the peak of a process of its own per number of rows.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from doxascope.hooks.store import ActivationStore, ActivationWriter, Header
from doxascope.hooks.store.part import CHUNK_BYTES, FORMAT

ROUNDS = 7
ROWS, LAYERS, D_MODEL = 1000, 30, 576
"""Of one batch: SmolLM2-135M in float32, 69 MB."""
FEW, MANY, FEW_LAYERS = 10_000, 100_000, 4
"""Rows of which the memory is compared, and layers of them: 0.9 GB."""


def header(layers: int) -> Header:
    """Of a store with so many layers."""
    return Header(
        sites=("resid_post",), layers=tuple(range(layers)), d_model=D_MODEL, dtype="float32", conditions={"model": "x"}
    )


def rows_of(number: int) -> pd.DataFrame:
    """The rows of a batch, each with a context of its own."""
    return pd.DataFrame(
        {
            "readout_id": [f"t{number:05}-{i:04}/posterior/free" for i in range(ROWS)],
            "position": "last",
            "token_index": 100,
            "ids_hash": [f"{number:08x}{i:08x}" for i in range(ROWS)],
        }
    )


def random_residuals(layers: int) -> NDArray[np.float32]:
    """[rows, layers, d_model]."""
    return np.random.default_rng(0).standard_normal((ROWS, layers, D_MODEL), dtype=np.float32)


def plain(path: Path, residuals: NDArray[np.float32]) -> None:
    """The same datasets by h5py alone."""
    with h5py.File(path, "w", libver=FORMAT) as file:
        for layer in range(LAYERS):
            chunks = (CHUNK_BYTES // (4 * D_MODEL), D_MODEL)
            file.create_dataset(f"resid_post/{layer}", data=residuals[:, layer], chunks=chunks, fletcher32=True)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of one call, on the wall and on the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor


def compare(name: str, size: int, ours: Callable[[int], object], other: Callable[[int], object]) -> str:
    """Time both in every round, in turn; the ratios are of speeds, ours to plain."""
    rounds = [(timed(lambda i=i: ours(i)), timed(lambda i=i: other(i))) for i in range(ROUNDS)]
    cells = [name]
    for clock in (0, 1):
        ratios = sorted(b[clock] / a[clock] for a, b in rounds)
        speed = size / 1e6 / statistics.median(a[clock] for a, _ in rounds)
        cells.append(f"{speed:.0f}")
        cells.append(f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    return f"| {' | '.join(cells)} |"


def speed(folder: Path) -> None:
    """Write parts, then read one layer of all of them back, both ways."""
    residuals = random_residuals(LAYERS)

    def read_plain(_: int) -> None:
        for i in range(ROUNDS):
            with h5py.File(folder / f"plain-{i}.h5") as file:
                np.asarray(file["resid_post/12"])

    print("| what | MB/s | to plain | MB/s, processor time | to plain |\n|---|---|---|---|---|")
    with ActivationWriter.open(folder / "store", header(LAYERS)) as writer:
        print(
            compare(
                f"write {residuals.nbytes / 1e6:.0f} MB",
                residuals.nbytes,
                lambda i: writer.add(i, rows_of(i), {"resid_post": residuals}),
                lambda i: plain(folder / f"plain-{i}.h5", residuals),
            )
        )
    layer = ROUNDS * residuals[:, 0].nbytes
    store = ActivationStore.open(folder / "store")
    print(compare(f"read {layer / 1e6:.0f} MB, one layer", layer, lambda _: store.read(layer=12), read_plain))


def memory(task: str, folder: Path, n: int) -> None:
    """In a process of its own: write or read `n` rows of a few layers, and print the peak in MB."""
    if task == "write":
        residuals = random_residuals(FEW_LAYERS)
        with ActivationWriter.open(folder, header(FEW_LAYERS)) as writer:
            for number in range(n // ROWS):
                writer.add(number, rows_of(number), {"resid_post": residuals})
    else:
        read = sum(len(some.rows) for some in ActivationStore.open(folder).batches(4096, layer=1))
        assert read == n
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        folder = Path(name)
        versions = f"h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}"
        print(f"{platform.machine()}, {versions}, {ROUNDS} rounds, load {os.getloadavg()[0]:.0f}\n")
        speed(folder)
        print(f"\n| peak MB of a process, {FEW_LAYERS} layers | {FEW:,} rows | {MANY:,} rows |\n|---|---|---|")
        for task in ("write", "read"):
            peaks = [
                subprocess.run(
                    [sys.executable, __file__, task, folder / str(n), str(n)],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
                for n in (FEW, MANY)
            ]
            print(f"| {task} | {' | '.join(f'{float(peak):.0f}' for peak in peaks)} |")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        memory(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
