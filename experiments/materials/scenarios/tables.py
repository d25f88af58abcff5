"""Scenarios from any table or YAML file, the small sets that come along, and the file of evidence that a model
wrote.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ....base.documents import read_text
from ....base.errors import UserError
from ....base.files import atomic_write
from ....base.settings import MOST_CHARACTERS, parse_yaml
from ..questions import read_rows
from .scenario import EVIDENCE, Scenario, clause

NEEDED = ("background", "x", "not_x")
ALLOWED = (*EVIDENCE, "role", "outcome", "id", "cluster", "provenance")
OUTCOMES = {"": np.nan, "1": 1.0, "1.0": 1.0, "0": 0.0, "0.0": 0.0, "true": 1.0, "false": 0.0}


def load_scenarios(path: Path) -> list[Scenario]:
    """The scenarios of a .yaml, .csv, .jsonl or .parquet file. Those with the same background share a cluster, unless
    it has a column `cluster`.

    A YAML file is a list of scenarios, or has one under `scenarios`, beside it a `provenance` of all.

    Raises UserError for a file that cannot be read, lacks what is needed, or has an outcome that is not 1, 0 or empty.
    """
    if path.suffix in (".yaml", ".yml"):
        return scenarios_of(path.name, read_text(path, MOST_CHARACTERS), str(path))
    rows = read_rows(path, NEEDED, ALLOWED)
    return [_scenario(row, path.stem, number, str(path)) for number, row in enumerate(rows, 1)]


def scenarios_of(name: str, text: str, where: str) -> list[Scenario]:
    """Those of a YAML text. Raises UserError, which begins with `where`."""
    found = parse_yaml(text, where)
    shared = {}
    if isinstance(found, Mapping) and "scenarios" in found:
        found, shared = found["scenarios"], {"provenance": found.get("provenance", "")}
    if not isinstance(found, Sequence) or isinstance(found, str) or not found:
        raise UserError(f"{where}: holds no list of scenarios")
    rows = []
    for number, row in enumerate(found, 1):
        if not isinstance(row, Mapping):
            raise UserError(f"{where}: scenario {number} is no `key: value` lines")
        if missing := [key for key in NEEDED if key not in row]:
            raise UserError(f"{where}: scenario {number} has no {missing[0]!r}; needed: {', '.join(NEEDED)}")
        if unknown := [str(key) for key in row if key not in (*NEEDED, *ALLOWED)]:
            raise UserError(f"{where}: scenario {number} has {unknown[0]!r}; known: {', '.join((*NEEDED, *ALLOWED))}")
        rows.append({**shared, **{key: "" if value is None else str(value) for key, value in row.items()}})
    return [_scenario(row, Path(name).stem, number, where) for number, row in enumerate(rows, 1)]


def _scenario(row: Mapping[str, str], stem: str, number: int, where: str) -> Scenario:
    said = row.get("outcome", "").casefold()
    if said not in OUTCOMES:
        raise UserError(f"{where}: scenario {number}: outcome {row['outcome']!r}; give 1, 0, or none")
    try:
        return Scenario(
            id=row.get("id") or f"{stem}-{number}",
            cluster=row.get("cluster") or row["background"],
            background=row["background"].strip(),
            x=clause(row["x"]),
            not_x=clause(row["not_x"]),
            evidence={name: clause(row[name]) for name in EVIDENCE if row.get(name)},
            role=row.get("role", ""),
            provenance=row.get("provenance") or f"{Path(where).name}, scenario {number}",
            outcome=OUTCOMES[said],
        )
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


# The small sets that come with doxascope: to try a pipeline on, not to conclude from.


def smoke_scenarios(task: str) -> list[Scenario]:
    """Those of a task: `conversations`, `morality` or `culture`."""
    name = f"{task}.yaml"
    text = (files("doxascope.experiments.materials.scenarios") / "smoke" / name).read_text(encoding="utf-8")
    return scenarios_of(name, text, name)


# Evidence that a model wrote for scenarios: kept in a file, reviewed by a person, and used by every run after that.

REVIEWED = "reviewed"


def with_evidence(scenarios: Sequence[Scenario], path: Path) -> list[Scenario]:
    """The scenarios that the file has evidence for, with it.

    Raises UserError for a file that cannot be read, or evidence that nobody has reviewed.
    """
    found = read_evidence(path)
    kept = [scenario for scenario in scenarios if scenario.id in found]
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
