"""A run on disk: written in batches, each whole or not at all, so that a killed run goes on where it was.

    config.yaml  items.jsonl  manifest.json  commits.jsonl  beliefs/part-*.parquet  transcripts/part-*.jsonl
    scores.json  scores.parquet  published.csv  report.html

A batch counts when its line stands in `commits.jsonl`, which is written after its files. A file without a line
is written again, with the same content. A shard has a lock and a `commits-i-of-n.jsonl` of its own, so that many
processes can write one run.
"""

import contextlib
import json
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from ...hooks.errors import UserError
from ...hooks.files import TEMPORARY, atomic_write
from ...hooks.store.commits import append_commit, commit_lines, read_commits
from ...metrics.beliefs import COLUMNS, check_belief_table
from ..experiment import Transcript
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

    def commits(self) -> Iterator[dict[str, Any]]:
        """The lines of the batches that count, of all shards, each batch once. A last line that was cut off does not.

        Raises UserError for any other line that cannot be read.
        """
        yield from read_commits(self.path / "commits.jsonl").values()

    def committed(self) -> list[int]:
        """The numbers of the batches that count, in order."""
        return sorted(commit["batch"] for commit in self.commits())

    @property
    def missing(self) -> int:
        """How many batches are still to be read before the run can be scored."""
        return self.manifest["batches"] - len(self.committed())

    def tidy(self) -> None:
        """Take away what a kill left, a torn last commit line and temporary files, and the lines of batches whose files
        someone has deleted, so that they are read again.
        """
        if (path := self.path / self._commits).is_file():
            kept = (c for c in commit_lines(path) if all((self.path / name).is_file() for name in _files(c["batch"])))
            self.write(path.name, "".join(json.dumps(commit) + "\n" for commit in kept))
        for leftover in self.path.rglob(f"{TEMPORARY}{self.mark}-*"):
            leftover.unlink(missing_ok=True)

    def commit(
        self, batch: int, beliefs: pd.DataFrame, transcripts: Sequence[Transcript], note: dict[str, Any]
    ) -> None:
        """Write one batch; it counts from the moment its line is on the disk."""
        lines = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in transcripts)
        table, spoken = _files(batch)
        self.write_table(table, beliefs)
        self.write(spoken, lines)
        with self._room_for(self._commits) as path:
            append_commit(path, batch, note)

    def beliefs(self) -> pd.DataFrame:
        """The belief table of all committed batches, in order; its texts are categories, each held once.

        Raises UserError if there is none, or for a file that cannot be read.
        """
        batches = self.committed()
        if not batches:
            raise UserError(f"{self.path}: holds no beliefs yet; run it first")
        table = pa.concat_tables([self._table(batch) for batch in batches]).unify_dictionaries()
        return table.to_pandas(split_blocks=True, self_destruct=True)

    def transcripts(self, readout_ids: Collection[str]) -> dict[str, Transcript]:
        """What was said in these read-outs, of what was sampled the first few.

        Raises UserError for a file that cannot be read, or a read-out that none has.
        """
        found: dict[str, Transcript] = {}
        for line in self.said():
            if line["readout_id"] in readout_ids:
                few: Any = {key: line[key][:DRAWS] for key in ("thoughts", "answers")}
                found[line["readout_id"]] = line | few
        if absent := sorted(set(readout_ids) - found.keys()):
            raise UserError(f"{self.path}: has no transcript of {absent[0]}; run it again elsewhere")
        return found

    def said(self) -> Iterator[Transcript]:
        """All that was said, batch by batch. Raises UserError for a file that cannot be read."""
        for batch in self.committed():
            with self._readable(_files(batch)[1]) as path, path.open(encoding="utf-8") as file:
                for line in map(json.loads, file):
                    if absent := Transcript.__required_keys__ - line.keys():
                        raise UserError(f"{path}: a transcript lacks {min(absent)!r}; it is of another version")
                    yield line

    @property
    def _commits(self) -> str:
        return f"commits{self.mark}.jsonl"

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
        with self._room_for(name) as path, atomic_write(path, self.mark) as temporary:
            yield temporary

    @contextlib.contextmanager
    def _room_for(self, name: str) -> Iterator[Path]:
        """The path of a file to write; a disk that is full, or gone, is one line."""
        try:
            yield self.path / name
        except OSError as error:
            raise UserError(
                f"{self.path / name}: cannot be written ({error.strerror or error}); make room and give the same "
                "command again"
            ) from error

    @contextlib.contextmanager
    def _readable(self, name: str) -> Iterator[Path]:
        """The path of a file of a committed batch; a damaged one is named."""
        try:
            yield self.path / name
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{self.path / name}: is damaged ({error}); delete it and run again") from error

    def _table(self, batch: int) -> pa.Table:
        with self._readable(_files(batch)[0]) as path:
            table = pq.read_table(path, read_dictionary=TEXTS)
            if "of" not in table.column_names:  # an earlier version wrote it
                blank = pa.array([""] * len(table)).cast(table.schema.field("readout_id").type)
                table = table.add_column(list(COLUMNS).index("of"), "of", blank)
            check_belief_table(table.to_pandas())
        return table


def run_at(path: Path) -> RunFolder | None:
    """The run whose folder, or whose folder of beliefs, this is; None if it is neither."""
    folder = path.parent if path.name == "beliefs" else path
    return RunFolder(folder) if (folder / "manifest.json").is_file() else None


TEXTS = [name for name, dtype in COLUMNS.items() if dtype == "str"]
DRAWS = 5
"""Of one read-out that are looked at; there may be thousands."""
LOCK = ".lock"
BEFORE_THE_MANIFEST = {"beliefs", "transcripts", "config.yaml", "items.jsonl"}
"""What a run that was killed at its very beginning may have left, besides locks and temporary files."""


def _files(batch: int) -> tuple[str, str]:
    """The names of a batch's beliefs and transcripts."""
    return f"beliefs/part-{batch:05}.parquet", f"transcripts/part-{batch:05}.jsonl"


def _foreign(path: Path) -> bool:
    """Whether a folder without a manifest holds what no run of ours has put there."""
    return any(p.name not in BEFORE_THE_MANIFEST and not p.name.startswith((TEMPORARY, LOCK)) for p in path.iterdir())
