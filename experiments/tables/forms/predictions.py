"""Two predictions of one thing, by a smaller and a larger model."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....hooks.errors import UserError
from ..cells import Array
from ..samples import Predictions, Sample
from .form import Data, Form, P, fixed, suffixes
from .options import at_least_two, indices

MODELS = ("p1", "p2")
SUM_SLACK = 1e-6
CLUSTERS = ("cluster", "context", "question", "item")


def _binary(path: Any, data: Data, clusters: Array | None) -> Sample:
    first, second = (np.column_stack([1 - data[name], data[name]]) for name in MODELS)
    return Predictions(first=first, second=second, truth=data["outcome"], clusters=clusters)


def _classes(columns: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name for model in MODELS for name in suffixes(columns, f"{model}_")))


def _roles(columns: Sequence[str]) -> dict[str, str]:
    wanted = {f"{model}_{name}": P for model in MODELS for name in _classes(columns)} | {"truth": "label"}
    return {name: role for name, role in wanted.items() if name in columns}


def _missing(columns: Sequence[str]) -> list[str]:
    names = at_least_two(_classes(columns))
    return [c for c in [*(f"{model}_{name}" for name in names for model in MODELS), "truth"] if c not in columns]


def _several(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = _classes(list(data))
    both = []
    for model in MODELS:
        found = np.column_stack([data[f"{model}_{name}"] for name in names])
        total = found.sum(axis=1)
        if (off := np.abs(total - 1) > SUM_SLACK).any():
            at = int(np.argmax(off))
            raise UserError(f"{path}: row {at + 1}: {model}_<class> sums to {total[at]:g}, not 1")
        both.append(found / total[:, None])
    truth = indices(path, "truth", data["truth"], names, np.arange(len(both[0])))
    return Predictions(first=both[0], second=both[1], truth=truth.astype(np.float64), clusters=clusters)


BINARY = Form(
    "two predictions",
    "p1, p2, outcome",
    build=_binary,
    cluster=CLUSTERS,
    **fixed({"p1": P, "p2": P, "outcome": "outcome"}, {}),
)
SEVERAL = Form(
    "two predictions of classes",
    "p1_<class> and p2_<class> for each of two or more, truth",
    _roles,
    _missing,
    _several,
    cluster=CLUSTERS,
)
