"""The cache folder, which keeps what is costly to make: conversions, rankings, tuned lenses, certificates.

What is kept is known by a list of digests beside it, `NAME.sha256`, as `sha256sum --check` reads it. What is not
as it was made, half-made or changed since, is made anew.
"""

import logging
import os
import shutil
from collections.abc import Callable
from functools import lru_cache
from glob import escape
from pathlib import Path

from filelock import Timeout
from platformdirs import user_cache_path

from .errors import UserError
from .files import TEMPORARY, atomic_write, file_digest, locked

log = logging.getLogger("doxascope")

SEAL, LOCK = ".sha256", ".lock"
ELSEWHERE = "set DOXASCOPE_CACHE to a folder on a disk that has them"


def cache_folder() -> Path:
    """$DOXASCOPE_CACHE, or the user's cache folder."""
    return Path(os.environ.get("DOXASCOPE_CACHE") or user_cache_path("doxascope"))


def kept(room: str, name: str, make: Callable[[Path], None]) -> Path:
    """The path `name` in a folder of the cache; two processes that ask at once make it once.

    Args:
        name: what the entry is known by, of which no other's is the beginning.
        make: writes the path, a file or a folder, or files of this name with suffixes.

    Raises UserError if the cache cannot be written, and what `make` raises.
    """
    home = cache_folder() / room
    path, seal = home / name, home / f"{name}{SEAL}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with locked(home / f"{name}{LOCK}", advice=ELSEWHERE):
            if not (seal.exists() and seal.read_text(encoding="utf-8") == _listed(path)):
                if seal.exists():
                    log.warning("%s: is not as it was made; it is made anew", path)
                for file in _files(path):
                    file.unlink()
                shutil.rmtree(path, ignore_errors=True)
                make(path)
                with atomic_write(seal) as temporary:
                    temporary.write_text(_listed(path), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{home}: cannot be written ({error.strerror or error}); set DOXASCOPE_CACHE") from error
    return path


def remove_leftovers(room: str) -> None:
    """Take away what killed processes left half-made in a folder of the cache; what is being made has its lock."""
    for left in (cache_folder() / room).glob(f"{TEMPORARY}-*"):
        try:
            with locked(left.with_name(left.name.removeprefix(f"{TEMPORARY}-") + LOCK), 0):
                shutil.rmtree(left, ignore_errors=True)
        except Timeout:
            continue


def _listed(path: Path) -> str:
    """A line for each file of an entry, as `sha256sum` writes it."""
    stamped = ((file, file.stat()) for file in _files(path))
    return "".join(
        f"{_digest(file, stat.st_size, stat.st_mtime_ns)}  {file.relative_to(path.parent)}\n" for file, stat in stamped
    )


def _files(path: Path) -> list[Path]:
    tops = [top for top in path.parent.glob(f"{escape(path.name)}*") if not top.name.endswith((SEAL, LOCK))]
    return sorted(file for top in tops for file in (top, *top.rglob("*")) if file.is_file())


@lru_cache(maxsize=1000)
def _digest(path: Path, size: int, changed: int) -> str:
    """That of a file, read once by a process unless its size or time changes."""
    return file_digest(path)
