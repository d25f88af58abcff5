"""What a card is made of: sets of experiments, by name or as a file."""

from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field, PositiveInt

from ...hooks.errors import UserError
from ...hooks.settings import Settings, parse, read_yaml

Changes = dict[str, Any]
"""Key, as `-o` takes it -> value."""


class ProbeOf(Settings):
    """A probe on the activations of one of the runs."""

    run: str
    settings: Changes = Field(default_factory=dict)


class CardSet(Settings):
    """Experiments with their settings, fixed before a model is seen."""

    name: str
    version: PositiveInt
    runs: dict[str, Changes]
    probe: ProbeOf | None = None


def load_set(target: str) -> CardSet:
    """The set in a YAML file, or a shipped one by its name. Raises UserError for what is wrong in it."""
    shipped = Path(str(files("doxascope") / "configs" / "cards"))
    known = sorted(path.stem for path in shipped.glob("*.yaml"))
    path = shipped / f"{target}.yaml" if target in known else Path(target)
    if not path.is_file():
        raise UserError(f"--set {target}: is no set and no file; known: {', '.join(known)}")
    found = parse(CardSet, read_yaml(path) | {"name": path.stem}, str(path))
    if not found.runs:
        raise UserError(f"{path}: runs: is empty; name an experiment")
    if found.probe and found.probe.run not in found.runs:
        raise UserError(f"{path}: probe.run: {found.probe.run!r} is none of its runs ({', '.join(found.runs)})")
    return found
