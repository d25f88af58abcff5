"""Joining small parts: a part per batch is what a joint commit needs, fewer and larger ones are what reading wants."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .part import DamagedError, Part, count_vectors, open_part, parts_in, read_rows, read_vectors, write_part
from .reader import ActivationStore
from .writer import lock_store

PART_BYTES = 128 * 2**20


def pack_store(path: Path | str, size: int = PART_BYTES) -> tuple[int, int]:
    """Join neighbouring parts until each has about `size` bytes; returns the number of parts before and after.

    The joined part is on the disk before those that it replaces go; a kill in between leaves both, of which readers
    take the joined one. One layer of one joined part is held at a time. Damaged parts are left as they are.

    Raises UserError if there is no store, or if another process is writing it.
    """
    with lock_store(ActivationStore.open(path).path):
        before = ActivationStore.open(path)
        for group in _groups(before, size):
            _join(before, group)
        after = ActivationStore.open(path)
        for part in parts_in(after.path):
            if any(one.holds(part) for one in after.parts):
                part.path.unlink()
    return len(before.parts), len(after.parts)


def _groups(store: ActivationStore, size: int) -> Iterator[list[Part]]:
    """Runs of at least two neighbours, with no batch missing between them, of about `size` bytes together."""
    group: list[Part] = []
    filled = 0
    for part in store.parts:
        follows = group and all(number in store.commits for number in range(group[-1].last, part.first))
        length = part.path.stat().st_size
        if not follows or filled + length > size:
            if len(group) > 1:
                yield group
            group, filled = [], 0
        group.append(part)
        filled += length
    if len(group) > 1:
        yield group


def _join(store: ActivationStore, group: list[Part]) -> None:
    """Write one part with what these hold; none if one of them is damaged."""

    tables: list[pd.DataFrame] = []

    def vectors(site: str, layer: int) -> NDArray[Any]:
        pieces = []
        for part, rows in zip(group, tables, strict=True):
            with open_part(part.path, store.header) as file:
                stored, intact = read_vectors(file, store.header, site, layer, count_vectors(rows))
            if not intact.all():
                raise DamagedError
            pieces.append(stored)
        return np.concatenate(pieces)

    with contextlib.suppress(DamagedError):
        for part in group:
            with open_part(part.path, store.header) as file:
                tables.append(rows := read_rows(file))
                store.by_batch(part, rows)
        before = np.cumsum([0, *map(count_vectors, tables)])
        moved = [rows.assign(vector=rows["vector"] + n) for rows, n in zip(tables, before, strict=False)]
        joined = Part.of(store.path, group[0].first, group[-1].last)
        write_part(joined.path, store.header, pd.concat(moved), vectors)
