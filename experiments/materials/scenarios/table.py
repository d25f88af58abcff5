"""Scenarios from any table or YAML file: `background, x, not_x[, for][, against][, role][, outcome]`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ....hooks.documents import read_text
from ....hooks.errors import UserError
from ....hooks.settings import MOST_CHARACTERS, parse_yaml
from ..questions.table import read_rows
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
