"""Who has worked on a run, and when: a file for each beginning and each end, written once and never changed, so that
many processes need no lock to tell of themselves.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ...hooks.errors import in_one_line
from ...hooks.files import digest_of, write_text

FOLDER, ENDED = "sessions", "-ended"


class RunSession(NamedTuple):
    """One process at work on a run."""

    path: Path
    """Of its beginning."""

    @property
    def mark(self) -> str:
        """In the names of the files that only it writes."""
        return f"-s{self.path.stem}"

    def end(self, **told: Any) -> None:
        """Write down that it has read what it was to read."""
        path = self.path.with_name(f"{self.path.stem}{ENDED}.json")
        if not path.exists():
            write_text(path, _sealed({"ended": now(), **told}))


def begin(run: Path, told: Mapping[str, Any]) -> RunSession:
    """The next session of a run. Of two that begin at once each gets a number of its own."""
    folder = run / FOLDER
    folder.mkdir(exist_ok=True)
    number = 1 + max((int(file.stem) for file in folder.glob("[0-9]*.json") if file.stem.isdecimal()), default=0)
    while True:
        path = folder / f"{number:05}.json"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(_sealed({"began": now(), **told}))
        except FileExistsError:
            number += 1
        else:
            return RunSession(path)


def sessions(run: Path) -> list[dict[str, Any]]:
    """What every session of a run has told, in their order; `ended` is None of one that was killed, or goes on.

    Raises UserError for a file that is not as it was written. A piece of one, which a kill has left, is passed over.
    """
    found = []
    for path in sorted((run / FOLDER).glob("[0-9]*.json")):
        if path.stem.isdecimal() and (began := _read(path)):
            end = path.with_name(f"{path.stem}{ENDED}.json")
            found.append({"session": path.stem, **began, "ended": None, **(_read(end) if end.exists() else {})})
    return found


def now() -> str:
    """The time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _sealed(told: Mapping[str, Any]) -> str:
    text = json.dumps(told, ensure_ascii=False)
    return json.dumps({**told, "digest": digest_of(text.encode())}, ensure_ascii=False) + "\n"


def _read(path: Path) -> dict[str, Any]:
    with in_one_line(path, "it says who read the run, and nothing of what was read: delete it"):
        text = path.read_bytes()
        if not text.endswith(b"\n"):
            return {}
        told = json.loads(text)
        known = told.pop("digest", None)
        if known != digest_of(json.dumps(told, ensure_ascii=False).encode()):
            raise ValueError("is damaged: its digest is wrong")
    return told
