"""Samples of beliefs that move, and the rows of all samples: what they are called, which are of one item, and what
they are compared with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TypeVar

import numpy as np

from ...base.errors import UserError, nearest
from ..contract import Array
from .samples import Sample

S = TypeVar("S", bound=Sample)
STEPWISE, WHOLE = "per step", "first to last"
"""Ways of pairing the beliefs of a trajectory."""


class Pairs(Sample):
    """A belief and a later one."""

    prior: Array
    posterior: Array
    outcome: Array | None = None
    readings: Array | None = None
    """[n, r] of the prior, which is then their mean."""
    wordings: Array | None = None
    """[n, w] of the prior in each wording, over which it is then the mean."""
    cell: Array | None = None
    """[n] combination of the levels of all factors: each has an intercept of its own. None: there is one."""
    n_broken: int = 0
    """Pairs that a missing step took from the trajectories, not among the rows."""


class Updates(Sample):
    """Updates, in one or more ways of pairing them."""

    views: Mapping[str, Pairs]
    """Way of pairing -> pairs; the last one spans from the first belief to the last."""
    factors: Mapping[str, Array] | None = None
    """Factor -> [n] level of each pair from first to last, of those that vary."""
    levels: Mapping[str, Array] = field(default_factory=dict)
    """The same of all factors."""
    baselines: Mapping[str, str] = field(default_factory=dict)
    """Factor -> the level that others are compared with; the first by name where it does not say."""
    mixed: bool = False
    """Of several models, whose difference would pass for a slope: only what tells them apart is scored."""

    @property
    def whole(self) -> Pairs:
        """From the first belief to the last."""
        return list(self.views.values())[-1]

    @property
    def repeated(self) -> Array | None:
        """What tells that priors were read several times; None if they were not."""
        return self.views[next(iter(self.views))].readings if self.replicate is None else self.replicate

    @property
    def outcome(self) -> Array | None:
        """What came true."""
        return self.whole.outcome


class Chains(Updates):
    """Updates of chains that the model sampled itself, several of a question."""

    question: Array
    """[n] question of each chain."""
    half: Array | None = None
    """[n] which of two readings of the prior a chain starts from; None: the prior is exact."""
    update: Array | None = None
    """[n] what the chains move, where it is less than the whole belief; None: posterior less prior."""


class Judgements(Sample):
    """What several judges read from the same texts."""

    judges: tuple[str, ...]
    readings: Array
    """[n, judges]"""
    changes: Array | None = None
    """[m, judges] updates between steps."""
    change_clusters: Array | None = None
    """[m]"""


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


def part_of(sample: S, rows: Array, subset: str) -> S:
    """The rows of a sample that a mask [n] or indices choose, under the name of a subset."""
    if rows.dtype == bool and rows.all():
        return replace(sample, subset=subset)
    chosen = {name: value[rows] for name, value in vars(sample).items() if isinstance(value, np.ndarray)}
    return replace(sample, subset=subset, **chosen)


def take(values: Array | None, rows: Array) -> Array | None:
    """Rows of a column that may not be there."""
    return None if values is None else values[rows]


def joined(*parts: Array) -> Array:
    """Texts [n] glued row by row."""
    texts = [np.array(["" if x is None else str(x) for x in part], dtype=object) for part in parts]
    return np.array([GLUE.join(row) for row in zip(*texts, strict=True)], dtype=object)


def texts(keys: Array) -> Array:
    """Names of rows as texts, each once in memory, where numpy's own have as many letters as the longest."""
    labels = keys.astype(object, copy=False)
    return labels if all(isinstance(key, str) for key in labels) else labels.astype(str).astype(object)


def with_key(sample: Sample, digests: Mapping[str, str]) -> Sample:
    """The sample with the digest of its item after each key: then only rows of the same content pair."""
    if isinstance(sample, Updates):
        return replace(sample, views={name: with_key(view, digests) for name, view in sample.views.items()})
    if sample.keys is None:
        return sample
    items = [str(key).split(GLUE, maxsplit=1)[0] for key in sample.keys]
    content = np.array([digests.get(item) for item in items], dtype=object)
    return replace(sample, keys=joined(sample.keys, content), content=content)


def with_references(samples: Sequence[Sample], references: Mapping[str, str]) -> list[Sample]:
    """The samples with the level that those of each factor are compared with.

    Raises UserError for a factor that no sample has, or a level that it lacks.
    """
    factors_of = [sample.factors for sample in samples if isinstance(sample, Updates) and sample.factors]
    levels: dict[str, set[str]] = {}
    for factors in factors_of:
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
