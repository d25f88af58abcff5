"""The list of batches that count, which only grows."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any


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
