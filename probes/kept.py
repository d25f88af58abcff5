"""Arrays that a job keeps on the disk, so that it goes on where it was: whole, and known by what they answer."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..hooks.errors import UserError, in_one_line
from ..hooks.files import atomic_write, digest_of

Arrays = Mapping[str, np.ndarray]
ANSWERS = "answers"
"""In a file: what it answers, and what it has to hold."""


def kept(path: Path, make: Callable[[], Mapping[str, Any]]) -> Arrays:
    """The arrays of a `.npz` file, which `make` gives if it is not there; the file's name is what they answer.

    Raises UserError for a file that cannot be read or written, that answers another question, or that was changed.
    """
    if path.exists():
        with in_one_line(path, "delete it"), np.load(path, allow_pickle=False) as file:
            known = {key: file[key] for key in file.files}
        told = known.pop(ANSWERS, None)
        if told is None or str(told) != _answers(path.stem, known):
            raise UserError(f"{path}: is not what was computed for it; delete it, and it is computed again")
        return known
    found = {name: np.asarray(one) for name, one in make().items()}
    with in_one_line(f"{path}: cannot be written", "choose another --out"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            told: dict[str, Any] = {**found, ANSWERS: np.array(_answers(path.stem, found))}
            np.savez(file, **told)
    return found


def _answers(name: str, arrays: Arrays) -> str:
    """Of arrays with their digests."""
    held = {
        key: [str(one.dtype), list(one.shape), digest_of(np.ascontiguousarray(one).tobytes())]
        for key, one in sorted(arrays.items())
    }
    return json.dumps({"of": name, "holds": held})
