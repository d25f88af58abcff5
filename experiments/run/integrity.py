"""Whether a run is on the disk as it was written, and how what is lost is read again."""

import logging
from collections.abc import Iterator
from pathlib import Path

from ...base.errors import UserError
from ...hooks.store import ActivationStore
from ...hooks.store.commits import AGAIN, commit_files, intact_lines, rewrite
from ...hooks.store.header import NAME
from ...hooks.store.reader import FOLDER
from .folder import COMMITS, RunFolder
from .manifest import CERTIFICATE, CONFIG, ITEMS

STORE = f"{FOLDER}/{NAME}"
"""The header of a run's activations."""
BEGUN = frozenset({CONFIG, ITEMS, CERTIFICATE})
"""The files that a run is begun with; others that its manifest knows are beliefs of probes."""

log = logging.getLogger("doxascope")


def faults(folder: RunFolder) -> Iterator[str]:
    """Read everything: a line for each file that is not as it was written, and for each loss of activations."""
    try:
        record = folder.manifest
        commits = list(folder.commits())
    except UserError as error:
        yield str(error)
        return
    known = {**record.get("files", {}), **record.get("written", {}), **record.get("session_files", {})}
    for name, digest in [*known.items(), *(file for commit in commits for file in commit["files"].items())]:
        try:
            folder.verified(name, digest)
        except UserError as error:
            yield str(error)
    try:
        if store := _store(folder):
            yield from (f"{store.path / loss.part.path.name}: {loss}" for loss in store.check())
    except UserError as error:
        yield str(error)


def say_what_is_gone(folder: RunFolder) -> None:
    """Say which batches count though the parts of their activations are gone: a run goes on without them."""
    store = _store(folder)
    if store and (gone := store.missing()):
        log.warning("%s: the activations of batches %s are gone; %s", folder.path, ", ".join(map(str, gone)), AGAIN)


def restore(folder: RunFolder) -> None:
    """Take out the commit lines of all batches of which anything is lost, so that they are read again.

    Lines are believed one by one, each by its own digest, and files by those in their lines; the settings and the
    manifest are never made up. What was written into the run later, and is lost, is taken out of it, and said.

    Raises UserError if settings, items or manifest are not as they were written.
    """
    record = folder.manifest
    files = record.get("files", {})
    for name in sorted(BEGUN & files.keys()):
        folder.verified(name, files[name])
    lost = {Path(name).stem for name, digest in files.items() if not _is_intact(folder, {name: digest})}
    if lost:
        log.warning(
            "%s: the beliefs of %s are lost, and taken out; apply it again", folder.path, ", ".join(sorted(lost))
        )
    kept = {name: digest for name, digest in files.items() if name in BEGUN or Path(name).stem not in lost}
    record = {key: value for key, value in record.items() if key != "commits"} | {"files": kept}
    folder.write_manifest(record | {"status": "running"})
    for file in commit_files(folder.path / COMMITS):
        rewrite(file, [commit for commit in intact_lines(file) if _is_intact(folder, commit["files"])])
    if store := _store(folder):
        lost = {n for loss in store.check() for n in range(loss.part.first, loss.part.last + 1)}
        for file in commit_files(folder.path / COMMITS):
            rewrite(file, [commit for commit in intact_lines(file) if commit["batch"] not in lost])


def _is_intact(folder: RunFolder, files: dict[str, str]) -> bool:
    try:
        for name, digest in files.items():
            folder.verified(name, digest)
    except UserError:
        return False
    return True


def _store(folder: RunFolder) -> ActivationStore | None:
    return ActivationStore.open(folder.path) if (folder.path / STORE).is_file() else None
