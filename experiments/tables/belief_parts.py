"""A belief table that is never in memory as a whole: parts of it, and what is made of each part, on the disk."""

import contextlib
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ...hooks.errors import UserError
from .cells import Array

T = TypeVar("T")
ROWS_AT_ONCE = 40_000
"""Of a part, which ends with an item: two hundred items of a consistency run."""
GROUP = "method"
"""The column by which the rows of what was made are found."""
Maker = Callable[[pd.DataFrame], Mapping[str, pd.DataFrame]]
"""From the rows of some items to tables of them, by name. Each has the column `method`, and columns of one type in all
parts: numbers, categories, whose texts are held in memory once, and other texts, which are not."""


class BeliefParts:
    """The beliefs of a run, by parts of whole items in their order, of which one is in memory."""

    def __init__(self, parts: Callable[[], Iterable[pd.DataFrame]], room: Path | None = None) -> None:
        """Parts can be had again and again; what is made of them lies in a file without a name in `room`, or where
        temporary files do."""
        self._parts, self._room = parts, room
        self._once: dict[Callable[[BeliefParts], Any], Any] = {}

    @classmethod
    def of(cls, table: pd.DataFrame) -> "BeliefParts":
        """Of a table that is in memory: in one part where items do not follow each other."""
        return cls(lambda: _split(table))

    def __iter__(self) -> Iterator[pd.DataFrame]:
        yield from self._parts()

    def each(self, change: Callable[[Iterator[pd.DataFrame]], Iterable[pd.DataFrame]]) -> "BeliefParts":
        """Other beliefs, whose parts are made of these whenever they are asked for."""
        return BeliefParts(lambda: change(iter(self)), self._room)

    def once(self, make: "Callable[[BeliefParts], T]") -> T:
        """What a function makes of all parts; it is made once."""
        if make not in self._once:
            self._once[make] = make(self)
        return self._once[make]

    def made(self, maker: Maker) -> "Made":
        """What a function makes of every part, on the disk. Raises UserError if it cannot be written there."""
        return Made(map(maker, self), self._room)


BeliefTable = pd.DataFrame | BeliefParts
"""In one piece, or in parts."""


def in_parts(beliefs: BeliefTable) -> BeliefParts:
    """In parts, whatever it is in."""
    return beliefs if isinstance(beliefs, BeliefParts) else BeliefParts.of(beliefs)


class Made:
    """Tables on the disk, of which rows are read by their group, and no column but those that are asked for."""

    def __init__(self, made: Iterable[Mapping[str, pd.DataFrame]], room: Path | None) -> None:
        self._tables: dict[str, _Table] = {}
        texts: dict[str, dict[str, int]] = {}
        for tables in made:
            for name, table in tables.items():
                with _room_in(room):
                    if name not in self._tables:
                        self._tables[name] = _Table(table, texts, room)
                    self._tables[name].append(table)
        categories = {name: pd.Index(list(known), dtype=object) for name, known in texts.items()}
        for table in self._tables.values():
            with _room_in(room):
                table.end(categories)

    def groups(self, name: str) -> list[str]:
        """The groups of a table, in the order in which they came."""
        return list(self._tables[name].groups) if name in self._tables else []

    def read(self, name: str, group: str, columns: Sequence[str]) -> pd.DataFrame:
        """Columns of the rows of a group, in their order. The index numbers the rows of all groups; a category has the
        same number in columns of one name.
        """
        return self._tables[name].read(group, columns)

    def rows(self, name: str, numbers: Array, columns: Sequence[str]) -> pd.DataFrame:
        """Columns of the rows that have these numbers, in the order of these."""
        return self._tables[name].rows(numbers, columns)


