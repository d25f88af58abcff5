"""Opening a table of any size: chunk by chunk, and only the columns that are wanted."""

import codecs
import contextlib
import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from ...base.documents import once
from ...base.errors import UserError, nearest
from ..beliefs import COLUMNS
from .harness_logs import INSPECT, harness_rows, inspect_rows, is_harness, lacking_of_harness

CHUNK = 50_000
"""Rows that are held as text at once."""
BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

COPY = re.compile(r" \(\d+\)\.parquet$|\bcopy\b", re.IGNORECASE)
"""How file managers name copies."""

Chunk = dict[str, Sequence[Any]]


@dataclass(frozen=True)
class TableSource:
    """A table that is open: its columns, and its rows when they are asked for."""

    path: Path
    columns: tuple[str, ...]
    """Names without surrounding blanks and in lower case."""
    chunks: Callable[[Sequence[str]], Iterator[Chunk]]
    """Columns wanted -> their cells, up to `CHUNK` rows at a time."""
    header: tuple[str, ...] = ()
    """The columns as the file calls them; of a table that was renamed none."""


def open_table(path: Path) -> TableSource:
    """Open a .csv, .parquet, .jsonl or .json file, a folder of Parquet parts, a log of Inspect (.eval), or a sample
    file of lm-eval (.jsonl).

    Raises UserError if it cannot be read. Faults further down are found when the chunks are.
    """
    if path.is_dir():
        parts = sorted(path.glob("*.parquet"))
        if not parts:
            raise UserError(f"{path}: is a folder without .parquet parts; give a file")
        _refuse_leftovers(parts)
        return _parquet(path, parts)
    openers = {".csv": _csv, ".jsonl": _jsonl, ".json": _json, ".parquet": lambda file: _parquet(file, [file])}
    openers[INSPECT] = _inspect
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    if path.suffix.lower() not in openers:
        raise UserError(
            f"{path}: unknown extension {path.suffix!r}; give a .csv, .jsonl, .json, .parquet or .eval file"
        )
    return openers[path.suffix.lower()](path)


def _refuse_leftovers(parts: Sequence[Path]) -> None:
    """Raise UserError for what is no part by its name: a copy, or what a writer left that was killed."""
    for part in parts:
        if part.name.startswith("."):
            raise UserError(f"{part}: is a hidden file, as a writer that was killed leaves it; delete it")
        if COPY.search(part.name):
            raise UserError(f"{part}: is a copy by its name; take it out, or rename it")


def _csv(path: Path) -> TableSource:
    def rows() -> Iterator[list[str]]:
        csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # a column may hold whole prompts
        with _faults(path), path.open(encoding=_encoding(path), newline="") as file:
            yield from filter(None, csv.reader(file, strict=True))

    header = next(rows(), None)
    if header is None:
        raise UserError(f"{path}: is empty; the first line names the columns")
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        raise UserError(f"{path}: its columns are not separated by commas; save it as comma-separated values")
    names = _names(path, header)

    def chunks(wanted: Sequence[str]) -> Iterator[Chunk]:
        place = {name: i for i, name in enumerate(names)}
        at = [place[name] for name in wanted]

        def kept() -> Iterator[list[str]]:
            for number, row in enumerate(islice(rows(), 1, None), 1):
                if len(row) != len(names):
                    raise UserError(f"{path}: row {number} has {len(row)} fields, the header {len(names)}")
                yield [row[i] for i in at]

        return _in_chunks(kept(), wanted)

    return TableSource(path, names, chunks, tuple(header))


