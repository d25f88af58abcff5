"""A run on disk: written in batches, each whole or not at all, so that a killed run goes on where it was.

    config.yaml  items.jsonl  manifest.json  commits.jsonl  beliefs/part-*.parquet  transcripts/part-*.jsonl
    sessions/*.json  scores.json  scores.parquet  published.csv  report.html  report.json  figures/*.svg, *.pdf, *.csv

A batch counts when its line stands in `commits.jsonl`, which is written after its files. A file without a line is
written again, with the same content. A session of a shard has a `commits-s*.jsonl` and files of its own, named by its
number: many processes write one run, and none needs a lock. If two of them read one batch, one of the two counts.

Whatever is read has a digest: the files of a batch in its commit line; settings, items and, of a complete run, the
commit lines in the manifest; the manifest in itself. What does not fit is named, not read.
"""

import contextlib
import io
import json
import logging
import re
import secrets
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from filelock import Timeout
from markupsafe import escape

from ...base.errors import UserError, in_one_line
from ...base.files import TEMPORARY, NoLocksError, OutputFolder, digest_of, file_digest, locked, sealed
from ...base.text import shown
from ...hooks.store.commits import AGAIN, append_commit, commit_files, lines_digest, read_commits
from ...metrics.beliefs import check_belief_table
from ...metrics.tables.belief_parts import ROWS_AT_ONCE, BeliefParts, as_beliefs, read_part
from ..report.findings import Figure, Transcript
from .manifest import CERTIFICATE, CONFIG, ITEMS, MANIFEST, read_manifest
from .sessions import FOLDER as SESSIONS
from .sessions import WHOLE, RunSession, Shard, begin, sessions

log = logging.getLogger("doxascope")


