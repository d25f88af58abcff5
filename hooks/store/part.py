"""One part of a store, an HDF5 file that never changes:

    /residuals/<site>/<layer>   [vectors, width], as the model computed them
    /rows                       readout_id, position, token_index, ids_hash, vector

`vector` is the row of every layer's dataset that belongs to a row: read-outs that share a context share what is
read in it, stored once. Chunks carry checksums, and so do HDF5's own structures (format of HDF5 1.10), so that a
flipped bit is an error and never a number. Text is of fixed length, because HDF5 keeps other text without a checksum.
"""

import contextlib
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...base.files import atomic_write
from .header import STORED, Header

if TYPE_CHECKING:
    from typing_extensions import Buffer


class FaultKeeper(io.FileIO):
    """A file for HDF5 to write, which crashes the process, or hides the fault, if a write of its own fails.

    To HDF5 every write succeeds; `fault` is the first that did not, for its caller to raise.
    """

    fault: OSError | None = None

    def write(self, data: "Buffer", /) -> int:
        """Write all of it, once and for all."""
        view = memoryview(data).cast("B")
        rest = view
        try:
            while rest and self.fault is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.fault = error
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        """Grow or shrink to `size` bytes."""
        try:
            return super().truncate(size)
        except OSError as error:
            self.fault = self.fault or error
            return self.tell() if size is None else size


TEXT, NUMBERS = ("readout_id", "position", "ids_hash"), ("token_index", "vector")
COLUMNS = ["readout_id", "position", "token_index", "ids_hash"]
NO_ROWS = pd.DataFrame({name: [] for name in COLUMNS}).astype(dict.fromkeys(TEXT, "str") | {"token_index": "int64"})
CHUNK_BYTES = 256 * 1024
MARK = r"-s[0-9a-f]+"
"""In the names of files that one of several writers has written, as a regular expression."""
FORMAT = ("v110", "v110")
"""The oldest HDF5 whose structures have checksums, so that the most tools can read a part."""


class DamagedError(Exception):
    """A part that cannot be read; the reason in a few words."""


class Part(NamedTuple):
    """The file of the batches `first` to `last`."""

    path: Path
    first: int
    last: int

    @classmethod
    def of(cls, folder: Path, first: int, last: int, mark: str = "") -> "Part":
        """Its place in a store: the name says which batches it holds, and of a shard's which session wrote it."""
        name = f"part-{first:05}{mark}.h5" if first == last else f"part-{first:05}-{last:05}.h5"
        return cls(folder / name, first, last)

    def holds(self, other: "Part") -> bool:
        """Whether it was joined from `other`, among others."""
        return self.path != other.path and self.first <= other.first and other.last <= self.last


def parts_in(folder: Path) -> list[Part]:
    """All parts of a store, whether they count or not."""
    named = [
        (file, re.fullmatch(rf"part-(\d{{5,}})(?:-(\d{{5,}})|{MARK})?\.h5", file.name)) for file in folder.iterdir()
    ]
    return [Part(file, int(name[1]), int(name[2] or name[1])) for file, name in named if name]


