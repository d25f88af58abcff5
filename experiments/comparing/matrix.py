"""Every two kinds of belief about the same things: how reliable each is, and how alike they are without that noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ...metrics import (
    MethodCorrelation,
    MethodReliability,
    counts_to_probabilities,
    method_correlation,
    method_reliability,
)
from ..scoring.families.metric import clusters_of, keys_of
from ..scoring.number import Resampling
from ..tables.cells import Array
from ..tables.rows import joined
from ..tables.samples import Answers, Elicited, Forecasts, Multiclass, Options, Sample

MOST_KINDS = 12


@dataclass(frozen=True)
class Held:
    """The beliefs of one kind, by name."""

    keys: Array
    clusters: Array
    readings: Array
    """[n, r] whose mean a belief is; r is 1 where it was read once."""


@dataclass(frozen=True)
class Matrix:
    """Kinds against kinds."""

    names: Sequence[str]
    reliabilities: Sequence[MethodReliability]
    correlations: Mapping[tuple[int, int], MethodCorrelation]
    """Of each two, by their places in `names`."""
    left_out: int = 0
    """Further kinds."""


def held(sample: Sample) -> Held | None:
    """The beliefs of a sample; None of one that holds none, or whose rows have no names."""
    if not sample.keys_known or not sample.whole_run:
        return None
    if isinstance(sample, Elicited):
        read = sample.readings if sample.wordings is None else sample.wordings
        return Held(keys_of(sample), clusters_of(sample), sample.belief[:, None] if read is None else read)
    if isinstance(sample, Forecasts):
        return Held(keys_of(sample), clusters_of(sample), sample.belief[:, None])
    shares = None
    if isinstance(sample, Options):
        shares = counts_to_probabilities(sample.posterior)
    elif isinstance(sample, Multiclass):
        shares = sample.belief
    elif isinstance(sample, Answers) and sample.named:
        shares = sample.single
    return None if shares is None else _of_options(sample, shares)


def _of_options(sample: Sample, shares: Array) -> Held:
    """A belief for each option but the last, which the others leave."""
    k = shares.shape[1] - 1
    names = [joined(keys_of(sample), np.full(len(shares), str(option), dtype=object)) for option in range(k)]
    return Held(np.concatenate(names), np.tile(clusters_of(sample), k), shares[:, :k].T.reshape(-1, 1))


def matrix_of(samples: Sequence[Sample], how: Resampling) -> Matrix | None:
    """The matrix of the first sample of each name that holds beliefs; None of fewer than two."""
    found: dict[str, Held] = {}
    for sample in sorted(samples, key=lambda one: not isinstance(one, Elicited)):
        own = None if sample.name in found else held(sample)
        if own is not None:
            found[sample.name] = own
    order = list(dict.fromkeys(sample.name for sample in samples if sample.name in found))
    names = order[:MOST_KINDS]
    if len(names) < 2:
        return None
    reliabilities = [method_reliability(found[name].readings, found[name].clusters, **how.interval) for name in names]
    correlations = {}
    for (i, one), (j, two) in combinations(enumerate(names), 2):
        first, second = found[one], found[two]
        _, mine, theirs = np.intersect1d(first.keys.astype(str), second.keys.astype(str), return_indices=True)
        correlations[i, j] = method_correlation(
            first.readings[mine], second.readings[theirs], first.clusters[mine], **how.interval
        )
    return Matrix(names, reliabilities, correlations, len(order) - len(names))
