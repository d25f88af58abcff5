"""Evidence that a model wrote for scenarios: kept in a file, reviewed by a person, and used by every run after that."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from ....hooks.documents import read_text
from ....hooks.errors import UserError
from ....hooks.files import atomic_write
from ....hooks.settings import MOST_CHARACTERS, parse_yaml
from .scenario import EVIDENCE, Scenario, clause

REVIEWED = "reviewed"


def with_evidence(scenarios: Sequence[Scenario], path: Path) -> list[Scenario]:
    """The scenarios that the file has evidence for, with it.

    Raises UserError for a file that cannot be read, or evidence that nobody has reviewed.
    """
    found = read_evidence(path)
    kept = [one for one in scenarios if one.id in found]
    if waiting := [one.id for one in kept if found[one.id].get(REVIEWED) is not True]:
        raise UserError(
            f"{path}: evidence of {waiting[0]} has not been reviewed ({len(waiting)} of {len(kept)}); read it, correct "
            f"it, and set `{REVIEWED}: true`, or take it out"
        )
    return [
        replace(one, evidence={name: clause(str(found[one.id][name])) for name in EVIDENCE if found[one.id].get(name)})
        for one in kept
    ]


def read_evidence(path: Path) -> dict[str, Mapping[str, Any]]:
    """Scenario -> what was written for it. Raises UserError for a file of another layout."""
    rows = parse_yaml(read_text(path, MOST_CHARACTERS), path)
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) and "id" in row for row in rows):
        raise UserError(f"{path}: is no list of `id`, `for`, `against`, `by` and `{REVIEWED}`")
    found = {str(row["id"]): row for row in rows}
    if len(found) < len(rows):
        raise UserError(f"{path}: has evidence of one scenario twice; take one away")
    return found


def write_evidence(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep what was written."""
    with atomic_write(path) as temporary:
        temporary.write_text(yaml.safe_dump(list(rows), sort_keys=False, allow_unicode=True, width=110), "utf-8")