class RunFolder(OutputFolder):
    """Reads and writes one run, or one shard of it."""

    def __init__(self, path: Path, shard: Shard = WHOLE) -> None:
        super().__init__(path, "" if shard == WHOLE else f"-{secrets.token_hex(4)}")
        self.shard, self._has_begun = shard, False

    def __repr__(self) -> str:
        record = self.manifest
        done = f"{len(self.committed())} of {record.get('batches')} batches"
        state = f"{record['status']}, {done}" if record else "new"
        return f"RunFolder({str(self.path)!r}: {state}; .table(), .plot(), .beliefs(), .manifest)"

    def _repr_html_(self) -> str:
        table = self.table().to_html(max_rows=20, float_format=shown, index=False) if self.is_scored else ""
        return f"<p>{escape(repr(self))}</p>{table}"

    @property
    def is_scored(self) -> bool:
        """Whether its numbers are written."""
        return "scores.parquet" in self.manifest.get("written", {})

    def table(self) -> pd.DataFrame:
        """A row for each number, as in `scores.parquet`. Raises UserError for a run that is not scored."""
        content = self.written("scores.parquet")
        if content is None:
            raise UserError(f"{self.path}: is not scored; go on with the run, or `doxascope report {self.path}`")
        return pd.read_parquet(io.BytesIO(content))

    def plot(self) -> Figure:
        """The figure that its page leads with. Raises UserError for a run without one."""
        figures = sorted((self.path / "figures").glob("01*.svg")) if self.is_scored else []
        if not figures:
            raise UserError(f"{self.path}: has no figure; go on with the run, or `doxascope report {self.path}`")
        written, stem = self.manifest["written"], f"figures/{figures[0].stem}"
        kept = {end: self.verified(name, written[name]) for end in ENDS if (name := f"{stem}.{end}") in written}
        svg, pdf, data = (kept.get(end, b"") for end in ENDS)
        return Figure(figures[0].stem, svg.decode(), pdf=pdf, data=data.decode())

    @classmethod
    def create(cls, path: Path, shard: Shard = WHOLE) -> "RunFolder":
        """The folder of a new run or of one to go on with.

        Raises UserError if it cannot be written, or holds something that is not a run.
        """
        try:
            if path.is_dir() and not (path / MANIFEST).is_file() and _foreign(path):
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
        if not (path / MANIFEST).is_file():
            raise UserError(f"{path}: is not a doxascope run (no manifest.json); see `doxascope ls`")
        return cls(path)

    @contextlib.contextmanager
    def writing(self, alone: bool = True) -> Iterator[None]:
        """Keep other processes from writing what this one writes; the locks go with the process, however it ends.

        The whole run excludes its shards, too. Shards are safe without locks, and what is made of beliefs that are read
        can be made twice: they take one (`alone` is false) only where the disk has them.

        Raises UserError if another process holds one, or, where a lock is needed, if the disk has none.
        """
        with contextlib.ExitStack() as locks:
            if self.shard != WHOLE:
                locks.enter_context(self._locked(f"{LOCK}-{self.shard}", needed=False))
            else:
                locks.enter_context(self._locked(LOCK, needed=alone))
                for other in sorted(self.path.glob(f"{LOCK}-*")):
                    locks.enter_context(self._locked(other.name, needed=alone))
            yield

    @contextlib.contextmanager
    def taking_turns(self, patience: float) -> Iterator[bool]:
        """For what all shards write: one at a time. Whether this process is alone now: a shard is not on a disk without
        locks. The whole run always is, and just goes on.

        Waits as many seconds as `patience`, or as long as it takes if that is negative.
        """
        whole = self.shard == WHOLE
        with contextlib.nullcontext(True) if whole else self._locked(LOCK, patience, needed=False) as locked:
            yield locked

    @contextlib.contextmanager
    def _locked(self, name: str, patience: float = 0, needed: bool = True) -> Iterator[bool]:
        with contextlib.ExitStack() as lock:
            alone = True
            try:
                lock.enter_context(locked(self.path / name, patience, IN_SHARDS))
            except Timeout:
                raise UserError(f"{self.path}: another process is writing this run; wait for it or stop it") from None
            except NoLocksError:
                if needed:
                    raise
                alone = False
            yield alone

    def begin_session(self, **record: Any) -> RunSession:
        """Write down that this process is at work. What a shard writes from now on bears the session's mark."""
        with self._room_for(SESSIONS):
            session = begin(self.path, record)
        if self.shard != WHOLE:
            self.mark = session.mark
        return session

    @property
    def sessions(self) -> list[dict[str, Any]]:
        """What every session has told. Raises UserError if one is not as it was written."""
        return sessions(self.path)

    @property
    def manifest(self) -> dict[str, Any]:
        """What the run was, or {} before it began.

        Raises UserError if it is not as it was written, or was read once and has gone since: what would be added to
        nothing must not take the place of a run whose folder comes back.
        """
        record = read_manifest(self.path)
        if self._has_begun and not record:
            raise self._gone
        self._has_begun = bool(record)
        return record

    @property
    def _gone(self) -> UserError:
        return UserError(f"{self.path}: is gone, or holds no {MANIFEST}; bring it back, and run the same again")

    def write_manifest(self, record: dict[str, Any], once: bool = False) -> None:
        """Write down what the run is, with the digests of what it was begun with and, once complete, of its commits.

        Raises FileExistsError if it is to be written once, and another process has.
        """
        names = {CONFIG, ITEMS, CERTIFICATE, *self.manifest.get("files", {})}
        files = {name: file_digest(self.path / name) for name in sorted(names) if (self.path / name).is_file()}
        record = {**record, "files": record.get("files", files)}
        if record.get("status") == "complete":
            lines = {file.name: lines_digest(file) for file in commit_files(self.path / COMMITS)}
            record.setdefault("commits", {name: known for name, known in lines.items() if known})
            record["session_files"] = {
                f"{SESSIONS}/{p.name}": file_digest(p) for p in (self.path / SESSIONS).glob("*.json")
            }
        self.write_json(MANIFEST, sealed(record), once)

    def record(self, *names: str) -> None:
        """Write the digests of further files into the manifest, so that they are compared as those of its beginning."""
        known = self.manifest
        more = {name: file_digest(self.path / name) for name in names}
        self.write_manifest(known | {"files": known.get("files", {}) | more})

    def forget(self, *names: str) -> None:
        """Take these files of the run's folder out of it, and out of its manifest."""
        record = self.manifest
        self.write_manifest({**record, "files": {k: v for k, v in record.get("files", {}).items() if k not in names}})
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def recorded(self, name: str) -> Path | None:
        """The path of a file that the run was begun with; None if it was begun without.

        Raises UserError if it is not as it was then.
        """
        known = self.manifest.get("files", {}).get(name)
        if known is not None:
            self.verified(name, known)
        return None if known is None else self.path / name

    def written(self, name: str) -> bytes | None:
        """The content of a file that the run's scoring wrote; None if it wrote none.

        Raises UserError if it is not as it was written.
        """
        known = self.manifest.get("written", {}).get(name)
        return None if known is None else self.verified(name, known)

    def require_as_begun(self) -> None:
        """Raise UserError if a file that the run was begun with is not as it was then."""
        for name in self.manifest.get("files", {}):
            self.recorded(name)

    @property
    def config(self) -> Path:
        """The path of the settings. Raises UserError if they are not those that the run was begun with."""
        path = self.recorded(CONFIG)
        if path is None:
            raise UserError(f"{self.path}: was begun without {CONFIG}; run it first")
        return path

    def commits(self) -> Iterator[dict[str, Any]]:
        """The lines of the batches that count, of all shards, each batch once. A last line that was cut off does not.

        Raises UserError for any other line that is not as it was written, and for one that a complete run has lost.
        """
        yield from read_commits(self.path / COMMITS, self.manifest.get("commits")).values()

    def committed(self) -> list[int]:
        """The numbers of the batches that count, in order."""
        return sorted(commit["batch"] for commit in self.commits())

    @property
    def missing(self) -> int:
        """How many batches are still to be read before the run can be scored. UserError where the folder is gone."""
        if not (manifest := self.manifest):
            raise self._gone
        return manifest["batches"] - len(self.committed())

    @property
    def holds_nothing(self) -> bool:
        """Whether it is a whole run that was begun, and in which no batch counts."""
        return self.shard == WHOLE and self.manifest.get("status") == "running" and not self.committed()

    def clear(self) -> None:
        """Take away what the beginning of a run that holds nothing has left, but for what it is begun with."""
        for pattern in ("beliefs/part-*", "transcripts/part-*", f"{SESSIONS}/*.json"):
            for leftover in self.path.glob(pattern):
                leftover.unlink(missing_ok=True)

    def tidy(self) -> None:
        """Take away a kill's temporary files; a cut commit line, and files without one, are said, and read again."""
        if self.shard != WHOLE:  # another may be writing them
            return
        for leftover in self.path.rglob(f"{TEMPORARY}-*"):
            leftover.unlink(missing_ok=True)
        done = set(self.committed())
        begun = {int(re.split("[-.]", file.name)[1]) for file in self.path.glob("transcripts/part-*.jsonl")}
        for batch in sorted(begun - done):
            log.warning("%s: batch %d was not committed; it is read again", self.path, batch)

    def commit(
        self, batch: int, beliefs: pd.DataFrame, transcripts: Sequence[Transcript], note: dict[str, Any]
    ) -> None:
        """Write one batch; it counts from the moment its line is on the disk. A shard leaves one that does."""
        if self.mark and batch in self.committed():
            return
        lines = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in transcripts)
        table, spoken = f"beliefs/part-{batch:05}{self.mark}.parquet", f"transcripts/part-{batch:05}{self.mark}.jsonl"
        self.write_table(table, beliefs)
        self.write(spoken, lines)
        files = {name: file_digest(self.path / name) for name in (table, spoken)}
        with self._room_for(f"commits{self.mark}.jsonl") as path:
            append_commit(path, batch, {**note, "files": files})

    def beliefs(self) -> pd.DataFrame:
        """The belief table of all committed batches, in order; its texts are categories, each held once.

        Raises UserError if there is none, or for a file that cannot be read.
        """
        return as_beliefs(list(self._tables(set())))

    def belief_parts(self) -> BeliefParts:
        """The same by parts, checked once; what is made of them lies in the run's folder, in files without a name."""
        checked: set[str] = set()

        def parts() -> Iterator[pd.DataFrame]:
            tables: list[pa.Table] = []
            for table in self._tables(checked):
                tables.append(table)
                if sum(map(len, tables)) >= ROWS_AT_ONCE:
                    yield as_beliefs(tables)
                    tables = []
            if tables:
                yield as_beliefs(tables)

        return BeliefParts(parts, self.path)

    def _tables(self, checked: set[str]) -> Iterator[pa.Table]:
        """One of each batch, in order, checked once. Raises UserError for none, or one that cannot be read."""
        known = [(name := _file(commit, "beliefs"), commit["files"][name]) for commit in self._in_order()]
        if not known:
            raise UserError(f"{self.path}: holds no beliefs yet; run it first")
        for name, its_digest in known:
            data = self.verified(name, its_digest)
            with in_one_line(self.path / name):
                table = read_part(data)
                if its_digest not in checked:
                    check_belief_table(as_beliefs([table]))
            checked.add(its_digest)
            yield table

    def require_no_other_beliefs(self) -> None:
        """Raise UserError for parts of beliefs that do not count, or that are not as they were written."""
        counted = {_file(commit, "beliefs") for commit in self.commits()}
        there = {f"beliefs/{file.name}" for file in (self.path / "beliefs").iterdir()}
        if odd := sorted(there - counted):
            raise UserError(f"{self.path / odd[0]}: was not committed; go on with the run first, or delete it")
        self.beliefs()

    def transcripts(self, readout_ids: Collection[str]) -> dict[str, Transcript]:
        """What was said in these read-outs, of what was sampled the first few.

        Raises UserError for a file that cannot be read, or a read-out that none has.
        """
        transcripts: dict[str, Transcript] = {}
        for line in self.said():
            if line["readout_id"] in readout_ids:
                transcripts[line["readout_id"]] = few_draws(line)
        if absent := sorted(set(readout_ids) - transcripts.keys()):
            raise UserError(f"{self.path}: has no transcript of {absent[0]}; run it again elsewhere")
        return transcripts

    def said(self) -> Iterator[Transcript]:
        """All that was said, batch by batch. Raises UserError for a file that cannot be read."""
        for commit in self._in_order():
            name = _file(commit, "transcripts")
            data = self.verified(name, commit["files"][name])
            with in_one_line(self.path / name):
                lines = [json.loads(line) for line in data.splitlines()]
            for line in lines:
                if absent := Transcript.__required_keys__ - line.keys():
                    raise UserError(f"{self.path / name}: a transcript lacks {min(absent)!r}; it is of another version")
                yield line

    def _in_order(self) -> list[dict[str, Any]]:
        return sorted(self.commits(), key=lambda commit: commit["batch"])

    def verified(self, name: str, known: str) -> bytes:
        """The content of a file. Raises UserError if it is not what was written."""
        path = self.path / name
        with in_one_line(path, AGAIN):
            data = path.read_bytes()
            if digest_of(data) != known:
                raise ValueError("is damaged: its digest is wrong")
        return data


