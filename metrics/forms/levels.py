"""A table by its levels: the samples of each level of a column, and of each combination of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from ...base.errors import UserError
from ..contract import Array
from ..tables.cells import complete
from ..tables.sample_rows import Updates, cells, joined
from ..tables.samples import Sample
from .form import KEY, Data, Form
from .updates import FACTOR

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
        n = len(set(cells(self.of)))
        if n > MOST_CELLS:
            raise UserError(
                f"{path}: {', '.join(self.of)} make {n:,} cells, more than {MOST_CELLS}; name fewer by --by"
            )

    def samples(self, build: Build, clusters: Array | None, item: Array | None) -> list[Sample]:
        """All rows, unless they are of several models; those of each level; and of several factors those of each
        combination. Rows of two levels are called alike where `item` [n], or the form itself, calls them alike.
        """
        known = {
            name: values[self.rows] for name, values in (("clusters", clusters), ("item", item)) if values is not None
        }
        every = np.ones(len(self.rows), dtype=bool)
        found = []
        models = next((values for name, values in self.of.items() if _short(name) == MODEL), every)
        several = len(set(models)) > 1
        if self.form.factors or self.form.pools or not several:
            whole = self._built(build, every, known, [*self.of])
            found += [replace(one, mixed=several) if isinstance(one, Updates) else one for one in whole]
        for factor, values in self.of.items():
            others = [name for name in self.of if name != factor]
            for level in dict.fromkeys(values):
                made = self._built(build, values == level, known, others)
                made = [replace(one, factors=None) if isinstance(one, Updates) else one for one in made]
                found += [replace(one, run=f"{_short(factor)}={level}") for one in made]
                if len(self.of) == 1:
                    self.cells[f"{_short(factor)}={level}"] = (level,)
        if len(self.of) > 1:
            cell = np.array([", ".join(f"{_short(n)}={x[i]}" for n, x in self.of.items()) for i in range(len(every))])
            alone = self.form.pools and len(set(cell)) == len(cell)
            self.cells = dict(zip(cell.tolist(), zip(*self.of.values(), strict=True), strict=True))
            for name in () if alone else self.cells:
                made = self._built(build, cell == name, known, [])
                found += [replace(one, subset=name) for one in made]
        return found

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
        own = known["clusters"][rows] if "clusters" in known else None
        return [_keyed(one, keys) for one in build(data, own)]


def rivals(form: Form, samples: Sequence[Sample]) -> list[list[str]]:
    """Names of samples that are compared: levels of one factor by one reading, and the readings of one level."""
    whole = [sample for sample in samples if sample.whole_run]
    factor_of = {sample.run: sample.run.partition("=")[0] for sample in whole}
    ways = (lambda one: (one.kind, one.method, factor_of[one.run]), lambda one: one.run)
    found = []
    for way in ways[:1] if form.pools else ways:
        ordered = sorted(whole, key=way)
        found += [list(dict.fromkeys(one.name for one in own)) for _, own in groupby(ordered, key=way)]
    return [names for names in found if len(names) > 1]


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
    found = [
        (i, other)
        for i in rows
        for other in ([table[i]] if not lacking[i] else combinations)
        if all(mine is None or mine == theirs for mine, theirs in zip(table[i], other, strict=True))
    ]
    at = np.array([i for i, _ in found], dtype=np.intp)
    columns = zip(*(other for _, other in found), strict=True)
    return at, {name: np.array(column, dtype=object) for name, column in zip(levels, columns, strict=True)}
