"""Who works on a run: shards, for processes that share its folder (the jobs of an array of a cluster's scheduler,
say), and sessions, a file for each beginning and each end, written once and never changed, so that many processes
need no lock to tell of themselves.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ...base.errors import UserError, in_one_line
from ...base.files import digest_of, write_text

FOLDER, ENDED = "sessions", "-ended"


class RunSession(NamedTuple):
    """One process at work on a run."""

    path: Path
    """Of its beginning."""

    @property
    def mark(self) -> str:
        """In the names of the files that only it writes."""
        return f"-s{self.path.stem}"

    def end(self, **record: Any) -> None:
        """Write down that it has read what it was to read."""
        path = self.path.with_name(f"{self.path.stem}{ENDED}.json")
        if not path.exists():
            write_text(path, _sealed({"ended": now(), **record}))


def begin(run: Path, record: Mapping[str, Any]) -> RunSession:
    """The next session of a run. Of two that begin at once each gets a number of its own."""
    folder = run / FOLDER
    folder.mkdir(exist_ok=True)
    number = 1 + max((int(file.stem) for file in folder.glob("[0-9]*.json") if file.stem.isdecimal()), default=0)
    while True:
        path = folder / f"{number:05}.json"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(_sealed({"began": now(), **record}))
        except FileExistsError:
            number += 1
        else:
            return RunSession(path)


def sessions(run: Path) -> list[dict[str, Any]]:
    """What every session of a run has told, in their order; `ended` is None of one that was killed, or goes on.

    Raises UserError for a file that is not as it was written. A piece of one, which a kill has left, is passed over.
    """
    records = []
    for path in sorted((run / FOLDER).glob("[0-9]*.json")):
        if path.stem.isdecimal() and (began := _read(path)):
            end = path.with_name(f"{path.stem}{ENDED}.json")
            records.append({"session": path.stem, **began, "ended": None, **(_read(end) if end.exists() else {})})
    return records


def now() -> str:
    """The time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _sealed(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, ensure_ascii=False)
    return json.dumps({**record, "digest": digest_of(text.encode())}, ensure_ascii=False) + "\n"


def _read(path: Path) -> dict[str, Any]:
    with in_one_line(path, "it says who read the run, and nothing of what was read: delete it"):
        text = path.read_bytes()
        if not text.endswith(b"\n"):
            return {}
        record = json.loads(text)
        known = record.pop("digest", None)
        if known != digest_of(json.dumps(record, ensure_ascii=False).encode()):
            raise ValueError("is damaged: its digest is wrong")
    return record


@dataclass(frozen=True)
class Shard:
    """Every `count`-th batch, beginning with the `index`-th."""

    index: int
    """1 to count."""
    count: int

    def __str__(self) -> str:
        return f"{self.index}-of-{self.count}"

    def __contains__(self, batch: int) -> bool:
        return batch % self.count == self.index - 1


WHOLE = Shard(1, 1)


def parse_shard(text: str) -> Shard:
    """The shard that `i/n` names, 1 <= i <= n. Raises UserError for anything else."""
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise UserError(f"--shard {text}: give i/n, the i-th of n parts, for example 1/8")
    return Shard(int(index), int(count))
