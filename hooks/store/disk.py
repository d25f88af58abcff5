"""Files that are on the disk whole or not at all, and a list that only grows."""

import contextlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Buffer

TEMPORARY = ".writing"


@contextlib.contextmanager
def whole(path: Path, mark: str = "") -> Iterator[Path]:
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


class FaultKeeper(io.FileIO):
    """A file for HDF5 to write, which crashes the process, or hides the fault, if a write of its own fails.

    To HDF5 every write succeeds; `fault` is the first that did not, for its caller to raise.
    """

    fault: OSError | None = None

    def write(self, data: "Buffer", /) -> int:
        """Write all of it, once and for all."""
        view = memoryview(data).cast("B")
        rest = view
        try:
            while rest and self.fault is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.fault = error
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        """Grow or shrink to `size` bytes."""
        try:
            return super().truncate(size)
        except OSError as error:
            self.fault = self.fault or error
            return self.tell() if size is None else size


def sync(path: Path) -> None:
    """Have the bytes of a file, or the names in a folder, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_commits(path: Path) -> dict[int, dict[str, Any]]:
    """Batch number -> its commit line, there or in a shard's file beside it. A line that was cut off does not count."""
    found: dict[int, dict[str, Any]] = {}
    for file in sorted(path.parent.glob(f"{path.stem}*{path.suffix}")):
        for line in file.read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                commit = json.loads(line)
                if isinstance(commit, dict) and isinstance(commit.get("batch"), int):
                    found[commit["batch"]] = commit
    return found


def append_commit(path: Path, number: int, note: dict[str, Any]) -> None:
    """Make batch `number` count, from the moment its line is on the disk."""
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":  # a kill cut the last line off: ours must not join it
                file.write(b"\n")
        file.write(json.dumps({"batch": number, **note}).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
