"""Tables whose columns have levels: cells as papers print them, a row each, and any table by its levels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ...base.errors import UserError
from ..contract import Array
from ..tables.cells import complete
from ..tables.sample_rows import Updates, cells, joined
from ..tables.samples import Cells, Sample
from .form import KEY, Columns, Data, Form, P, suffixes
from .synonyms import role_of
from .updates import FACTOR

CONDITIONS = (
    *("model", "think", "thinking", "prompt", "domain", "reasoning"),
    *("technique", "dataset", "task", "template", "size"),
)
"""Columns whose levels make cells, by their own names; any other by `factor_<name>`, or by `--by`."""
VALUE, ERROR = "value_", "se_"


def level_columns(columns: Sequence[str]) -> list[str]:
    """The columns that say which cell a row is."""
    return [*(name for name in CONDITIONS if name in columns), *(FACTOR + name for name in suffixes(columns, FACTOR))]


def _columns(there: Sequence[str]) -> Columns:
    values = [VALUE + name for name in suffixes(there, VALUE)] or ["m"]
    names = level_columns(there) or ["model"]
    also = {"se": "mass", "brier": P, "significant": "outcome"} if values == ["m"] else {}
    also |= {ERROR + name.removeprefix(VALUE): "mass" for name in values}
    return {**dict.fromkeys(values, "real"), names[0]: "label"}, {**also, **dict.fromkeys(names[1:], "label")}


def _build(path: Any, data: Data, clusters: Array | None) -> list[Sample]:
    factors = {name.removeprefix(FACTOR): complete(path, name, data[name]) for name in level_columns(list(data))}
    values = [name for name in data if name.startswith(VALUE)] or ["m"]
    if clusters is not None and len(set(clusters)) < 2:
        clusters = None  # of one model, each cell stands for itself
    for name in values:
        if np.isnan(data[name]).all():
            raise UserError(f"{path}: {name}: has no number")
    return [
        Cells(
            method="M" if name == "m" else name.removeprefix(VALUE),
            value=data[name],
            error=data.get("se" if name == "m" else ERROR + name.removeprefix(VALUE)),
            brier=data.get("brier") if name == "m" else None,
            significant=data.get("significant") if name == "m" else None,
            factors=factors,
            clusters=clusters,
        )
        for name in values
    ]


CELLS = Form(
    "cells",
    "M [, se, brier, significant], or value_<name> [, se_<name>]; and model, think, prompt, domain, ... or "
    "factor_<name>",
    _columns,
    _build,
    cluster=("cluster", "model"),
    pools=True,
)

# A table by its levels: the samples of each level of a column, and of each combination of them.

MODEL = "model"
"""A factor whose levels are never scored in one heap."""
MOST_CELLS = 400
"""Combinations of levels that are scored."""
Build = Callable[[Data, Array | None], list[Sample]]
"""From the columns of a table and its clusters to what is scored."""


def implied(columns: Sequence[str], by: Sequence[str], used: Sequence[str]) -> list[str]:
    """The columns to score by: those that were asked for, and the model where the form has no use of it."""
    known = [name for name in (MODEL, FACTOR + MODEL) if name in columns and name not in by]
    return [*by, *(name for name in known if name == FACTOR + MODEL or name not in used)]


class Levels:
    """Which level of each factor a row has."""

    def __init__(self, path: Any, form: Form, data: Data, levels: Mapping[str, Array]) -> None:
        """Raises UserError for a row without a level, unless rows of the form may belong to all, and for too many."""
        self.path, self.form = path, form
        if not form.shares:
            for name, values in levels.items():
                complete(path, name, values)
        self.rows, self.of = _spread(levels)
        self.data = {name: values[self.rows] for name, values in data.items()}
        self.cells: dict[str, tuple[str, ...]] = {}
        """Name of a sample -> its level of each factor, of those of one combination of levels."""
        self.families: dict[str, tuple[str, str]] = {}
        """Name of a sample -> the factor that it is a level of, and the model within which it is."""
        n = len(set(cells(self.of)))
        if n > MOST_CELLS:
            raise UserError(
                f"{path}: {', '.join(self.of)} make {n:,} cells, more than {MOST_CELLS}; name fewer by --by"
            )

    def samples(self, build: Build, clusters: Array | None, item: Array | None) -> list[Sample]:
        """All rows, unless they are of several models; those of each level, of other factors within each model; and of
        several factors those of each combination, and of those that are left beside the form's `totals`, alone and
        with each of these. Rows of two levels are called alike where `item` [n], or the form itself, calls them alike.
        """
        given = {"clusters": clusters, "item": item}
        known = {name: values[self.rows] for name, values in given.items() if values is not None}
        every = np.ones(len(self.rows), dtype=bool)
        model = next((name for name in self.of if _short(name) == MODEL), "")
        several = bool(model) and len(set(self.of[model])) > 1 and not self.form.pools
        samples = []
        if self.form.factors or not several:
            whole = self._built(build, every, known, [*self.of])
            samples += [replace(sample, mixed=several) if isinstance(sample, Updates) else sample for sample in whole]
        for factor in self.of:
            fixed = [name for name in self.of if name == factor or (several and name == model)]
            others = [name for name in self.of if name not in fixed]
            called = self._called(fixed)
            for name in dict.fromkeys(called.tolist()):
                if name in self.families:  # of the model within itself
                    continue
                rows = called == name
                built = self._built(build, rows, known, others)
                built = [replace(sample, factors=None) if isinstance(sample, Updates) else sample for sample in built]
                samples += [replace(sample, run=name) for sample in built]
                self.families[name] = (factor, str(self.of[model][rows][0]) if len(fixed) > 1 else "")
        summed = [name for name in self.of if role_of(_short(name)) in self.form.totals]
        for left in ([], *([name] for name in summed)) if len(summed) > 1 else [[]]:
            rest = [name for name in self.of if name not in summed or name in left]
            over = self._called(rest) if 1 < len(rest) < len(self.of) else np.empty(0, dtype=object)
            for name in [name for name in dict.fromkeys(over.tolist()) if name not in self.families]:
                built = self._built(build, over == name, known, [factor for factor in self.of if factor not in rest])
                samples += [replace(sample, subset=name) for sample in built]
        cell = self._called([*self.of])
        self.cells = dict(zip(cell.tolist(), zip(*self.of.values(), strict=True), strict=True))
        alone = self.form.pools and len(self.cells) == len(cell)
        for name in () if alone else [name for name in self.cells if name not in self.families]:
            built = self._built(build, cell == name, known, [])
            samples += [replace(sample, subset=name) for sample in built]
        return samples

    def rivals(self, samples: Sequence[Sample]) -> list[list[str]]:
        """Names of samples that are compared: levels of one factor by one reading, and the readings of one level."""
        families: dict[tuple[str, ...], dict[str, None]] = {}
        for sample in samples:
            if sample.whole_run:
                families.setdefault((sample.kind, sample.method, *self.families.get(sample.run, ("", ""))), {})[
                    sample.name
                ] = None
                if not self.form.pools:
                    families.setdefault((sample.run,), {})[sample.name] = None
        return [list(names) for names in families.values() if len(names) > 1]

    def _called(self, factors: Sequence[str]) -> Array:
        """[n] the levels of some factors, as the samples that hold them are called."""
        columns = [[f"{_short(name)}={level}" for level in self.of[name]] for name in factors]
        return np.array([", ".join(parts) for parts in zip(*columns, strict=True)], dtype=object)

    def _built(self, build: Build, rows: Array, known: Mapping[str, Array], apart: Sequence[str]) -> list[Sample]:
        """The samples of some rows, whose names tell the factors `apart` of several levels from each other."""
        varied = {name: self.of[name][rows] for name in apart if len(set(self.of[name][rows])) > 1}
        needed, _ = self.form.columns([*self.data]) if not self.form.pools else (self.data, None)
        data = {
            name: values[rows]
            for name, values in self.data.items()
            if name in needed or name not in self.of or (name in varied and not name.startswith(FACTOR))
        }
        for name in self.form.names:
            if name in data and varied:
                data[name] = joined(data[name], *varied.values())
        if self.form.factors:
            data |= {FACTOR + _short(name): values for name, values in varied.items()}
        item = known.get("item", known.get("clusters"))
        keys = None
        if item is not None:
            named = pd.Series(joined(item[rows], *varied.values()))
            keys = joined(named.to_numpy(), named.groupby(named).cumcount().to_numpy())
            data |= {KEY: keys} if self.form.factors else {}
        clusters = known["clusters"][rows] if "clusters" in known else None
        return [_keyed(sample, keys) for sample in build(data, clusters)]


def _short(factor: str) -> str:
    return factor.removeprefix(FACTOR)


def _keyed(sample: Sample, keys: Array | None) -> Sample:
    """The sample with names for its rows, where its form has given none and they are the table's."""
    if keys is None or sample.keys_known:
        return sample
    if not isinstance(sample, Updates):
        first = next((x for x in vars(sample).values() if isinstance(x, np.ndarray)), None)
        return replace(sample, keys=keys) if first is not None and len(first) == len(keys) else sample
    views = {name: replace(x, keys=keys) if len(x.prior) == len(keys) else x for name, x in sample.views.items()}
    return replace(sample, views=views)


def _spread(levels: Mapping[str, Array]) -> tuple[Array, dict[str, Array]]:
    """Rows [m] and their levels: a row that lacks one stands in each level that goes with its others."""
    lacking = np.zeros(len(next(iter(levels.values()))), dtype=bool)
    for values in levels.values():
        lacking |= np.array([value is None for value in values], dtype=bool)
    rows = np.arange(len(lacking))
    if not lacking.any():
        return rows, {name: values.astype(str).astype(object) for name, values in levels.items()}
    table = list(zip(*levels.values(), strict=True))
    combinations = list(dict.fromkeys(row for row, lacks in zip(table, lacking, strict=True) if not lacks))
    pairs = [
        (i, other)
        for i in rows
        for other in ([table[i]] if not lacking[i] else combinations)
        if all(level is None or level == other_level for level, other_level in zip(table[i], other, strict=True))
    ]
    at = np.array([i for i, _ in pairs], dtype=np.intp)
    columns = zip(*(other for _, other in pairs), strict=True)
    return at, {name: np.array(column, dtype=object) for name, column in zip(levels, columns, strict=True)}
