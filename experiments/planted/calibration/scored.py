"""Numbers of planted agents, made by the engine that scores runs and tables: the same code is calibrated as is used."""

from typing import Any

import numpy as np

from ...scoring.engine import score_samples
from ...scoring.number import Number, Resampling
from ...tables.cells import Array
from ...tables.samples import Sample
from ...tables.updates import Pairs, Updates


def number_of(metric: str, name: str, sample: Sample, draws: int) -> Number:
    """One number of a metric of the engine by its name; the first of them, where it has several of parts."""
    found = score_samples([sample], Resampling(draws=draws), metric, until=name).numbers
    return next(one for one in found if one.metric == name)


def score_of(metric: str, name: str, sample: Sample, draws: int) -> Any:
    """Its score; which fields that has depends on the name."""
    return number_of(metric, name, sample, draws).score


def scores(metric: str, sample: Sample, draws: int) -> dict[str, Any]:
    """Name -> score, of all numbers of a metric."""
    return {one.metric: one.score for one in score_samples([sample], Resampling(draws=draws), metric).numbers}


def updates(
    prior: Array,
    posterior: Array,
    clusters: Array | None = None,
    *,
    outcome: Array | None = None,
    readings: Array | None = None,
    keys: Array | None = None,
    **fields: Any,
) -> Updates:
    """A sample of updates [n]; `fields` are those of `Updates`, the others of its pairs."""
    pairs = Pairs(prior=prior, posterior=posterior, clusters=clusters, outcome=outcome, readings=readings, keys=keys)
    return Updates(views={"": pairs}, **fields)


def names(n: int) -> Array:
    """[n] numbers whose order as texts is their own, so that draws do not depend on it."""
    return np.arange(n) + 10 ** len(str(n))
