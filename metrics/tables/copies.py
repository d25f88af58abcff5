"""Items that are there several times under other names, found by what they hold: they are no further evidence."""

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ..contract import Array
from .sample_rows import Updates
from .samples import Sample

S = TypeVar("S", bound=Sample)
GRID, ROUNDING = 1e-4, 1e-6
"""Values of which all are whole multiples of the first are rounded, and may be equal by chance: no mark of a copy."""
SURE, COUNTED = 1e-5, 100
"""Nor are values so near to a whole number, or shares of so few answers."""
TELLING = 10
"""Different values among those that recur, from which on they mark copies: with fewer a belief is one of a few levels,
as a constant one is."""


def counted_once(sample: S) -> S:
    """The sample, its clusters that hold the same numbers, in any order of their rows, as one; its note says how many.

    Numbers tell where one of them in the row is no rounded one, and where they are at least ten different ones: a
    constant belief, or one of a few levels, is the same in many items that are no copies.
    """
    view = sample.whole
    values = numbers_of(view)
    if not values.size:
        return sample
    clusters = np.arange(len(values)) if view.clusters is None else view.clusters
    names, codes = np.unique(clusters.astype(str), return_inverse=True)
    bytes_of = np.ascontiguousarray(values).view(f"V{values.shape[1] * values.itemsize}").ravel()
    _, row, times = np.unique(bytes_of, return_inverse=True, return_counts=True)
    again = times[row] > 1
    fine = np.zeros(values.shape, dtype=bool)
    fine[again] = unrounded(values[again])
    if len(np.unique(values[fine])) < TELLING:
        return sample
    content = row.astype(object)
    content[np.bincount(codes, fine.any(axis=1))[codes] == 0] = None
    owners = one_of_copies(clusters, content)
    n_copies = len(names) - len(np.unique(owners))
    if not n_copies:
        return sample
    note = "; ".join(filter(None, (sample.note, f"{n_copies} of {len(names)} clusters are copies, counted once")))
    if not isinstance(sample, Updates):
        return replace(sample, clusters=names[owners], note=note)
    kept = dict(zip(clusters.astype(str), names[owners], strict=True))
    views = {
        name: replace(pairs, clusters=names[owners] if pairs.clusters is None else _renamed(pairs.clusters, kept))
        for name, pairs in sample.views.items()
    }
    of_all = sample.clusters
    return replace(sample, views=views, note=note, clusters=of_all if of_all is None else _renamed(of_all, kept))


def _renamed(clusters: Array, kept: dict[str, Any]) -> Array:
    return np.array([kept.get(name, name) for name in clusters.astype(str)])


def numbers_of(sample: Sample) -> Array:
    """[n, columns] all numbers of its rows."""
    n = len(next((value for value in vars(sample).values() if isinstance(value, np.ndarray)), ()))
    if not n:
        return np.empty((0, 0))
    numbers = [
        value.reshape(n, -1)
        for value in vars(sample).values()
        if isinstance(value, np.ndarray) and value.dtype == float and len(value) == n
    ]
    return np.hstack(numbers) if n and numbers else np.empty((n, 0))


def unrounded(values: Array) -> Array:
    """Whether a number is none that may be equal by chance: rounded, sure, or a share of at most a hundred answers."""
    fine = np.isfinite(values) & (np.abs(values / GRID - np.round(values / GRID)) > ROUNDING)
    fine &= np.abs(values - np.round(values)) > SURE
    for n in range(2, COUNTED + 1):
        fine[fine] = np.abs(values[fine] * n - np.round(values[fine] * n)) > ROUNDING * n
    return fine


def one_of_copies(clusters: Array, content: Array) -> Array:
    """[n] number of the cluster of each row, by name; clusters whose rows have the same contents [n], in any order, are
    one.

    An item that was copied under a new name is no further evidence. None tells nothing; clusters that have nothing else
    stay as they are.
    """
    names, codes = np.unique(clusters.astype(str), return_inverse=True)
    rows_of: dict[int, list[Any]] = {}
    for code, row in zip(codes.tolist(), content, strict=True):
        if row is not None:
            rows_of.setdefault(code, []).append(row)
    kept = np.arange(len(names))
    first: dict[tuple[Any, ...], int] = {}
    for code, rows in rows_of.items():
        kept[code] = first.setdefault(tuple(sorted(rows)), code)
    return kept[codes]
