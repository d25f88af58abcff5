"""Reading a store, and copies of it for other tools: all its committed parts as one table, of which no more is in
memory than is asked for.

Readers need no lock and no right to write. What is damaged is left out, and said: once in the log when it is met, and
line by line by `ActivationStore.check`.
"""

import hashlib
import json
import logging
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...base.errors import UserError, nearest
from ...base.files import atomic_write
from .commits import read_commits
from .header import NAME, Header, as_float32, read_header
from .part import (
    COLUMNS,
    NO_ROWS,
    DamagedError,
    Part,
    count_vectors,
    open_part,
    parts_in,
    read_rows,
    read_vectors,
    rows_digest,
)

FOLDER = "activations"
"""Where the store of a run lies."""

log = logging.getLogger("doxascope")

READ_ROWS = 65536
WRONG, OTHER = "its checksum is wrong", "it does not hold what was committed"

StoredPoint = tuple[str, int]
"""A site and a layer."""

Where = Callable[[pd.DataFrame], "pd.Series[bool]"]
"""Rows -> which of them are wanted, as pandas writes it: `lambda rows: rows["readout_id"].isin(mine)`."""


class Activations(NamedTuple):
    """Rows and what was read in them, in the same order."""

    rows: pd.DataFrame
    """[n] readout_id, position, token_index, ids_hash."""
    values: NDArray[np.float32]
    """[n, width], exact whatever the dtype of the store."""


class Loss(NamedTuple):
    """Rows that are committed and cannot be read."""

    part: Part
    what: str
    """`all layers`, or the site and layer."""
    rows: int | None
    """How many; None if nothing on the disk tells."""
    first: str
    last: str
    """Read-outs of the first and the last of them; empty if nothing on the disk tells."""
    reason: str

    def __str__(self) -> str:
        n = "an unknown number of" if self.rows is None else self.rows
        between = f", read-outs {self.first} to {self.last}," if self.first else ""
        return f"{self.part.path.name}: {n} rows{between} are lost in {self.what} ({self.reason})"


