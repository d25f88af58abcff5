"""Files that users bring: read within bounds, and whatever is wrong with one is a line that names it."""

import contextlib
import csv
import gzip
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from .errors import UserError, in_one_line

if TYPE_CHECKING:
    import pandas as pd

MOST_BYTES = 2**28
"""Of a file, unpacked, or of a line of it: a small packed one may hold more than the memory."""


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """The text of a UTF-8 file; one that ends in `.gz` is unpacked.

    Raises UserError if it cannot be read, or holds more than `most` bytes.
    """
    with _opened(path) as file:
        return _bounded(file.read, most).decode("utf-8-sig")


def user_path(name: str | Path) -> Path:
    """A path as a user writes it: `~` is their home, and stays what it is where there is none."""
    return Path(os.path.expanduser(name))


def version_of(path: Path) -> tuple[int, ...]:
    """What changes whenever a file does, or one in a folder, for what is kept in memory; empty if there is none."""
    with contextlib.suppress(OSError, ValueError):
        files = [item.stat() for item in (sorted(path.iterdir()) if path.is_dir() else [path])]
        return tuple(number for stat in files for number in (stat.st_mtime_ns, stat.st_size))
    return ()


def read_json(path: Path) -> Any:
    """What a JSON file holds. Raises UserError if it cannot be read, or has a key twice in one object."""
    return _parsed(path, read_text(path))


def read_json_rows(path: Path, needed: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The objects of a JSON list, or of a file with one a line, which is not held whole.

    Raises UserError if it cannot be read, has none, or has one without a key that is needed.
    """
    number = 0
    for number, row in enumerate(_values(path), 1):
        if not isinstance(row, Mapping):
            raise UserError(f"{path}: row {number} is no object; needed: {', '.join(needed)}")
        if lacking := [name for name in needed if name not in row]:
            raise UserError(
                f"{path}: row {number} has no {lacking[0]!r}, only {', '.join(row)}; needed: {', '.join(needed)}"
            )
        yield row
    if not number:
        raise UserError(f"{path}: has no rows")


def read_csv(path: Path) -> "pd.DataFrame":
    """A CSV as texts, empty where a cell is.

    Raises UserError if it cannot be read, has no rows, a zero byte, a row that is longer or shorter than the first
    line, or two columns of one name.
    """
    import pandas as pd

    text = read_text(path)
    with in_one_line(f"{path}: cannot be read as CSV"):
        csv.field_size_limit(MOST_BYTES)
        if "\0" in text:
            raise ValueError("it holds a zero byte, which some libraries take for the end")
        header, *rows = list(filter(None, csv.reader(io.StringIO(text, newline=""), strict=True))) or [[]]
        if (twice := repeated(header)) is not None:
            raise ValueError(f"it has two columns {twice!r}")
        for number, row in enumerate(rows, 1):
            if len(row) != len(header):
                raise ValueError(f"row {number} has {len(row)} fields, the first line {len(header)}")
        if not rows:
            raise ValueError("it has no rows")
        return pd.DataFrame(rows, columns=header, dtype=str)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, which has each key once. Raises ValueError for one that has not."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError(f"it has the key {repeated(key for key, _ in pairs)!r} twice")
    return mapping


def repeated(names: Iterable[str]) -> str | None:
    """The first name that is there more than once; None if none is."""
    return next((name for name, n in Counter(names).items() if n > 1), None)


def _values(path: Path) -> Iterator[Any]:
    with _opened(path) as file:
        for number, line in enumerate(iter(lambda: _bounded(file.readline), b""), 1):
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if text.startswith("["):
                yield from _parsed(path, text + _bounded(file.read).decode())
            elif text:
                yield _parsed(f"{path}: line {number}", text)


def _parsed(where: object, text: str) -> Any:
    with in_one_line(f"{where}: is not JSON"):
        return json.loads(text, object_pairs_hook=once)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with in_one_line(f"{path}: cannot be read", "give a file of UTF-8 text"):
        if path.exists() and not path.is_file():
            raise ValueError("it is no file")
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield cast(BinaryIO, file)


def _bounded(read: Callable[[int], bytes], most: int = MOST_BYTES) -> bytes:
    data = read(most + 1)
    if len(data) > most:
        raise ValueError(f"it holds more than {most:,} bytes, or a line of so many")
    return data
