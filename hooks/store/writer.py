"""Writing a store: one process at a time, one part per batch, and small parts joined later.

A batch counts from the moment its commit line is on the disk, which is written after its part. In a run that line is
the run's, and the beliefs of the batch begin to count with it. A part without a line is ignored by readers and
replaced when its batch is written again; nothing is deleted for want of a line.
"""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from filelock import Timeout
from numpy.typing import NDArray

from ...base.errors import UserError
from ...base.files import TEMPORARY, atomic_write, locked, sync
from ..identity import condition_differences
from .commits import append_commit, read_commits
from .header import NAME, Header, Residuals, as_stored, read_header
from .part import (
    COLUMNS,
    TEXT,
    DamagedError,
    Part,
    count_vectors,
    open_part,
    parts_in,
    read_rows,
    read_vectors,
    rows_digest,
    share_vectors,
    write_part,
)
from .reader import ActivationStore


class ActivationWriter:
    """The one writer of a store; made by `open`."""

    def __init__(self, path: Path, header: Header, mark: str = "") -> None:
        self.path, self.header, self.mark = path, header, mark
        self.committed = set(read_commits(path / header.commits))
        """The batches that counted when the store was opened, or were added since."""

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path, header: Header, mark: str = "") -> Iterator["ActivationWriter"]:
        """Begin the store in the folder `path`, or go on with it. The lock goes with the process, however it ends.

        With a mark, which has to be one of its own, it is one of several writers: none locks, and each has files of its
        own, so that even two of the same batch are not in each other's way. The commit line says whose counts.

        Raises UserError if another process is writing it, if it was captured under other conditions (the differences
        are listed), if the folder holds something else, or cannot be written.
        """
        _make_room(path)
        with contextlib.nullcontext() if mark else lock_store(path):
            _begin(path, header, mark)
            yield cls(path, header, mark)

    def write(self, number: int, rows: pd.DataFrame, residuals: Mapping[str, Residuals]) -> dict[str, Any]:
        """Write the part of a batch; returns what its commit line is to say under `activations`.

        Args:
            number: of the batch, from 0. A part of that number that was not committed is replaced.
            rows: readout_id, position, token_index, ids_hash; no two of the same token of a read-out and position.
            residuals: site -> [rows, layers, width], a tensor or an array, in the store's dtype.

        A batch without rows has no part.

        Raises UserError if the batch is committed already, if rows and residuals do not fit each other or the store,
        or if the part cannot be written, for example on a full disk; nothing is left of it then.
        """
        if number in self.committed:
            raise UserError(f"{self.path}: batch {number} is committed already; a part never changes")
        part = Part.of(self.path, number, number, self.mark)
        if not self.mark:
            self._remove_old(part)
        if rows.empty:
            return {"rows": 0}
        stored = {site: as_stored(values, self.header.dtype) for site, values in residuals.items()}
        self._check(rows, stored)
        kept, vector = share_vectors(rows, stored)
        place = {layer: i for i, layer in enumerate(self.header.layers)}

        digest = hashlib.sha256()

        def vectors(site: str, layer: int) -> NDArray[Any]:
            values = stored[site][kept, place[layer]]
            digest.update(values.data)
            return values

        with self._faults(number):
            write_part(part.path, self.header, rows.assign(vector=vector), vectors)
        return {
            "rows": len(rows),
            "first": rows["readout_id"].iloc[0],
            "last": rows["readout_id"].iloc[-1],
            "rows_digest": rows_digest(rows),
            "values_digest": digest.hexdigest(),
            **({"file": part.path.name} if self.mark else {}),
        }

    def adopt(self, number: int, note: Mapping[str, Any]) -> dict[str, Any]:
        """Make the part that another writer has written that of its batch; returns what the commit line is to say."""
        adopted = {key: value for key, value in note.items() if key != "file"}
        if "file" in note:
            part = Part.of(self.path, number, number)
            with self._faults(number):
                (self.path / note["file"]).replace(part.path)
                sync(self.path)
            self._remove_old(part, but=part)
        return adopted

    def add(self, number: int, rows: pd.DataFrame, residuals: Mapping[str, Residuals]) -> None:
        """Write and commit a batch of a store that belongs to no run."""
        if self.header.commits != "commits.jsonl":
            raise ValueError("the batches of this store are committed by its run")
        note = self.write(number, rows, residuals)
        with self._faults(number):
            append_commit(self.path / self.header.commits, number, {"activations": note})
        self.committed.add(number)

    def _remove_old(self, part: Part, but: Part | None = None) -> None:
        """Take away what an earlier commit of this batch left, which would count again with its line."""
        for old in parts_in(self.path):
            if (old == part or old.holds(part)) and old != but:
                if kept := self.committed.intersection(range(old.first, old.last + 1)):
                    raise UserError(
                        f"{old.path}: holds batch {part.first} and others that are committed ({min(kept)}, ...); "
                        f"take the lines of batches {old.first} to {old.last} out of the commits, or none"
                    )
                old.path.unlink()

    @contextlib.contextmanager
    def _faults(self, number: int) -> Iterator[None]:
        """A fault of the disk, as one line."""
        try:
            yield
        except OSError as error:
            raise UserError(
                f"{self.path}: batch {number} cannot be written ({error.strerror or error}); "
                "what is committed is kept, the same command goes on from there"
            ) from error

    def _check(self, rows: pd.DataFrame, stored: Mapping[str, NDArray[Any]]) -> None:
        if wrong := set(rows.columns) ^ set(COLUMNS):
            raise UserError(f"rows have the columns {', '.join(COLUMNS)}; missing or unknown: {', '.join(wrong)}")
        if any("\0" in text for name in TEXT for text in rows[name].tolist()):
            raise UserError("rows hold text with a NUL, which ends text in HDF5")
        if set(stored) != set(self.header.sites):
            raise UserError(f"residuals are of {sorted(stored)}, the store holds {sorted(self.header.sites)}")
        for site, values in stored.items():
            shape = (len(rows), len(self.header.layers), self.header.width(site))
            if values.shape != shape:
                raise UserError(f"residuals of {site} are {values.shape}, not {shape}, [rows, layers, width]")
        if (twice := rows[rows.duplicated(["readout_id", "position", "token_index"])]).size:
            raise UserError(f"two rows are {twice['readout_id'].iloc[0]!r} at {twice['position'].iloc[0]!r}")