class ActivationStore:
    """What was committed when it was opened; made by `open`."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path, self.header = path, header
        self.commits = read_commits(path / header.commits)
        """Batch number -> its commit line."""
        self.parts = _committed(path, self.commits)
        self._said: set[Loss] = set()

    @classmethod
    def open(cls, path: Path | str) -> "ActivationStore":
        """The store in a folder, or that of a run. Raises UserError if there is none."""
        path = Path(path)
        if not (path / NAME).exists() and (path / FOLDER / NAME).exists():
            path = path / FOLDER
        return cls(path, read_header(path))

    def rows(
        self, *, position: str | None = None, where: Where | None = None, points: Collection[StoredPoint] = ()
    ) -> pd.DataFrame:
        """The rows of all parts, in the order of their batches.

        Args:
            position: only those at it.
            where: only those for which it is true.
            points: only those that can be read at all of these sites and layers, which reads them.

        Raises UserError if no row has that position, or if the store lacks a site or layer.
        """
        self._check(points)
        tables = []
        for part in self.parts:
            rows = self._wanted(part, position, where)
            for point in points:
                rows, _ = self._vectors(part, rows, point)
            tables.append(rows[COLUMNS])
        rows = pd.concat([NO_ROWS, *tables], ignore_index=True)
        if position is not None and rows.empty and position not in (known := set(self.rows()["position"])):
            raise UserError(f"{self.path}: no row has the position {position!r}; {nearest(position, known)}")
        return rows

    def read(
        self, *, layer: int, site: str = "resid_post", position: str | None = None, where: Where | None = None
    ) -> Activations:
        """One layer of all rows, or of those at a position and for which `where` is true.

        Raises UserError if the store lacks the layer, the site or the position.
        """
        batches = list(self.batches(READ_ROWS, layer=layer, site=site, position=position, where=where))
        if not batches and position is not None:
            self.rows(position=position)  # says so if there is no such position
        rows = pd.concat([NO_ROWS, *(batch.rows for batch in batches)], ignore_index=True)
        values = np.empty((len(rows), self.header.width(site)), np.float32)
        end = len(rows)
        while batches:  # freed as they are copied, so that the result is not held twice
            piece = batches.pop().values
            values[end - len(piece) : end] = piece
            end -= len(piece)
        return Activations(rows, values)

    def batches(
        self,
        size: int,
        *,
        layer: int,
        site: str = "resid_post",
        position: str | None = None,
        where: Where | None = None,
    ) -> Iterator[Activations]:
        """The same piece by piece: at most `size` rows, all of one part. One layer of one part is held at a time.

        Raises UserError if the store lacks the layer or the site.
        """
        self._check([(site, layer)])
        return self._batches(size, (site, layer), position, where)

    def check(self) -> Iterator[Loss]:
        """Read everything, and say what is lost; one layer of one part is held at a time."""
        for number in self.missing():
            yield self._loss(Part(self.path / _file(number, self.commits[number]), number, number), "it is missing")
        for part in self.parts:
            try:
                with open_part(part.path, self.header) as file:
                    lost = self._check_part(part, file)
            except DamagedError as error:
                lost = [self._loss(part, str(error))]
            yield from lost

    def missing(self) -> list[int]:
        """The batches that are committed and whose parts are gone."""
        there = {number for part in self.parts for number in range(part.first, part.last + 1)}
        return [n for n, commit in self.commits.items() if commit.get("activations", {}).get("rows") and n not in there]

    def _check_part(self, part: Part, file: h5py.File) -> list[Loss]:
        """What cannot be read of one part, or is not what was committed. Raises DamagedError for the whole of it."""
        by_batch = self.by_batch(part, rows := read_rows(file))
        ends = np.cumsum([count_vectors(rows_of) - int(rows_of["vector"].min()) for rows_of in by_batch.values()])
        digests = {number: hashlib.sha256() for number in by_batch}
        lost: list[Loss] = []
        for point in product(self.header.sites, self.header.layers):
            stored, intact = read_vectors(file, self.header, *point, count_vectors(rows))
            lost += _lost_rows(part, point, rows, intact)
            for digest, vectors in zip(digests.values(), np.split(stored, ends[:-1]), strict=True):
                digest.update(np.ascontiguousarray(vectors).data)
        committed = [self.commits[number]["activations"]["values_digest"] for number in by_batch]
        if not lost and committed != [digest.hexdigest() for digest in digests.values()]:
            raise DamagedError(OTHER)
        return lost

    def by_batch(self, part: Part, rows: pd.DataFrame) -> dict[int, pd.DataFrame]:
        """The rows of each batch of a part. Raises DamagedError if they are not those that were committed."""
        numbers = range(part.first, part.last + 1)
        notes = {n: note for n in numbers if (note := self.commits[n].get("activations", {})).get("rows")}
        ends = np.cumsum([note["rows"] for note in notes.values()])
        batches = {n: rows.iloc[end - notes[n]["rows"] : end] for n, end in zip(notes, ends.tolist(), strict=True)}
        committed = [note["rows_digest"] for note in notes.values()]
        if sum(map(len, batches.values())) != len(rows) or committed != list(map(rows_digest, batches.values())):
            raise DamagedError(OTHER)
        return batches

    def _check(self, points: Collection[StoredPoint]) -> None:
        for site, layer in points:
            if site not in self.header.sites:
                raise UserError(f"{self.path}: has no site {site!r}; {nearest(site, self.header.sites)}")
            if layer not in self.header.layers:
                raise UserError(f"{self.path}: has no layer {layer}; it has {', '.join(map(str, self.header.layers))}")

    def _batches(
        self, size: int, point: StoredPoint, position: str | None, where: Where | None
    ) -> Iterator[Activations]:
        for part in self.parts:
            rows, stored = self._vectors(part, self._wanted(part, position, where), point)
            for start in range(0, len(rows), size):
                some = rows[start : start + size]
                values = as_float32(stored[some["vector"]], self.header.dtype)
                yield Activations(some[COLUMNS].reset_index(drop=True), values)

    def _wanted(self, part: Part, position: str | None, where: Where | None) -> pd.DataFrame:
        """The rows of a part that are asked for; none if it is damaged."""
        try:
            with open_part(part.path, self.header) as file:
                self.by_batch(part, rows := read_rows(file))
        except DamagedError as error:
            self._say(self._loss(part, str(error)))
            return NO_ROWS.assign(vector=0)
        if position is not None:
            rows = rows[rows["position"] == position]
        return rows if where is None else rows[where(rows)]

    def _vectors(self, part: Part, rows: pd.DataFrame, point: StoredPoint) -> tuple[pd.DataFrame, NDArray[Any]]:
        """Those of the rows that can be read at a point, and the vectors of the part as stored."""
        if rows.empty:
            return rows, np.empty((0, self.header.width(point[0])))
        try:
            with open_part(part.path, self.header) as file:
                stored, intact = read_vectors(file, self.header, *point, count_vectors(rows))
        except DamagedError as error:
            self._say(self._loss(part, str(error)))
            return rows[:0], np.empty((0, self.header.width(point[0])))
        for loss in _lost_rows(part, point, rows, intact):
            self._say(loss)
        return rows[intact[rows["vector"]]], stored

    def _loss(self, part: Part, reason: str) -> Loss:
        """The loss of a whole part, whose rows only the commit lines still tell."""
        notes = [self.commits[number].get("activations", {}) for number in range(part.first, part.last + 1)]
        notes = [note for note in notes if note.get("rows")]
        first, last = (notes[0]["first"], notes[-1]["last"]) if notes else ("", "")
        return Loss(part, "all layers", sum(note["rows"] for note in notes) or None, first, last, reason)

    def _say(self, loss: Loss) -> None:
        if loss not in self._said:
            self._said.add(loss)
            log.warning("%s: %s", self.path, loss)


def _committed(folder: Path, commits: Mapping[int, Mapping[str, Any]]) -> list[Part]:
    """The parts that count, by batch: of one within another that, of several of a batch its commit line's."""
    counted: list[Part] = []
    for part in sorted(parts_in(folder), key=lambda part: (part.first, -part.last)):
        inside = counted and counted[-1].holds(part)
        meant = part.first < part.last or part.path.name == _file(part.first, commits.get(part.first, {}))
        if meant and not inside and all(number in commits for number in range(part.first, part.last + 1)):
            counted.append(part)
    return counted


