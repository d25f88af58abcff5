"""What a form of table is: its columns, and the sample that it becomes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..contract import Array
from ..tables.samples import Sample
from ..tables.source import TableSource

Data = dict[str, Any]
Columns = tuple[Mapping[str, str], Mapping[str, str]]
"""Those that a form requires and those that it also takes, each with its role."""
Build = Callable[[Any, Data, Array | None], Sample | list[Sample]]
"""From a file, its columns and its clusters to what is scored, several samples if a row holds several numbers. Raises
UserError.
"""
CLUSTERS = ("cluster", "question", "item")
"""Columns that are taken for the cluster when none is named, in this order."""
CONTEXTS = ("prior", "posterior")
P = "probability"
KEY = "\x1fkey"
"""Under it a form that puts rows together is told what they are called."""
OTHER = "other"
"""The column suffix of answers that name no option."""


@dataclass(frozen=True)
class Form:
    """A shape of table."""

    name: str
    wants: str
    """Its columns, as the user is told them."""
    columns: Callable[[Sequence[str]], Columns]
    """From the columns of a table: some forms have as many as there are options."""
    build: Build
    cluster: tuple[str, ...] = CLUSTERS
    replicates: bool = False
    """Whether rows may be readings of one item."""
    names: tuple[str, ...] = ()
    """Columns that tell rows apart which belong together: of other levels they are names of something else."""
    shares: bool = False
    """Whether a row without a level belongs to every level, as a prior serves several posteriors."""
    factors: bool = False
    """Whether it takes columns `factor_<name>`, which levels become."""
    pools: bool = False
    """Whether its rows are numbers of models, which may be summed up together."""
    totals: tuple[str, ...] = ()
    """Factors over whose levels everything is also scored together, at each combination of the other factors."""
    gather: Callable[[TableSource, Sequence[str]], TableSource] | None = None
    """Of a row per answer: makes the table of another form of it, with these columns besides."""

    def roles(self, columns: Sequence[str]) -> dict[str, str]:
        """Columns of a table that this form would use, with their roles; also if others are missing."""
        required, optional = self.columns(columns)
        return {name: role for name, role in {**required, **optional}.items() if name in columns}

    def missing(self, columns: Sequence[str]) -> list[str]:
        """Columns that a table lacks for this form."""
        required, _ = self.columns(columns)
        return [name for name in required if name not in columns]


def named(required: Mapping[str, str], optional: Mapping[str, str] | None = None) -> Callable[[Sequence[str]], Columns]:
    """Columns of a form by their names; a `*` is each option in turn.

    The options are what follows the prefix in any required column, at least two. Of optional columns each is taken that
    is there, and so are the counts or probabilities of `other`.
    """

    def columns(there: Sequence[str]) -> Columns:
        prefixes = [name[:-1] for name in required if name.endswith("*")]
        masses = {prefix + OTHER: "mass" for prefix in prefixes if required[f"{prefix}*"] == "mass"}
        names = at_least_two([name for name in suffixes(there, *prefixes) if not (masses and name == OTHER)])
        more = {name: suffixes(there, name[:-1]) for name in optional or {} if name.endswith("*")}
        needed = {full: role for name, role in required.items() for full in _written(name, names)}
        also = {full: role for name, role in (optional or {}).items() for full in _written(name, more.get(name, ()))}
        return needed, masses | also

    return columns


def _written(name: str, options: Sequence[str]) -> list[str]:
    return [name[:-1] + option for option in options] if name.endswith("*") else [name]


def fields_of(sample: type[Sample]) -> Build:
    """Builds a sample whose fields are the columns."""
    return lambda path, data, clusters: sample(clusters=clusters, **data)


def suffixes(columns: Sequence[str], *prefixes: str) -> list[str]:
    """What follows the prefixes in the names that have one, each once."""
    names = [c.removeprefix(prefix) for prefix in prefixes for c in columns if c.startswith(prefix) and c != prefix]
    return list(dict.fromkeys(names))


def at_least_two(names: Sequence[str]) -> list[str]:
    """The names, made up to two options by `a` and `b`, which a table then lacks."""
    return [*names, *[name for name in ("a", "b") if name not in names][: max(0, 2 - len(names))]]


def side_by_side(data: Data, prefix: str, names: Sequence[str]) -> Array:
    """[n, names] the columns of one prefix."""
    return np.column_stack([data[f"{prefix}{name}"] for name in names])
