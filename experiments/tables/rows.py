"""Rows of samples: what they are called, which are of one item, and what they are compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...hooks.errors import UserError, nearest
from .cells import Array
from .samples import Sample
from .updates import Updates

GLUE = "\x1f"
"""The control character between the parts of a name; it hardly occurs in one."""


def by_reading(sample: Sample, values: Array) -> Array:
    """[items, readings] of a column [n]; NaN where an item lacks a reading. Items and readings are sorted."""
    assert sample.item is not None
    assert sample.replicate is not None
    items, row = np.unique(sample.item.astype(str), return_inverse=True)
    readings, column = np.unique(sample.replicate.astype(str), return_inverse=True)
    table = np.full((len(items), len(readings)), np.nan)
    table[row, column] = values
    return table


def take(values: Array | None, rows: Array) -> Array | None:
    """Rows of a column that may not be there."""
    return None if values is None else values[rows]


def joined(*parts: Array) -> Array:
    """Texts [n] glued row by row."""
    texts = [np.array(["" if x is None else str(x) for x in part], dtype=object) for part in parts]
    return np.array([GLUE.join(row) for row in zip(*texts, strict=True)], dtype=object)


def texts(keys: Array) -> Array:
    """Names of rows as texts, of which each is in memory once, however many arrays have it: numpy's own have as many
    letters as the longest.
    """
    found = keys.astype(object, copy=False)
    return found if all(isinstance(key, str) for key in found) else found.astype(str).astype(object)


def with_key(sample: Sample, digests: Mapping[str, str]) -> Sample:
    """The sample, its keys followed by the digest of the item that they begin with: then only rows about the same
    content pair, whatever items are called in other runs.
    """
    if isinstance(sample, Updates):
        return replace(sample, views={name: with_key(view, digests) for name, view in sample.views.items()})
    if sample.keys is None:
        return sample
    items = [str(key).split(GLUE, maxsplit=1)[0] for key in sample.keys]
    return replace(sample, keys=joined(sample.keys, np.array([digests.get(item, "") for item in items], dtype=object)))


def with_references(samples: Sequence[Sample], references: Mapping[str, str]) -> list[Sample]:
    """The samples with the level that those of each factor are compared with.

    Raises UserError for a factor that no sample has, or a level that it lacks.
    """
    found = [sample.factors for sample in samples if isinstance(sample, Updates) and sample.factors]
    levels: dict[str, set[str]] = {}
    for factors in found:
        for name, values in factors.items():
            levels.setdefault(name, set()).update(map(str, values))
    for name, level in references.items():
        if name not in levels:
            raise UserError(f"--reference {name}={level}: no such factor; {nearest(name, sorted(levels))}")
        if level not in levels[name]:
            raise UserError(f"--reference {name}={level}: no such level; {nearest(level, sorted(levels[name]))}")
    return [
        replace(sample, baselines={**sample.baselines, **references}) if isinstance(sample, Updates) else sample
        for sample in samples
    ]


def cells(factors: Mapping[str, Array]) -> Array:
    """[n] the combination of levels of each row."""
    levels = zip(*(values.astype(str) for values in factors.values()), strict=True)
    return np.array([" / ".join(row) for row in levels])


def label_text(label: str) -> str:
    """A joined text as a message has it."""
    return repr(label.replace(GLUE, "/"))
