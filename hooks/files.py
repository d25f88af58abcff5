"""Files that are on the disk whole or not at all, and digests by which they are known."""

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

TEMPORARY = ".writing"


@contextlib.contextmanager
def atomic_write(path: Path, mark: str = "", once: bool = False) -> Iterator[Path]:
    """A temporary path that becomes `path` once it is written and on the disk; of a failure nothing is left.

    Writers of the same file have a `mark` each, which tells their temporary files apart. If it is to be written `once`,
    the first of them writes it, and the others raise FileExistsError; where a disk has no links, the last.
    """
    temporary = path.with_name(f"{TEMPORARY}{mark}-{path.name}")
    try:
        yield temporary
        sync(temporary)
        if once and _linked(temporary, path):
            temporary.unlink()
        else:
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def _linked(temporary: Path, path: Path) -> bool:
    """Give a file a second name, which no other may have; False where a disk has no links. A rename would keep both."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP):
            raise
        return False
    return True


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
