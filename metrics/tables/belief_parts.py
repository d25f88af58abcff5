"""A belief table that is never in memory as a whole: its parts, and what is computed of each, on the disk."""

import contextlib
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ...base.errors import UserError
from ..beliefs import VARIANT, as_tuple, of_any_version
from ..contract import Array

T = TypeVar("T")
ROWS_AT_ONCE = 40_000
"""Of a part, which ends with an item: two hundred items of a consistency run."""
NUMBER = "row"
"""The column with the number of a row."""
NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
"""Types of conditions that may be missing."""


def read_part(data: bytes) -> pa.Table:
    """The rows of a Parquet file of a belief table, each text once. Raises ValueError for what is no such file."""
    file = pa.BufferReader(data)
    texts = {
        field.name
        for field in pq.read_schema(file)
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    }
    return ds.ParquetFileFormat(dictionary_columns=texts).make_fragment(file).to_table(use_threads=False)


def as_beliefs(parts: Sequence[pa.Table]) -> pd.DataFrame:
    """Parts as one belief table of this version: texts are categories, or text if one part has text; lists tuples."""
    if len({VARIANT in part.schema.names for part in parts}) > 1:  # an earlier version has begun the run
        return pd.concat([as_beliefs([part]) for part in parts], ignore_index=True)
    texts = {field.name for part in parts for field in part.schema if pa.types.is_dictionary(field.type)}
    whole = pa.concat_tables([_with_texts(part, texts) for part in parts], promote_options="permissive")
    table = whole.unify_dictionaries().to_pandas(split_blocks=True, ignore_metadata=True, types_mapper=NULLABLE.get)
    shared: dict[Any, Any] = {}
    for name in table.select_dtypes(object).columns:
        lists = [None if value is None else as_tuple(value) for value in table[name]]
        table[name] = pd.Series([shared.setdefault(value, value) for value in lists], table.index, dtype=object)
    return of_any_version(table).astype({"layer": "Int32"})


def _with_texts(part: pa.Table, texts: Collection[str]) -> pa.Table:
    for i, field in enumerate(part.schema):
        if field.name in texts and not pa.types.is_dictionary(field.type):
            part = part.set_column(i, field.name, part.column(i).cast(pa.string()).dictionary_encode())
    return part


class BeliefParts:
    """The beliefs of a run, by parts of whole items in their order, of which one is in memory."""

    def __init__(self, parts: Callable[[], Iterable[pd.DataFrame]], room: Path | None = None) -> None:
        """Parts that can be had repeatedly; what is computed of them is a file without a name in `room`."""
        self._parts, self._room = parts, room
        self._once: dict[Callable[[BeliefParts], Any], Any] = {}

    @classmethod
    def of(cls, table: pd.DataFrame) -> "BeliefParts":
        """Of a table that is in memory: in one part where items do not follow each other."""
        return cls(lambda: _split(table))

    def __iter__(self) -> Iterator[pd.DataFrame]:
        yield from self._parts()

    def each(self, change: Callable[[Iterator[pd.DataFrame]], Iterable[pd.DataFrame]]) -> "BeliefParts":
        """Other beliefs, whose parts are computed of these whenever they are asked for."""
        return BeliefParts(lambda: change(iter(self)), self._room)

    def once(self, compute: "Callable[[BeliefParts], T]") -> T:
        """What a function computes of all parts; it is computed once."""
        if compute not in self._once:
            self._once[compute] = compute(self)
        return self._once[compute]

    def tabulated(self, tables_of: "Callable[[pd.DataFrame], Mapping[str, pd.DataFrame]]") -> "StoredTables":
        """Tables, by name, that a function computes of every part, on the disk. Each has the column `method`, and
        columns of one type in all parts.

        Raises UserError if they cannot be written there.
        """
        return StoredTables(map(tables_of, self), self._room)


BeliefTable = pd.DataFrame | BeliefParts
"""In one piece, or in parts."""


def in_parts(beliefs: BeliefTable) -> BeliefParts:
    """In parts, whatever it is in."""
    return beliefs if isinstance(beliefs, BeliefParts) else BeliefParts.of(beliefs)