def renamed(source: TableSource, names: Mapping[str, str]) -> TableSource:
    """The table with other names for its columns: new name -> the one that it has.

    Raises UserError for a column that is not there, or a new name that another column has.
    """
    named = {new.strip().lower(): old.strip().lower() for new, old in names.items()}
    for new, old in named.items():
        if old not in source.columns:
            turned = f"; give {old}={new}, the wanted name first" if new in source.columns else ""
            raise UserError(f"{source.path}: --map {new}={old}: has no column {old!r}{turned}")
        if new in source.columns and new not in named.values():
            raise UserError(f"{source.path}: --map {new}={old}: has a column {new!r} already; map that one, too")
    if len(set(named.values())) < len(named):
        raise UserError(f"{source.path}: --map: one column cannot have two names")
    new_of = {old: new for new, old in named.items()}

    def chunks(wanted: Sequence[str]) -> Iterator[Chunk]:
        stored = [named.get(name, name) for name in wanted]
        for chunk in source.chunks(stored):
            yield {name: chunk[old] for name, old in zip(wanted, stored, strict=True)}

    return TableSource(source.path, tuple(new_of.get(name, name) for name in source.columns), chunks)


def of_frame(path: Path, frame: pd.DataFrame) -> TableSource:
    """A table in memory, in one chunk; what is missing has an empty cell."""
    cells = {name: frame[name].astype(object).where(frame[name].notna(), "").tolist() for name in frame.columns}

    def chunks(wanted: Sequence[str]) -> Iterator[Chunk]:
        yield {name: cells[name] for name in wanted}

    return TableSource(path, tuple(cells), chunks)


def _json(path: Path) -> TableSource:
    """A list of objects, or an object of equally long lists."""
    with _faults(path), path.open(encoding=_encoding(path)) as file:
        try:
            data = json.load(file, object_pairs_hook=once)
        except json.JSONDecodeError as error:
            raise UserError(f"{path}: is not JSON ({error.msg}, line {error.lineno})") from None
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}: is not JSON ({error})") from None
    if isinstance(data, dict) and {"eval", "samples"} <= data.keys():
        return _inspect(path)
    if isinstance(data, dict) and {"results", "configs"} <= data.keys():
        raise UserError(f"{path}: is a summary of lm-eval, without any sample; give samples_*.jsonl (--log_samples)")
    if isinstance(data, dict) and data and all(isinstance(column, list) for column in data.values()):
        lengths = {name: len(column) for name, column in data.items()}
        if len(set(lengths.values())) > 1:
            each = ", ".join(f"{name} {n}" for name, n in lengths.items())
            raise UserError(f"{path}: columns are of different lengths ({each})")
        data = [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]
    if not isinstance(data, list):
        raise UserError(f'{path}: is no table; give a list of objects like {{"prior": 0.4, ...}}, or columns as lists')
    return _of_objects(path, lambda: iter(data))


def _jsonl(path: Path) -> TableSource:
    def rows() -> Iterator[Any]:
        with _faults(path), path.open(encoding=_encoding(path)) as file:
            for number, line in enumerate(filter(str.strip, file), 1):
                try:
                    yield json.loads(line, object_pairs_hook=once)
                except (ValueError, RecursionError) as error:
                    fault = getattr(error, "msg", str(error))
                    raise UserError(f"{path}: row {number} is not JSON ({fault}); one object per line") from None

    first: Any = next(rows(), None)
    if lacking := lacking_of_harness(first):
        raise UserError(
            f"{path}: looks like a sample file of lm-eval, and lacks {lacking!r}; {nearest(lacking, first)}"
        )
    if is_harness(first):
        return _of_objects(path, lambda: harness_rows(path, rows))
    return _of_objects(path, rows)


def _inspect(path: Path) -> TableSource:
    rows = list(inspect_rows(path))
    return _of_objects(path, lambda: iter(rows))