def write_part(path: Path, header: Header, rows: pd.DataFrame, vectors: Callable[[str, int], NDArray[Any]]) -> None:
    """Write a part whole or not at all.

    Args:
        rows: `COLUMNS` and `vector`.
        vectors: site and layer -> [vectors, width], asked for one at a time.
    """
    with atomic_write(path) as temporary, _written(temporary) as file:
        file.attrs["header"] = np.bytes_(header.model_dump_json().encode())
        file.attrs["hdf5"] = np.bytes_(h5py.version.hdf5_version)
        table = _table(rows)
        file.create_dataset("rows", data=table, chunks=table.shape, fletcher32=True)
        residuals = file.create_group("residuals")
        residuals.attrs["dtype"] = np.bytes_(header.dtype)
        for site in header.sites:
            group, width = residuals.create_group(site), header.width(site)
            chunk = max(1, CHUNK_BYTES // (width * STORED[header.dtype].itemsize))
            for layer in header.layers:
                values = vectors(site, layer)
                group.create_dataset(str(layer), data=values, chunks=(min(chunk, len(values)), width), fletcher32=True)


@contextlib.contextmanager
def _written(path: Path) -> Iterator[h5py.File]:
    """A new HDF5 file. Raises OSError if it cannot be written."""
    with FaultKeeper(path, "w+") as keeper:
        try:
            with h5py.File(keeper, "w", libver=FORMAT) as file:
                yield file
        finally:
            if keeper.fault is not None:
                raise keeper.fault


@contextlib.contextmanager
def open_part(path: Path, header: Header) -> Iterator[h5py.File]:
    """A part of the store with this header, to read. Raises DamagedError, also for what fails while it is open.

    Without HDF5's locks, which a read-only folder may refuse: parts never change.
    """
    try:
        with h5py.File(path, "r", locking=False) as file:
            if json.loads(cast(bytes, file.attrs["header"])) != header.model_dump(mode="json"):
                raise DamagedError("it belongs to another store")
            yield file
    except FileNotFoundError:
        raise DamagedError("it is gone; if the store was packed meanwhile, open the store again") from None
    except (OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise DamagedError(" ".join(str(error).split())) from error


def rows_digest(rows: pd.DataFrame) -> str:
    """A digest of `COLUMNS`."""
    whole = hashlib.sha256(rows["token_index"].to_numpy("<i8").tobytes())
    for name in TEXT:
        whole.update("\0".join(rows[name].tolist()).encode())
    return whole.hexdigest()


def count_vectors(rows: pd.DataFrame) -> int:
    """The number of vectors that rows refer to."""
    return int(rows["vector"].max()) + 1


def read_rows(file: h5py.File) -> pd.DataFrame:
    """`COLUMNS` and `vector`."""
    table = _dataset(file, "rows")[:]
    columns: dict[str, Any] = {name: [text.decode() for text in table[name].tolist()] for name in TEXT}
    return pd.DataFrame(columns | {name: table[name] for name in NUMBERS})[[*COLUMNS, "vector"]]


def read_vectors(
    file: h5py.File, header: Header, site: str, layer: int, n: int
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Vectors of one layer as stored, n or more of the site's width, and [n] which of them are intact.

    Raises DamagedError for what has another shape or dtype.
    """
    try:
        dataset = _dataset(file, f"residuals/{site}/{layer}")
    except (KeyError, OSError):
        return np.empty((n, 0)), np.zeros(n, bool)
    if dataset.dtype != STORED[header.dtype] or dataset.shape[1:] != (header.width(site),) or len(dataset) < n:
        raise DamagedError(f"{site} {layer} is {dataset.dtype} {list(dataset.shape)}")
    try:
        return dataset[:], np.ones(n, bool)
    except OSError:
        return _salvage(dataset)


def _salvage(dataset: h5py.Dataset) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The chunks that can still be read."""
    values, intact = np.zeros(dataset.shape, dataset.dtype), np.zeros(len(dataset), bool)
    for chunk in dataset.iter_chunks():
        with contextlib.suppress(OSError):
            values[chunk] = dataset[chunk]
            intact[chunk[0]] = True
    return values, intact


def _dataset(file: h5py.File, name: str) -> h5py.Dataset:
    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset):
        raise KeyError(f"{name} is not a dataset")
    if dataset.id.get_storage_size() < dataset.nbytes:  # we pack nothing; what is packed may hold more than the memory
        raise DamagedError(f"{name} takes {dataset.nbytes:,} bytes and has fewer")
    return dataset


def _table(rows: pd.DataFrame) -> NDArray[Any]:
    """Rows as fixed-length records."""
    columns = {name: np.array([text.encode() for text in rows[name].tolist()], "S") for name in TEXT}
    columns |= {name: rows[name].to_numpy("<i8") for name in NUMBERS}
    fields = [
        (name, h5py.string_dtype("utf-8", values.dtype.itemsize) if name in TEXT else values.dtype)
        for name, values in columns.items()
    ]
    table = np.empty(len(rows), fields)
    for name, values in columns.items():
        table[name] = values
    return table


def share_vectors(rows: pd.DataFrame, residuals: Mapping[str, NDArray[Any]]) -> tuple[list[int], list[int]]:
    """Which rows of the residuals to keep, and for each row which of those is its own.

    Two rows share a vector if they name the same position of the same token ids *and* agree in every bit, so that
    sharing loses nothing.
    """
    first: dict[tuple[Any, ...], int] = {}
    kept: list[int] = []
    vector: list[int] = []
    keys = zip(*(rows[name].tolist() for name in ("position", "token_index", "ids_hash")), strict=True)
    for row, key in enumerate(keys):
        other = first.setdefault(key, row)
        if other != row and all(values[row].tobytes() == values[other].tobytes() for values in residuals.values()):
            vector.append(vector[other])
        else:
            vector.append(len(kept))
            kept.append(row)
    return kept, vector