def _file(number: int, commit: Mapping[str, Any]) -> str:
    """The name of a batch's part."""
    return commit.get("activations", {}).get("file") or Part.of(Path(), number, number).path.name


def _lost_rows(part: Part, point: StoredPoint, rows: pd.DataFrame, intact: NDArray[np.bool_]) -> list[Loss]:
    """The loss of the rows whose vectors are not intact at a point, if there are any."""
    lost = rows["readout_id"][~intact[rows["vector"]]]
    if lost.empty:
        return []
    return [Loss(part, "{} {}".format(*point), len(lost), lost.iloc[0], lost.iloc[-1], WRONG)]


# Copies of a store for other tools: one npz or safetensors file, and its rows beside it. Nothing is held whole.


def export_store(
    store: ActivationStore, path: Path, *, points: Sequence[StoredPoint], position: str | None = None
) -> tuple[int, Path]:
    """Write `path`, and its rows beside it; returns how many there are and where.

    Args:
        path: ends in `.npz` or `.safetensors`. Holds float32 `<site>.<layer>` [rows, width], exact whatever the
            dtype of the store, and its header as JSON (npz: the array `header`; safetensors: the metadata).
        position: only rows at it.

    A row that is damaged at one of the points is left out of all. Raises UserError if the name ends otherwise, if
    there are no rows, or if the file cannot be written.
    """
    writers = {".npz": _write_npz, ".safetensors": _write_safetensors}
    if path.suffix not in writers:
        raise UserError(f"{path}: must end in {' or '.join(writers)}")
    rows = store.rows(position=position, points=points)
    if rows.empty:
        raise UserError(f"{store.path}: holds no rows to export")
    beside = path.with_suffix(".rows.parquet")
    try:
        with atomic_write(path) as temporary:
            writers[path.suffix](temporary, store, points, rows)
        with atomic_write(beside) as temporary:
            rows.to_parquet(temporary, index=False)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from error
    return len(rows), beside


def _stream(store: ActivationStore, point: StoredPoint, rows: pd.DataFrame) -> Iterator[bytes]:
    """The values of these rows at a point, in their order."""
    keys = ["readout_id", "position"]
    wanted = pd.MultiIndex.from_frame(rows[keys])
    site, layer = point

    def where(some: pd.DataFrame) -> "pd.Series[bool]":
        return pd.Series(pd.MultiIndex.from_frame(some[keys]).isin(wanted), some.index)

    for some in store.batches(READ_ROWS, layer=layer, site=site, where=where):
        yield some.values.astype("<f4", copy=False).tobytes()


def _write_npz(path: Path, store: ActivationStore, points: Sequence[StoredPoint], rows: pd.DataFrame) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        with archive.open("header.npy", "w") as member:
            np.lib.format.write_array(member, np.array(store.header.model_dump_json()))
        for site, layer in points:
            with archive.open(f"{site}.{layer}.npy", "w", force_zip64=True) as member:
                shape = (len(rows), store.header.width(site))
                layout = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(member, layout)
                for data in _stream(store, (site, layer), rows):
                    member.write(data)


def _write_safetensors(path: Path, store: ActivationStore, points: Sequence[StoredPoint], rows: pd.DataFrame) -> None:
    header: dict[str, object] = {"__metadata__": {"header": store.header.model_dump_json()}}
    end = 0
    for site, layer in points:
        shape = [len(rows), store.header.width(site)]
        begin, end = end, end + 4 * shape[0] * shape[1]
        header[f"{site}.{layer}"] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the data begin at a multiple of eight bytes
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for point in points:
            file.writelines(_stream(store, point, rows))
