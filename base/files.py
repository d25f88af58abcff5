"""Files that are on the disk whole or not at all, digests by which they are known, and file locks."""

import contextlib
import errno
import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, SoftFileLock

from .errors import UserError, cause

if TYPE_CHECKING:
    import pandas as pd

TEMPORARY = ".writing"


@contextlib.contextmanager
def atomic_write(path: Path, mark: str = "", once: bool = False) -> Iterator[Path]:
    """A temporary path that becomes `path` once it is written and on the disk; of a failure nothing is left.

    Writers of the same file have a `mark` each, which tells their temporary files apart. If it is to be written `once`,
    the first of them writes it, and the others raise FileExistsError; where a disk has no links, the last.
    """
    temporary = path.with_name(f"{TEMPORARY}{mark}-{path.name}")
    temporary.unlink(missing_ok=True)  # in a stranger's folder it may be a link to a file elsewhere
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


def json_digest(data: Any) -> str:
    """A short hash of anything that JSON can hold."""
    return digest_of(json.dumps(data, sort_keys=True).encode())[:16]


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """What JSON can hold, with its own digest, which `unsealed` compares: it tells damage, and is no signature."""
    plain = json.loads(json.dumps(record))  # as it will be read
    return {**plain, "digest": json_digest(plain)}


def unsealed(record: Any) -> dict[str, Any]:
    """The record of `sealed`. Raises ValueError if it is not as it was written."""
    if not isinstance(record, dict) or "digest" not in record:
        raise ValueError("is no record with a digest, or of an earlier version, which wrote none")
    plain = {key: value for key, value in record.items() if key != "digest"}
    if record["digest"] != json_digest(plain):
        raise ValueError("is damaged: its digest is wrong")
    return plain


def sync(path: Path) -> None:
    """Have the bytes of a file, or the names in a folder, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class OutputFolder:
    """A folder of files that are written whole or not at all."""

    def __init__(self, path: Path, mark: str = "") -> None:
        self.path, self.mark = path, mark
        """`mark` stands in the names of temporary files, which no other process may touch."""

    def write(self, name: str, text: str, once: bool = False) -> None:
        """Write a text file whole or not at all. Raises FileExistsError if another process has, and once is enough."""
        with self._atomic(name, once) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all, in a folder that is made if it is not there."""
        with self._room_for(name) as path:
            path.parent.mkdir(exist_ok=True)
        with self._atomic(name) as temporary:
            temporary.write_bytes(content)

    def write_json(self, name: str, data: Any, once: bool = False) -> None:
        """Write JSON; NaN must have become null before, for JSON has none."""
        self.write(name, json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n", once)

    def write_table(self, name: str, table: "pd.DataFrame") -> None:
        """Write a Parquet file whole or not at all."""
        with self._atomic(name) as temporary:
            table.to_parquet(temporary, index=False)

    @contextlib.contextmanager
    def _atomic(self, name: str, once: bool = False) -> Iterator[Path]:
        """A temporary path that becomes `name` once it is written and on the disk."""
        with self._room_for(name) as path, atomic_write(path, self.mark, once) as temporary:
            yield temporary

    @contextlib.contextmanager
    def _room_for(self, name: str) -> Iterator[Path]:
        """The path of a file to write; a disk that is full, or gone, is one line."""
        path = self.path / name
        if path.parent != self.path and path.parent.is_symlink():
            raise UserError(f"{path.parent}: is a link out of {self.path}, through which nothing is written; remove it")
        try:
            yield path
        except FileExistsError:
            raise
        except OSError as error:
            closed = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR)
            advice = "make it writable" if closed else "make room"
            raise UserError(
                f"{path}: cannot be written ({error.strerror or error}); {advice} and give the same command again"
            ) from error


# File locks, on disks some of which have none: network folders without a lock service, parallel file systems that are
# mounted without them.

NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP})
"""What a system says that cannot lock, as opposed to one where another process holds the lock."""
ELSEWHERE = "choose a folder on a disk that has them"


class NoLocksError(UserError):
    """This disk has no file locks."""


@contextlib.contextmanager
def locked(path: Path, patience: float = -1, advice: str = ELSEWHERE) -> Iterator[None]:
    """Hold the lock file `path`; it goes with the process, however that ends.

    Args:
        patience: seconds to wait for it; below 0: as long as it takes.
        advice: what to do where there are no locks. A lock file that is only created, as a library may make it there,
            would outlive a process that is killed, so that it is none.

    Raises filelock.Timeout if another process holds it, NoLocksError where the disk has none, OSError for a file that
    cannot be written.
    """
    lock = FileLock(path, timeout=patience)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the fall back to a file
            lock.acquire()
        if isinstance(lock, SoftFileLock):
            lock.release()
            raise NotImplementedError("flock is not implemented")
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno not in NO_LOCKS:
            raise
        raise NoLocksError(f"{path.parent}: this disk has no file locks ({cause(error)}); {advice}") from error
    try:
        yield
    finally:
        lock.release()
