"""`commits.jsonl`: a line per batch that counts. It is the one list of a run's beliefs and of its activations.

Each line ends with a digest of itself, so that one that was edited is known; the manifest of a complete run holds a
digest of all its lines, so that one that was lost or moved is. Of the last line a kill may leave a piece, which has no
newline and does not count.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...base.errors import UserError, in_one_line
from ...base.files import atomic_write, digest_of

DIGEST = b', "digest": "'
AGAIN = "give the command of the run again with --restore, which reads anew what is lost"


def read_commits(path: Path, until: Mapping[str, str] | None = None) -> dict[int, dict[str, Any]]:
    """Batch number -> its commit line, from `path` and from the files of shards beside it. Of two lines for one batch
    the first counts.

    Args:
        until: file -> the digest of the lines that count (`lines_digest`), of a run that is complete; what a shard that
            fell behind wrote after them does not. Older runs have that of the last such line. None: all lines.

    Raises UserError for a line that is damaged, that stands there twice or, in older files, that does not follow the
    one before it, and for a file without the lines that count.
    """
    commits: dict[int, dict[str, Any]] = {}
    for file in commit_files(path) if until is None else (path.with_name(name) for name in sorted(until)):
        last = None if until is None else until[file.name]
        whole, ended = hashlib.sha256(), False
        for line, commit in _commit_lines(file):
            whole.update(line)
            if not ended:
                commits.setdefault(commit["batch"], commit)
            ended = ended or last in (whole.hexdigest(), commit["digest"])
        if last is not None and not ended:
            raise UserError(f"{file}: has not the lines with which the run ended; {AGAIN}")
    return commits


def commit_files(path: Path) -> list[Path]:
    """`path`, and the files of shards beside it."""
    return sorted(path.parent.glob(f"{path.stem}*{path.suffix}"))


def _commit_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The commit lines of one file, and what they say."""
    before, seen = "", set[str]()
    for number, line in enumerate(_whole_lines(path), 1):
        commit = _commit(line)
        if commit is None or commit["digest"] in seen:
            old = b'"batch"' in line and DIGEST not in line
            fault = "is of an earlier version, which wrote no digests; run anew with another --out"
            raise UserError(f"{path}: line {number} {fault if old else f'is damaged; {AGAIN}'}")
        if commit.get("before", before) != before:
            raise UserError(f"{path}: line {number} does not follow the one before it: lines are missing; {AGAIN}")
        before = commit["digest"]
        seen.add(before)
        yield line, commit


def intact_lines(path: Path) -> list[dict[str, Any]]:
    """The commit lines of one file that are as they were written, whatever became of the others."""
    return [commit for line in _whole_lines(path) if (commit := _commit(line))]


def lines_digest(path: Path) -> str:
    """The digest of all lines of a file; empty without any. Raises UserError for a line that is damaged."""
    lines = b"".join(line for line, _ in _commit_lines(path))
    return digest_of(lines) if lines else ""


def rewrite(path: Path, kept: Collection[Mapping[str, Any]]) -> None:
    """Write a file of these commits alone, in their order."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(b"".join(map(_sealed, kept)))


def append_commit(path: Path, number: int, note: Mapping[str, Any]) -> None:
    """Make batch `number` count, from the moment its line is on the disk. A last line that was cut off is replaced."""
    with path.open("a+b") as file:
        if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) >= 0 and file.read() != b"\n":
            file.truncate(sum(map(len, _whole_lines(path))))
        file.write(_sealed({"batch": number, **note}))
        file.flush()
        os.fsync(file.fileno())


def _whole_lines(path: Path) -> Iterator[bytes]:
    with in_one_line(path, AGAIN), path.open("rb") as file:
        yield from (line for line in file if line.endswith(b"\n"))


def _sealed(commit: Mapping[str, Any]) -> bytes:
    """The line of a commit, with its digest."""
    text = json.dumps({key: value for key, value in commit.items() if key not in ("before", "digest")}).encode()
    return text[:-1] + DIGEST + digest_of(text).encode() + b'"}\n'


def _commit(line: bytes) -> dict[str, Any] | None:
    """What a line says; None if it is not as it was written."""
    text, mark, digest = line.rpartition(DIGEST)
    text += b"}"
    if not mark or digest != digest_of(text).encode() + b'"}\n':
        return None
    return {**json.loads(text), "digest": digest[: -len(b'"}\n')].decode()}