class StoredTables:
    """Tables on the disk, of which the rows of a method are read, and no column but those that are asked for."""

    def __init__(self, parts: Iterable[Mapping[str, pd.DataFrame]], room: Path | None) -> None:
        self._tables: dict[str, _StoredTable] = {}
        for tables in parts:
            with _writable(room):
                for name, table in tables.items():
                    if name not in self._tables:
                        self._tables[name] = _StoredTable(table, room)
                    self._tables[name].append(table)
        with _writable(room):
            for table in self._tables.values():
                table.end()

    def methods(self, name: str) -> list[str]:
        """The methods of a table, in the order in which they came."""
        return list(self._tables[name].methods) if name in self._tables else []

    def read(self, name: str, method: str, columns: Sequence[str]) -> pd.DataFrame:
        """Columns of the rows of a method, in their order; the index numbers the rows of all methods."""
        return self._tables[name].read(ds.field("method") == method, columns)

    def rows(self, name: str, numbers: Array, columns: Sequence[str]) -> pd.DataFrame:
        """Columns of the rows that have these numbers, in the order of these."""
        return self._tables[name].read(ds.field(NUMBER).isin(pa.array(numbers)), columns).loc[numbers]


class _StoredTable:
    """A Parquet file without a name, with a row group for each method of each part."""

    def __init__(self, first: pd.DataFrame, room: Path | None) -> None:
        self.methods: dict[str, None] = {}
        self._schema = pa.schema({name: _stored(first[name].dtype) for name in first.columns} | {NUMBER: pa.int64()})
        self._file = tempfile.TemporaryFile(dir=room)  # noqa: SIM115
        self._writer = pq.ParquetWriter(self._file, self._schema, compression="none")
        weakref.finalize(self, _close, self._writer, self._file)
        self._n_rows = 0

    def append(self, table: pd.DataFrame) -> None:
        """Write the rows of a part."""
        table = table.assign(**{NUMBER: self._n_rows + np.arange(len(table))})
        self._n_rows += len(table)
        for method, rows in table.groupby("method", sort=False, observed=True):
            self.methods[str(method)] = None
            group = pa.Table.from_pandas(rows, self._schema, preserve_index=False)
            self._writer.write_table(group, row_group_size=len(group))

    def end(self) -> None:
        """Nothing more is written."""
        self._writer.close()
        texts = {field.name for field in self._schema if pa.types.is_string(field.type)}
        self._stored = ds.ParquetFileFormat(dictionary_columns=texts).make_fragment(self._file)

    def read(self, rows: ds.Expression, columns: Sequence[str]) -> pd.DataFrame:
        """Columns of the rows that meet a condition, numbered."""
        wanted = list(dict.fromkeys([NUMBER, *columns]))
        chosen = self._stored.to_table(columns=wanted, filter=rows, use_threads=False).unify_dictionaries()
        return chosen.to_pandas(split_blocks=True, self_destruct=True).set_index(NUMBER).rename_axis(None)


@contextlib.contextmanager
def _writable(room: Path | None) -> Iterator[None]:
    """A disk that is full, or gone, is one line."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{room or tempfile.gettempdir()}: what is made of the beliefs cannot be written there "
            f"({error.strerror or error}); make room and give the same command again"
        ) from error


def _close(writer: pq.ParquetWriter, file: IO[bytes]) -> None:
    """Quietly: a table that was not finished is of no use, and what cannot be written was said."""
    with contextlib.suppress(OSError, ValueError):
        writer.close()
    writer.is_open = False
    with contextlib.suppress(OSError):
        file.close()


def _stored(dtype: Any) -> pa.DataType:
    """What is no number is stored as text."""
    return pa.from_numpy_dtype(dtype) if isinstance(dtype, np.dtype) and dtype.kind in "fib" else pa.string()


def _split(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    items, _ = pd.factorize(table["item"])
    starts = np.flatnonzero(np.diff(items, prepend=-1))
    if (np.diff(items) < 0).any() or not len(starts):
        yield table
        return
    cuts = starts[np.flatnonzero(np.diff(starts // ROWS_AT_ONCE, prepend=-1))]
    for start, end in zip(cuts, [*cuts[1:], len(table)], strict=True):
        part = table.iloc[start:end]
        categories = part.select_dtypes("category").columns
        yield part.assign(**{str(name): part[name].cat.remove_unused_categories() for name in categories})
