"""How often each option was the answer: asked afresh, and within conversations."""

from typing import Any

import numpy as np

from ....metrics import counts_to_probabilities
from ..cells import Array, complete, refuse_row
from ..rows import take
from ..samples import Answers, Sample
from .form import Data, Form, named
from .options import counted, indices, masses, option_names

ARMS = ("single_", "multi_")


def _build(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = option_names(data, *ARMS)
    arms = [masses(path, data, names, arm) for arm in ARMS]
    n = len(arms[0])
    labels = complete(path, "question", data["question"]) if "question" in data else np.arange(n)
    first, row = np.unique(labels.astype(str), return_index=True, return_inverse=True)[1:]
    for name, column in (("cluster", clusters), ("truth", data.get("truth"))):
        if column is not None:
            differs = column != column[first][row]
            refuse_row(
                path, differs, lambda at, name=name: f": {name} differs within question {labels[at]!r}; it has one"
            )
    truth = None
    if "truth" in data:
        truth = indices(path, "truth", data["truth"][first], names, first)
    pooled = []
    for arm in arms:  # runs of one question: answers add up, probabilities are averaged
        total = np.zeros((len(first), arm.shape[1]))
        np.add.at(total, row, arm)
        pooled.append(total if counted(arm) else total / np.bincount(row)[:, None])
    shares = [x[:, :-1] / np.where((s := x[:, :-1].sum(axis=1, keepdims=True)) > 0, s, np.nan) for x in pooled]
    invalid = [float(counts_to_probabilities(np.nansum(x, axis=0))[-1]) for x in pooled]
    return Answers(
        options=tuple(names),
        single=shares[0],
        multi=shares[1],
        counts=pooled[0][:, :-1] if counted(arms[0]) else None,
        invalid=(invalid[0], invalid[1]),
        truth=truth,
        clusters=take(clusters, first),
    )


ANSWERS = Form(
    "answers",
    "single_<option> and multi_<option> for each of two or more [, single_other, multi_other, question, truth]",
    named({"single_*": "mass", "multi_*": "mass"}, {"question": "label", "truth": "label"}),
    _build,
    cluster=("cluster", "question"),
)
