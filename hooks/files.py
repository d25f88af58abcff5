"""Files that are on the disk whole or not at all, and digests by which they are known."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

TEMPORARY = ".writing"


@contextlib.contextmanager
def atomic_write(path: Path, mark: str = "") -> Iterator[Path]:
    """A temporary path that becomes `path` once it is written and on the disk; of a failure nothing is left.

    Writers of the same file have a `mark` each, which tells their temporary files apart.
    """
    temporary = path.with_name(f"{TEMPORARY}{mark}-{path.name}")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def digest_of(data: bytes) -> str:
    """SHA-256 in hexadecimal, as `sha256sum` writes it."""
    return hashlib.sha256(data).hexdigest()


def file_digest(path: Path) -> str:
    """The same of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Have the bytes of a file, or the names in a folder, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
