"""`commits.jsonl`: a line per batch that counts. It is the one list of a run's beliefs and of its activations.

Each line ends with a digest of itself and carries that of the line before it, so that a line that was edited, lost or
moved is known. Of the last line a kill may leave a piece, which has no newline and does not count.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import UserError, in_one_line
from ..files import atomic_write, digest_of

OWN = b', "digest": "'
TAIL = 2**16
"""Bytes at the end of a file in which its last line is looked for first."""
AGAIN = "give the command of the run again with --restore, which reads anew what is lost"


def read_commits(path: Path, until: Mapping[str, str] | None = None) -> dict[int, dict[str, Any]]:
    """Batch number -> its commit line, from `path` and from the files of shards beside it. Of two lines for one batch
    the first counts.

    Args:
        path: of the whole run's commits.
        until: file -> the digest of the last line that counts, of a run that is complete; what a shard that fell behind
            wrote after it does not. None: all lines.

    Raises UserError as `commit_lines` does, and for a file without its last line.
    """
    found: dict[int, dict[str, Any]] = {}
    for file in commit_files(path) if until is None else (path.with_name(name) for name in sorted(until)):
        last = None if until is None else until[file.name]
        ended = False
        for commit in commit_lines(file):
            if not ended:
                found.setdefault(commit["batch"], commit)
            ended = ended or commit["digest"] == last
        if last is not None and not ended:
            raise UserError(f"{file}: has not the lines with which the run ended; {AGAIN}")
    return found


def commit_files(path: Path) -> list[Path]:
    """`path`, and the files of shards beside it."""
    return sorted(path.parent.glob(f"{path.stem}*{path.suffix}"))


def commit_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The commit lines of one file, with their digests. A last line that was cut off does not count.

    Raises UserError for a line that is damaged, or does not follow the one before it.
    """
    before = ""
    for number, line in enumerate(_whole_lines(path), 1):
        commit = _commit(line)
        if commit is None:
            old = b'"batch"' in line and OWN not in line
            fault = "is of an earlier version, which wrote no digests; run anew with another --out"
            raise UserError(f"{path}: line {number} {fault if old else f'is damaged; {AGAIN}'}")
        if commit["before"] != before:
            raise UserError(f"{path}: line {number} does not follow the one before it: lines are missing; {AGAIN}")
        before = commit["digest"]
        yield commit


def intact_lines(path: Path) -> list[dict[str, Any]]:
    """The commit lines of one file that are as they were written, whatever became of the others."""
    return [commit for line in _whole_lines(path) if (commit := _commit(line))]


def last_digest(path: Path) -> str:
    """The digest of the last line, and so of all of them; empty without any."""
    *_, last = ({"digest": ""}, *commit_lines(path))
    return last["digest"]


def rewrite(path: Path, kept: Collection[Mapping[str, Any]]) -> None:
    """Write a file of these commits alone, in their order."""
    text, before = b"", ""
    for commit in kept:
        line, before = _sealed({**commit, "before": before})
        text += line
    with atomic_write(path) as temporary:
        temporary.write_bytes(text)


def append_commit(path: Path, number: int, note: Mapping[str, Any]) -> None:
    """Make batch `number` count, from the moment its line is on the disk. A last line that was cut off is replaced."""
    size, line = _end(path) if path.exists() else (0, b"")
    last = _commit(line) if line else {"digest": ""}
    if last is None:
        raise UserError(f"{path}: the last line is damaged; {AGAIN}")
    line, _ = _sealed({"batch": number, **note, "before": last["digest"]})
    with path.open("a+b") as file:
        file.truncate(size)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def _whole_lines(path: Path) -> Iterator[bytes]:
    with in_one_line(path, AGAIN), path.open("rb") as file:
        yield from (line for line in file if line.endswith(b"\n"))


def _end(path: Path) -> tuple[int, bytes]:
    """The bytes that whole lines take, and the last of them; found from the end."""
    with path.open("rb") as file:
        size, back = file.seek(0, os.SEEK_END), TAIL
        while True:
            start = file.seek(max(0, size - back))
            tail = file.read()
            end = tail.rfind(b"\n") + 1
            begin = tail.rfind(b"\n", 0, max(0, end - 1)) + 1
            if begin or not start:
                return start + end, tail[begin:end]
            back *= 2


def _sealed(commit: Mapping[str, Any]) -> tuple[bytes, str]:
    """The line of a commit, and its digest."""
    text = json.dumps({key: value for key, value in commit.items() if key != "digest"}).encode()
    digest = digest_of(text)
    return text[:-1] + OWN + digest.encode() + b'"}\n', digest


def _commit(line: bytes) -> dict[str, Any] | None:
    """What a line says; None if it is not as it was written."""
    text, own, digest = line.rpartition(OWN)
    text += b"}"
    if not own or digest != digest_of(text).encode() + b'"}\n':
        return None
    return {**json.loads(text), "digest": digest[: -len(b'"}\n')].decode()}
