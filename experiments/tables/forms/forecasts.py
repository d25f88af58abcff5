"""Beliefs beside what came true, or the true probability: one of each, shares of answers, or two predictions."""

from typing import Any

import numpy as np

from ....metrics import hybrid_probability
from ..cells import Array, refuse_row
from ..samples import Forecasts, Hits, Predictions, Sample
from .form import Data, Form, P, fields_of, named, side_by_side, suffixes
from .options import indices

SUM_SLACK = 1e-6
CONTEXT = ("cluster", "context", "question", "item")
"""Columns that are taken for the cluster of a prediction."""


def _hits(path: Any, data: Data, clusters: Array | None) -> Sample:
    hits, n = data["k"], data["n"]
    belief = hybrid_probability(hits, n)
    return Hits(belief=belief, outcome=data.get("outcome"), hits=hits, n=n, clusters=clusters)


def _two(path: Any, data: Data, clusters: Array | None) -> Sample:
    first, second = (np.column_stack([1 - data[name], data[name]]) for name in ("p1", "p2"))
    return Predictions(first=first, second=second, truth=data["outcome"], clusters=clusters)


def _two_of_classes(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = suffixes(list(data), "p1_", "p2_")

    def predicted(model: str) -> Array:
        found = side_by_side(data, model, names)
        total = found.sum(axis=1)
        refuse_row(path, np.abs(total - 1) > SUM_SLACK, lambda at: f": {model}<class> sums to {total[at]:g}, not 1")
        return found / total[:, None]

    first, second = predicted("p1_"), predicted("p2_")
    truth = indices(path, "truth", data["truth"], names, np.arange(len(first)))
    return Predictions(first=first, second=second, truth=truth.astype(np.float64), clusters=clusters)


FORECASTS = Form(
    "forecasts",
    "belief, outcome [, p_star, prompt]",
    named({"belief": P, "outcome": "outcome"}, {"p_star": P, "prompt": "label"}),
    fields_of(Forecasts),
    replicates=True,
)
TRUTHS = Form(
    "beliefs and the true probability",
    "belief, p_star [, prompt]",
    named({"belief": P, "p_star": P}, {"prompt": "label"}),
    fields_of(Forecasts),
    cluster=CONTEXT,
    replicates=True,
)
HITS = Form("k of n", "k, n [, outcome]", named({"k": "count", "n": "count"}, {"outcome": "outcome"}), _hits)
BINARY = Form(
    "two predictions", "p1, p2, outcome", named({"p1": P, "p2": P, "outcome": "outcome"}), _two, cluster=CONTEXT
)
SEVERAL = Form(
    "two predictions of classes",
    "p1_<class> and p2_<class> for each of two or more, truth",
    named({"p1_*": P, "p2_*": P, "truth": "label"}),
    _two_of_classes,
    cluster=CONTEXT,
)
