"""A run on disk: written in batches, each whole or not at all, so that a killed run goes on where it was.

    config.yaml  items.jsonl  manifest.json  commits.jsonl  beliefs/part-*.parquet  transcripts/part-*.jsonl
    scores.json  scores.parquet  published.csv  report.html

A batch counts when its line stands in `commits.jsonl`, which is written after its files. A file without a line
is written again, with the same content. A shard has a lock and a `commits-i-of-n.jsonl` of its own, so that many
processes can write one run.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from ..hooks.errors import UserError
from ..metrics.beliefs import check_belief_table
from .protocol import Item
from .shard import WHOLE, Shard


class RunFolder:
    """Reads and writes one run, or one shard of it."""

    def __init__(self, path: Path, shard: Shard = WHOLE) -> None:
        self.path = path
        self.mark = "" if shard == WHOLE else f"-{shard}"
        """In the names of files that no other shard may touch."""

    @classmethod
    def create(cls, path: Path, shard: Shard = WHOLE) -> "RunFolder":
        """The folder of a new run or of one to go on with.

        Raises UserError if it cannot be written, or holds something that is not a run.
        """
        try:
            if path.is_dir() and not (path / "manifest.json").is_file() and _foreign(path):
                raise UserError(f"{path}: is not a doxascope run and not empty; choose another --out")
            for folder in (path / "beliefs", path / "transcripts"):
                folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass
        except OSError as error:
            raise UserError(f"{path}: cannot be written ({error.strerror}); choose another --out") from error
        return cls(path, shard)

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """The folder of a run that is there. Raises UserError if it is none."""
        if not (path / "manifest.json").is_file():
            raise UserError(f"{path}: is not a doxascope run (no manifest.json); see `doxascope ls`")
        return cls(path)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other processes from writing what this one writes; the locks go with the process, however it ends.

        The whole run excludes its shards, too.
        """
        with contextlib.ExitStack() as locks:
            locks.enter_context(self._locked(f"{LOCK}{self.mark}"))
            for other in [] if self.mark else sorted(self.path.glob(f"{LOCK}-*")):
                locks.enter_context(self._locked(other.name))
            yield

    @contextlib.contextmanager
    def taking_turns(self, patience: float) -> Iterator[None]:
        """For what all shards write: one at a time. The whole run, which is alone, just goes on.

        Waits as many seconds as `patience`, or as long as it takes if that is negative.
        """
        with self._locked(LOCK, patience) if self.mark else contextlib.nullcontext():
            yield

    @contextlib.contextmanager
    def _locked(self, name: str, patience: float = 0) -> Iterator[None]:
        try:
            with FileLock(self.path / name, timeout=patience):
                yield
        except Timeout:
            raise UserError(f"{self.path}: another process is writing this run; wait for it or stop it") from None

    @property
    def manifest(self) -> dict[str, Any]:
        """What the run was, or {} before it began."""
        path = self.path / "manifest.json"
        return json.loads(path.read_text()) if path.is_file() else {}

    def commits(self) -> dict[int, dict[str, Any]]:
        """Batch number -> its commit line, of all shards. A last line that was cut off does not count."""
        lines = [line for path in sorted(self.path.glob("commits*.jsonl")) for line in _whole_lines(path)]
        return {commit["batch"]: commit for commit in sorted(lines, key=lambda commit: commit["batch"])}

    @property
    def missing(self) -> int:
        """How many batches are still to be read before the run can be scored."""
        return self.manifest["batches"] - len(self.commits())

    def tidy(self) -> None:
        """Take away what a kill left: a torn last commit line, temporary files."""
        if (path := self.path / self._commits).is_file():
            self.write(path.name, "".join(json.dumps(commit) + "\n" for commit in _whole_lines(path)))
        for leftover in self.path.rglob(f"{TEMPORARY}{self.mark}*"):
            leftover.unlink(missing_ok=True)

    def commit(
        self, batch: int, beliefs: pd.DataFrame, transcripts: list[dict[str, Any]], note: dict[str, Any]
    ) -> None:
        """Write one batch; it counts from the moment its line is on the disk."""
        lines = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in transcripts)
        self.write_table(f"beliefs/part-{batch:05}.parquet", beliefs)
        self.write(f"transcripts/part-{batch:05}.jsonl", lines)
        with (self.path / self._commits).open("a") as file:
            file.write(json.dumps({"batch": batch, **note}) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def beliefs(self) -> pd.DataFrame:
        """The belief table of all committed batches, in order."""
        parts = [self.path / f"beliefs/part-{batch:05}.parquet" for batch in sorted(self.commits())]
        if not parts:
            raise UserError(f"{self.path}: holds no beliefs yet; run it first")
        try:
            table = pd.concat([pd.read_parquet(part) for part in parts], ignore_index=True)
            return check_belief_table(table)
        except (OSError, ValueError) as error:
            raise UserError(f"{self.path}: its beliefs cannot be read ({error}); run it again elsewhere") from error

    @property
    def _commits(self) -> str:
        return f"commits{self.mark}.jsonl"

    def write_items(self, items: Sequence[Item]) -> None:
        """Write what the questions are made of, so that they can be made again without where it came from."""
        self.write("items.jsonl", "".join(json.dumps(asdict(item), ensure_ascii=False) + "\n" for item in items))

    def items(self) -> list[Item]:
        """The items, in order. Raises UserError if they cannot be read."""
        try:
            lines = (self.path / "items.jsonl").read_text(encoding="utf-8").splitlines()
            return [Item(**json.loads(line)) for line in lines]
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"{self.path}: its items cannot be read ({error}); run it again elsewhere") from error

    def write(self, name: str, text: str) -> None:
        """Write a text file whole or not at all."""
        with self._atomic(name) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def write_json(self, name: str, data: Any) -> None:
        """Write JSON; NaN must have become null before, for JSON has none."""
        self.write(name, json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n")

    def write_table(self, name: str, table: pd.DataFrame) -> None:
        """Write a Parquet file whole or not at all."""
        with self._atomic(name) as temporary:
            table.to_parquet(temporary, index=False)

    @contextlib.contextmanager
    def _atomic(self, name: str) -> Iterator[Path]:
        """A temporary path that becomes `name` once it is written and on the disk."""
        path = self.path / name
        temporary = path.with_name(f"{TEMPORARY}{self.mark}-{path.name}")
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)  # the new name, too, must be on the disk
        os.fsync(folder)
        os.close(folder)


TEMPORARY = ".writing"
LOCK = ".lock"
BEFORE_THE_MANIFEST = {"beliefs", "transcripts", "config.yaml", "items.jsonl"}
"""What a run that was killed at its very beginning may have left, besides locks and temporary files."""


def _foreign(path: Path) -> bool:
    """Whether a folder without a manifest holds what no run of ours has put there."""
    return any(p.name not in BEFORE_THE_MANIFEST and not p.name.startswith((TEMPORARY, LOCK)) for p in path.iterdir())


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that are whole JSON."""
    found = []
    for line in path.read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found
