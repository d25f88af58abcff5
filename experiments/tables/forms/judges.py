"""What several judges read from the same texts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..cells import Array
from ..samples import Sample
from ..updates import Judgements
from .form import Columns, Data, Form, P, named, side_by_side, suffixes
from .updates import in_order


def _columns(there: Sequence[str]) -> Columns:
    alone = "step" in there and not {"question", "trajectory"} & set(there)
    lacking = {"trajectory": "label"} if alone else {}
    return named({"judge_*": P, **lacking}, {"question": "label", "trajectory": "label", "step": "number"})(there)


def _build(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = suffixes(list(data), "judge_")
    readings = side_by_side(data, "judge_", names)
    changes, change_clusters = None, None
    if "step" in data:
        order, label, same = in_order(path, data)
        changes = np.diff(readings[order], axis=0)[same]
        change_clusters = (label if clusters is None else clusters[order])[1:][same]
    return Judgements(
        judges=tuple(names), readings=readings, changes=changes, change_clusters=change_clusters, clusters=clusters
    )


JUDGES = Form(
    "judges",
    "judge_<name> for each of two or more [, question, trajectory, step]",
    _columns,
    _build,
    cluster=("cluster", "question"),
)
