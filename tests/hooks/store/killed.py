"""Writes a store, or has fifty processes write it, each killed at a random moment. Needs no torch.

python killed.py FOLDER write N    batches 0 to N - 1, as far as they are missing
python killed.py FOLDER kill       prints how many of the fifty left something half done
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from doxascope.hooks.store import ActivationStore, ActivationWriter, Header
from doxascope.hooks.store.writer import pack_store

HEADER = Header(sites=("resid_post",), layers=tuple(range(8)), d_model=64, dtype="bfloat16", conditions={})
ROWS, KILLS, PART_BYTES = 50, 50, 1_000_000


def batch(number: int) -> tuple[pd.DataFrame, dict[str, NDArray[np.uint16]]]:
    """The content of a batch, a function of its number."""
    rows = pd.DataFrame(
        {
            "readout_id": [f"{number}-{i}" for i in range(ROWS)],
            "position": "last",
            "token_index": number,
            "ids_hash": [f"{number}-{i}" for i in range(ROWS)],
        }
    )
    return rows, {"resid_post": np.random.default_rng(number).integers(0, 2**16, (ROWS, 8, 64)).astype(np.uint16)}


def write(path: Path, batches: int) -> None:
    """Go on with a store until it has so many batches."""
    with ActivationWriter.open(path, HEADER) as store:
        for number in range(batches):
            if number not in store.committed:
                store.add(number, *batch(number))


def kill(path: Path) -> int:
    """Fifty writers one after the other, each of which first packs what it finds; none lives to its end."""
    draw = random.Random(0)
    half_done = 0
    write(path, 1)
    started = time.perf_counter()
    write(path, 3)
    longest = 2 * (time.perf_counter() - started)
    for _ in range(KILLS):
        begun, begin = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(begin, b"!")
            pack_store(path, PART_BYTES)
            write(path, sys.maxsize)
        os.read(begun, 1)
        time.sleep(draw.uniform(0, longest))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(begun)
        os.close(begin)
        counted = {part.path for part in ActivationStore.open(path).parts}
        half_done += any(file not in counted for file in [*path.glob("*.h5"), *path.glob(".writing-*")])
    return half_done


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if sys.argv[2] == "write":
        write(folder, int(sys.argv[3]))
    else:
        print(kill(folder))