def run_at(path: Path) -> RunFolder | None:
    """The run whose folder, or folder of beliefs, this is; None if neither. UserError for one without its manifest."""
    folder = path.parent if path.name == "beliefs" else path
    if (folder / MANIFEST).is_file():
        return RunFolder(folder)
    if (path / COMMITS).is_file():
        raise UserError(
            f"{path}: is a run without {MANIFEST}; restore that from a copy, or run anew with another --out"
        )
    return None


def like_a_run(path: Path) -> bool:
    """Whether a folder holds a part of a run, as one does whose manifest is lost."""
    return any((path / name).exists() for name in (*BEFORE_THE_MANIFEST, COMMITS))


ENDS = ("svg", "pdf", "csv")
"""Of the files of a figure."""
DRAWS = 5
"""Of one read-out that are looked at; there may be thousands."""
LOCK = ".lock"
COMMITS = "commits.jsonl"
IN_SHARDS = (
    "choose an --out on a disk that has them, or read the run in shards (--shard 1/2 --take-over), which need none"
)
BEFORE_THE_MANIFEST = {"beliefs", "transcripts", CONFIG, ITEMS, CERTIFICATE}
"""What a run that was killed at its very beginning may have left, besides locks and temporary files."""


def few_draws(transcript: Transcript) -> Transcript:
    """A transcript with the first of what was sampled."""
    few: Any = {key: transcript[key][:DRAWS] for key in ("thoughts", "answers")}
    return transcript | few


def _file(commit: dict[str, Any], room: str) -> str:
    """The name of a batch's file in a folder."""
    return next(name for name in commit["files"] if name.startswith(f"{room}/"))


def _foreign(path: Path) -> bool:
    """Whether a folder without a manifest holds what no run of ours has put there."""
    return any(p.name not in BEFORE_THE_MANIFEST and not p.name.startswith((TEMPORARY, LOCK)) for p in path.iterdir())
