"""A run in the formats of other tools: `doxascope export`."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ....base.errors import UserError, in_one_line, told_briefly
from ....base.files import OutputFolder

if TYPE_CHECKING:
    from ..folder import RunFolder
    from .readouts import Exported

FORMATS: Mapping[str, str] = {
    "inspect": "a log of Inspect: a sample of each item and method, an epoch of each of its read-outs",
    "eee": "records of Every Eval Ever: every number, and the answers to questions whose truth is known",
    "datasets": "Parquet files and a card, as the Hugging Face Hub and `datasets` read them",
    "model-card": "the numbers that the run was made for, as metadata of a model's card on the Hub",
}
"""What a run can be written as."""


@told_briefly
def export(run: "Path | str | RunFolder", to: str, out: Path | str) -> list[str]:
    """Write a run as other tools read it, as `doxascope export` does; needs no model. Beliefs are kept to the bit.

    Args:
        run: its folder, or what `run` returned.
        to: `inspect`, `eee`, `datasets` or `model-card`.
        out: the folder of the files; what is not ours in it stays.

    Returns what was written, and what was left out, a line each.
    Raises UserError for a run that is not whole or not scored, a folder that cannot be written, and a library that is
    missing.
    """
    if to not in FORMATS:
        raise UserError(f"{to!r}: is no format; known: {', '.join(FORMATS)}")
    from ..folder import RunFolder
    from . import readouts

    folder, out = RunFolder.open(Path(run)) if isinstance(run, Path | str) else run, Path(out)
    with in_one_line(folder.path, "restore the run from a copy, or `doxascope report` it again"):
        exported = readouts.Exported.of(folder)
        _ = exported.when, exported.hub_name, exported.made_for, exported.verdict
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{out}: cannot be written ({error.strerror or error}); choose another --out") from error
    write: Callable[[Exported, OutputFolder], list[str]] = import_module(f".{HOMES[to]}", __name__).write
    with in_one_line(f"{folder.path} to {out}", "the export is not whole; if the disk is full, choose another --out"):
        return write(exported, OutputFolder(out))


HOMES = {"inspect": "inspect_log", "eee": "every_eval_ever", "datasets": "hub", "model-card": "model_card"}
"""Format -> the module that writes it."""