class _Table:
    """A Parquet file with a row group for each group of each part, and the numbers of categories for their texts."""

    def __init__(self, first: pd.DataFrame, texts: dict[str, dict[str, int]], room: Path | None) -> None:
        self.groups: dict[str, list[int]] = {}
        """Name -> numbers of its row groups."""
        categories = [name for name in first.columns if isinstance(first[name].dtype, pd.CategoricalDtype)]
        self._texts = {name: texts.setdefault(name, {}) for name in categories}
        self._categories: Mapping[str, pd.Index] = {}
        types = {name: _stored(first[name].dtype) for name in first.columns}
        self._schema = pa.schema(types | {NUMBER: pa.int64()})
        self._file = tempfile.TemporaryFile(dir=room)  # noqa: SIM115
        self._writer = pq.ParquetWriter(self._file, self._schema, compression="none", write_statistics=False)
        weakref.finalize(self, _close, self._writer, self._file)
        self._n_rows = self._n_groups = 0

    def append(self, table: pd.DataFrame) -> None:
        """Write the rows of a part."""
        data = {name: self._numbered(name, table[name]) for name in table.columns}
        data[NUMBER] = self._n_rows + np.arange(len(table))
        self._n_rows += len(table)
        codes, groups = pd.factorize(table[GROUP])
        for code, group in enumerate(map(str, groups)):
            own = pa.table({name: values[codes == code] for name, values in data.items()}, self._schema)
            self._writer.write_table(own, row_group_size=len(own))
            self.groups.setdefault(group, []).append(self._n_groups)
            self._n_groups += 1

    def end(self, categories: Mapping[str, pd.Index]) -> None:
        """Nothing more is written; from now on the categories of each column are these."""
        self._writer.close()
        self._metadata = pq.read_metadata(self._file)
        self._categories = {name: categories[name] for name in self._texts}
        self._texts = {}

    def read(self, group: str, columns: Sequence[str]) -> pd.DataFrame:
        """See `Made.read`: into arrays of their whole length, so that nothing is there twice."""
        numbers = self.groups[group]
        ends = np.cumsum([self._metadata.row_group(number).num_rows for number in numbers])
        wanted = list(dict.fromkeys([NUMBER, *columns]))
        found = {name: np.empty(ends[-1], self._schema.field(name).type.to_pandas_dtype()) for name in wanted}
        for end, part in zip(ends, self._row_groups(numbers, wanted), strict=True):
            for name in wanted:
                found[name][end - len(part) : end] = part.column(name).to_numpy()
        return self._frame(found)

    def rows(self, numbers: Array, columns: Sequence[str]) -> pd.DataFrame:
        """See `Made.rows`."""
        every, wanted = range(self._n_groups), list(dict.fromkeys([NUMBER, *columns]))
        found = []
        for part in self._row_groups(every, wanted):
            chosen = np.isin(part.column(NUMBER).to_numpy(), numbers)
            found.append({name: part.column(name).to_numpy()[chosen] for name in wanted})
        return self._frame({name: np.concatenate([one[name] for one in found]) for name in wanted}).loc[numbers]

    def _row_groups(self, numbers: Iterable[int], columns: list[str]) -> Iterator[pa.Table]:
        self._file.seek(0)
        file = pq.ParquetFile(self._file, metadata=self._metadata)
        for number in numbers:
            yield file.read_row_group(number, columns=columns, use_threads=False)

    def _frame(self, cells: dict[str, Array]) -> pd.DataFrame:
        index = cells.pop(NUMBER)
        columns: dict[str, Any] = {
            name: pd.Categorical.from_codes(values, self._categories[name], validate=False)
            if name in self._categories
            else values
            for name, values in cells.items()
        }
        return pd.DataFrame(columns, index=index, copy=False)

    def _numbered(self, name: str, values: pd.Series) -> Array:
        """[n] the values, of categories their numbers among those of all parts; -1 for none."""
        if name not in self._texts:
            return values.to_numpy()
        known = self._texts[name]
        numbers = [known.setdefault(one, len(known)) for one in values.cat.categories]
        return np.array([*numbers, -1], dtype=np.int32)[values.cat.codes]


@contextlib.contextmanager
def _room_in(room: Path | None) -> Iterator[None]:
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


NUMBER = "row"
"""The column with the number of a row."""


def _stored(dtype: Any) -> pa.DataType:
    """As what a column is stored: a category as its number, what is no number as text."""
    if isinstance(dtype, pd.CategoricalDtype):
        return pa.int32()
    return pa.from_numpy_dtype(dtype) if isinstance(dtype, np.dtype) and dtype.kind in "fib" else pa.string()


def _split(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    items, _ = pd.factorize(table["item"])
    starts = np.flatnonzero(np.diff(items, prepend=-1))
    if (np.diff(items) < 0).any() or not len(starts):
        yield table
        return
    cuts = starts[np.flatnonzero(np.diff(starts // ROWS_AT_ONCE, prepend=-1))]
    for start, end in zip(cuts, [*cuts[1:], len(table)], strict=True):
        yield _without_others(table.iloc[start:end])


def _without_others(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows whose categories are their own."""
    named = [name for name in rows.columns if isinstance(rows[name].dtype, pd.CategoricalDtype)]
    return rows.assign(**{name: rows[name].cat.remove_unused_categories() for name in named})