@contextlib.contextmanager
def lock_store(path: Path) -> Iterator[None]:
    """Keep other processes from writing the store in `path`, a folder that is made if it is not there."""
    _make_room(path)
    with contextlib.ExitStack() as lock:
        try:
            lock.enter_context(locked(path / ".lock", 0))
        except Timeout:
            raise UserError(f"{path}: another process is writing this store; wait for it or stop it") from None
        except OSError as error:
            raise UserError(f"{path}: cannot be written ({error.strerror}); choose another folder") from error
        yield


def _make_room(path: Path) -> None:
    """Make the folder. Raises UserError for one that is no store, and holds something."""
    try:
        new = not path.exists()
        path.mkdir(parents=True, exist_ok=True)
        foreign = any(not file.name.startswith((".lock", TEMPORARY)) for file in path.iterdir())
        if foreign and not (path / NAME).exists():  # a store that was killed at its beginning may have left those
            raise UserError(f"{path}: is not an activation store and not empty; choose another folder")
        if new:
            sync(path.parent)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose another folder") from error


def _begin(path: Path, header: Header, mark: str) -> None:
    """Clear away what a kill left, and write the header of a new store or compare that of an old one."""
    for leftover in () if mark else path.glob(f"{TEMPORARY}*"):  # of several writers another may be writing it
        leftover.unlink()
    if not (path / NAME).exists():
        with atomic_write(path / NAME, mark) as temporary:
            temporary.write_text(header.model_dump_json(indent=1) + "\n", encoding="utf-8")
    before = read_header(path).model_dump(mode="json")
    if changed := condition_differences(before, header.model_dump(mode="json")):
        raise UserError(f"{path}: was captured under other conditions ({'; '.join(changed)}); choose another folder")


# Joining small parts: a part per batch is what a joint commit needs, fewer and larger ones are what reading wants.

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
            if any(joined.holds(part) for joined in after.parts):
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
