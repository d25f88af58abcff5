"""Where the organisms lie, and whether they are whole."""

import json
from importlib.resources import files
from pathlib import Path

from ....hooks.documents import read_json
from ....hooks.errors import UserError, nearest
from ....hooks.files import file_digest, write_text
from .species import ORGANISMS

AGAIN = "install doxascope anew, or train it: python -m doxascope.experiments.planted.organisms"
DIGESTS = "digests.json"
"""Name of each other file of an organism -> its SHA-256."""


def shipped() -> Path:
    """The folder of the shipped organisms."""
    return Path(str(files("doxascope") / "experiments" / "planted" / "organisms" / "weights"))


def organism_folder(name: str, folder: Path | None = None) -> str:
    """The folder of an organism, whole, for `doxascope.load`.

    Raises UserError for a name that is none, or a file that is not as it was written.
    """
    known = [one.name for one in ORGANISMS]
    if name not in known:
        raise UserError(f"organism {name!r}: there is none; {nearest(name, known)}")
    home = (folder or shipped()) / name
    if not home.is_dir():
        raise UserError(f"organism {name!r}: {home} is no folder; {AGAIN}")
    for file, digest in read_json(home / DIGESTS).items():
        if not (home / file).is_file() or file_digest(home / file) != digest:
            raise UserError(f"organism {name!r}: {home / file} is damaged or gone; {AGAIN}")
    return str(home)


def seal(home: Path) -> None:
    """Write down the digests of an organism's files."""
    found = {path.name: file_digest(path) for path in sorted(home.iterdir()) if path.name != DIGESTS}
    write_text(home / DIGESTS, json.dumps(found, indent=1) + "\n")
