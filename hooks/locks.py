"""File locks, on disks some of which have none: network folders without a lock service, parallel file systems that are
mounted without them.
"""

import contextlib
import errno
import warnings
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, SoftFileLock

from .errors import UserError, cause

NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP})
"""What a system says that cannot lock, as opposed to one where another process holds the lock."""
ELSEWHERE = "choose a folder on a disk that has them"


class NoLocksError(UserError):
    """This disk has no file locks."""


@contextlib.contextmanager
def locked(path: Path, patience: float = -1, advice: str = ELSEWHERE) -> Iterator[None]:
    """Hold the lock file `path`; it goes with the process, however that ends.

    Args:
        path: of the lock file, which stays.
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
