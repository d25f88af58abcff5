"""What several judges read from the same texts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..cells import Array
from ..samples import Judgements, Sample
from .form import Data, Form, P, suffixes
from .options import at_least_two
from .updates import in_order


def _roles(columns: Sequence[str]) -> dict[str, str]:
    wanted = {f"judge_{name}": P for name in suffixes(columns, "judge_")}
    wanted |= {"question": "label", "trajectory": "label", "step": "number"}
    return {name: role for name, role in wanted.items() if name in columns}


def _missing(columns: Sequence[str]) -> list[str]:
    chained = "step" not in columns or {"question", "trajectory"} & set(columns)
    wanted = [f"judge_{name}" for name in at_least_two(suffixes(columns, "judge_"))]
    return [c for c in [*wanted, *([] if chained else ["trajectory"])] if c not in columns]


def _build(path: Any, data: Data, clusters: Array | None) -> Sample:
    names = suffixes(list(data), "judge_")
    readings = np.column_stack([data[f"judge_{name}"] for name in names])
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
    _roles,
    _missing,
    _build,
    cluster=("cluster", "question"),
)
