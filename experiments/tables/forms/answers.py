"""How often each option was the answer: asked afresh, and within conversations."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....hooks.errors import UserError
from ....metrics import counts_to_probabilities
from ..cells import Array, complete
from ..samples import Answers, Sample, take
from .form import Data, Form, suffixes
from .options import OTHER, at_least_two, counted, indices, masses

ARMS = ("single", "multi")


def _names(columns: Sequence[str]) -> list[str]:
    both = [name for arm in ARMS for name in suffixes(columns, f"{arm}_")]
    return [name for name in dict.fromkeys(both) if name != OTHER]


def _roles(columns: Sequence[str]) -> dict[str, str]:
    wanted = {f"{arm}_{name}": "mass" for arm in ARMS for name in [*_names(columns), OTHER]}
    wanted |= {"question": "label", "truth": "label"}
    return {name: role for name, role in wanted.items() if name in columns}


def _missing(columns: Sequence[str]) -> list[str]:
    names = at_least_two(_names(columns))
    return [c for c in (f"{arm}_{name}" for arm in ARMS for name in names) if c not in columns]


def _build(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = _names(list(data))
    arms = [masses(path, data, names, f"{arm}_") for arm in ARMS]
    n = len(arms[0])
    labels = complete(path, "question", data["question"]) if "question" in data else np.arange(n)
    first, row = np.unique(labels.astype(str), return_index=True, return_inverse=True)[1:]
    for name, column in (("cluster", clusters), ("truth", data.get("truth"))):
        if column is not None and (column != column[first][row]).any():
            at = int(np.argmax(column != column[first][row]))
            raise UserError(f"{path}: row {at + 1}: {name} differs within question {labels[at]!r}; it has one")
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
    _roles,
    _missing,
    _build,
    cluster=("cluster", "question"),
)