def _of_objects(path: Path, read: Callable[[], Iterator[Any]]) -> TableSource:
    """A table of JSON objects with the same keys."""

    def rows() -> Iterator[dict[str, Any]]:
        for number, row in enumerate(read(), 1):
            if not isinstance(row, dict):
                raise UserError(f'{path}: row {number} is not an object like {{"prior": 0.4, ...}}')
            yield row

    first: Any = next(rows(), None)
    if first is None:
        raise UserError(f"{path}: is empty; give one JSON object per row")
    names = _names(path, list(first))
    keys = dict(zip(names, first, strict=True))

    def chunks(wanted: Sequence[str]) -> Iterator[Chunk]:
        def kept() -> Iterator[list[Any]]:
            for number, row in enumerate(rows(), 1):
                if differing := row.keys() ^ first.keys():
                    key = sorted(differing)[0]
                    fault = "has no" if key in first else "is the first with"
                    raise UserError(
                        f"{path}: row {number} {fault} key {key!r}; give every row the same, null if missing"
                    )
                yield [row[keys[name]] for name in wanted]

        return _in_chunks(kept(), wanted)

    return TableSource(path, names, chunks, tuple(first))


def _parquet(path: Path, parts: Sequence[Path]) -> TableSource:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _faults(path):
        schemas = [pq.read_schema(part).names for part in parts]
    for part, columns in zip(parts, schemas, strict=True):
        if columns != schemas[0] and not set(COLUMNS) <= {*columns} & {*schemas[0]}:
            raise UserError(f"{part}: has other columns than {parts[0].name}; score them one by one")
    header = list(dict.fromkeys(name for columns in schemas for name in columns))  # parts of a run lack conditions
    names = _names(path, header)
    stored = dict(zip(names, header, strict=True))

    def cells(column: Any) -> Sequence[Any]:
        kind = column.type
        if pa.types.is_floating(kind) or (pa.types.is_integer(kind) and not column.null_count):
            return column.to_numpy(zero_copy_only=False)
        return column.to_pylist()

    def chunks(wanted: Sequence[str]) -> Iterator[Chunk]:
        with _faults(path):
            for part, columns in zip(parts, schemas, strict=True):
                there = [name for name in wanted if stored[name] in columns]
                for batch in pq.ParquetFile(part).iter_batches(CHUNK, columns=[stored[name] for name in there]):
                    absent: Chunk = {name: [None] * batch.num_rows for name in wanted}
                    yield absent | {name: cells(batch.column(stored[name])) for name in there}

    return TableSource(path, names, chunks, tuple(header))


def _in_chunks(rows: Iterator[list[Any]], wanted: Sequence[str]) -> Iterator[Chunk]:
    """Rows to columns. A row is cut down before it gets here, so that long prompts are never held together."""
    while block := list(islice(rows, CHUNK)):
        yield dict(zip(wanted, zip(*block, strict=True), strict=True))


def _names(path: Path, header: Sequence[str]) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in header)
    twice = sorted(name for name, n in Counter(names).items() if name and n > 1)
    if twice:
        raise UserError(f"{path}: has two columns {twice[0]!r} (capitals do not count); rename one")
    return names


def _encoding(path: Path) -> str:
    """UTF-8, unless a byte-order mark says otherwise."""
    with path.open("rb") as file:
        start = file.read(256)
    for mark, encoding in BOMS:
        if start.startswith(mark):
            return encoding
    if b"\0" in start:
        raise UserError(f"{path}: is no UTF-8 text (it holds zero bytes); save it as UTF-8")
    return "utf-8"


@contextlib.contextmanager
def _faults(path: Path) -> Iterator[None]:
    """Whatever a library has to say about the file, as one line."""
    import pyarrow as pa

    try:
        yield
    except UnicodeError as error:
        byte = f" (byte 0x{error.object[error.start]:02x})" if isinstance(error, UnicodeDecodeError) else ""
        raise UserError(f"{path}: is in another encoding than UTF-8{byte}; save it as UTF-8") from None
    except csv.Error as error:
        raise UserError(f"{path}: is not valid CSV ({error})") from None
    except pa.ArrowException as error:
        raise UserError(f"{path}: is not valid Parquet ({str(error).splitlines()[0]})") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
