"""Locks, on disks that have none: the system call fails there as it does on such a disk."""

import errno
import fcntl
import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import Timeout

from doxascope import UserError
from doxascope.base.cache import kept
from doxascope.base.files import NoLocksError, locked


@pytest.fixture(params=[errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP], ids=errno.errorcode.get)
def no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(request.param, "not here")

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.usefixtures("no_locks")
def test_a_disk_without_locks_is_one_line_and_no_file_stands_in_for_one(tmp_path: Path) -> None:
    for _ in range(2):  # a file that stood in for a lock would be held the second time
        with (
            pytest.raises(NoLocksError, match=r"has no file locks \("),
            locked(tmp_path / "l", 0),
        ):
            pytest.fail("is not held")


@pytest.mark.usefixtures("no_locks")
def test_the_cache_says_where_else_it_may_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOXASCOPE_CACHE", str(tmp_path))
    with pytest.raises(UserError, match="set DOXASCOPE_CACHE to a folder on a disk that has them"):
        kept("room", "name", lambda path: path.mkdir())


def _hold(path: Path, held: Callable[[], object], let_go: Callable[[], object]) -> None:
    with locked(path):
        held()
        let_go()


def test_one_process_holds_a_lock_and_it_goes_with_it(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("fork")
    held, let_go = spawn.Event(), spawn.Event()
    process = spawn.Process(target=_hold, args=(tmp_path / "l", held.set, let_go.wait))
    process.start()
    assert held.wait(20)
    with pytest.raises(Timeout), locked(tmp_path / "l", 0):
        pytest.fail("is held by another")
    process.kill()
    process.join()
    with locked(tmp_path / "l", 0):
        pass
