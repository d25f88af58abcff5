"""What a form of table is: the columns that it is known by, and what it becomes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..cells import Array
from ..samples import Sample

Data = dict[str, Any]
CLUSTERS = ("cluster", "question", "item")
"""Columns that are taken for the cluster when none is named, in this order."""
CONTEXTS = ("prior", "posterior")
P = "probability"


@dataclass(frozen=True)
class Form:
    """A shape of table."""

    name: str
    wants: str
    """Its columns, as the user is told them."""
    roles: Callable[[Sequence[str]], dict[str, str]]
    """Columns of a table -> those that this form would use, with their roles; also if others are missing."""
    missing: Callable[[Sequence[str]], list[str]]
    """Columns of a table -> those that it lacks for this form."""
    build: Callable[[Any, Data, Array | None], Sample]
    """File, its columns, clusters -> what is scored. Raises UserError."""
    cluster: tuple[str, ...] = CLUSTERS
    replicates: bool = False
    """Whether rows may be readings of one item."""


def fixed(required: Mapping[str, str], optional: Mapping[str, str]) -> dict[str, Any]:
    """`roles` and `missing` of a form whose columns have fixed names."""
    both = {**required, **optional}
    return {
        "roles": lambda columns: {name: role for name, role in both.items() if name in columns},
        "missing": lambda columns: [name for name in required if name not in columns],
    }


def suffixes(columns: Sequence[str], prefix: str) -> list[str]:
    """What follows the prefix in the names that have it."""
    return [c.removeprefix(prefix) for c in columns if c.startswith(prefix) and c != prefix]
