"""`commits.jsonl`: a line per batch that counts. It is the one list of a run's beliefs and of its activations."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import UserError


def read_commits(path: Path) -> dict[int, dict[str, Any]]:
    """Batch number -> its commit line, from `path` and from the files of shards beside it. Of two lines for one batch
    the first counts.

    Raises UserError as `commit_lines` does.
    """
    found: dict[int, dict[str, Any]] = {}
    for file in sorted(path.parent.glob(f"{path.stem}*{path.suffix}")):
        for commit in commit_lines(file):
            found.setdefault(commit["batch"], commit)
    return found


def commit_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The commit lines of one file. A last line that was cut off does not count.

    Raises UserError for any other line that cannot be read.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                commit = json.loads(line)
                yield commit | {"batch": int(commit["batch"])}
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(f"{path}: line {number} is damaged; delete it, and run again") from error


def append_commit(path: Path, number: int, note: dict[str, Any]) -> None:
    """Make batch `number` count, from the moment its line is on the disk. A last line that was cut off is replaced."""
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":
                file.seek(0)
                file.truncate(sum(len(line) for line in file if line.endswith(b"\n")))
        file.write(json.dumps({"batch": number, **note}).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
