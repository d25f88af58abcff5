"""A table of cells, as papers print them: in each row what was found under one combination of conditions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.errors import UserError
from ..contract import Array
from ..tables.cells import complete
from ..tables.samples import Cells, Sample
from .form import Columns, Data, Form, P, suffixes
from .updates import FACTOR

CONDITIONS = ("model", "prompt", "domain", "reasoning", "technique", "dataset", "task", "template", "thinking", "size")
"""Columns whose levels make cells, by their own names; any other by `factor_<name>`, or by `--by`."""
VALUE, ERROR = "value_", "se_"


def levels(columns: Sequence[str]) -> list[str]:
    """The columns that say which cell a row is."""
    return [*(name for name in CONDITIONS if name in columns), *(FACTOR + name for name in suffixes(columns, FACTOR))]


def _columns(there: Sequence[str]) -> Columns:
    values = [VALUE + name for name in suffixes(there, VALUE)] or ["m"]
    names = levels(there) or ["model"]
    also = {"se": "mass", "brier": P, "significant": "outcome"} if values == ["m"] else {}
    also |= {ERROR + name.removeprefix(VALUE): "mass" for name in values}
    return {**dict.fromkeys(values, "real"), names[0]: "label"}, {**also, **dict.fromkeys(names[1:], "label")}


def _build(path: Any, data: Data, clusters: Array | None) -> list[Sample]:
    factors = {name.removeprefix(FACTOR): complete(path, name, data[name]) for name in levels(list(data))}
    values = [name for name in data if name.startswith(VALUE)] or ["m"]
    if clusters is not None and len(set(clusters)) < 2:
        clusters = None  # of one model, each cell stands for itself
    for name in values:
        if np.isnan(data[name]).all():
            raise UserError(f"{path}: {name}: has no number")
    return [
        Cells(
            method="M" if name == "m" else name.removeprefix(VALUE),
            value=data[name],
            error=data.get("se" if name == "m" else ERROR + name.removeprefix(VALUE)),
            brier=data.get("brier") if name == "m" else None,
            significant=data.get("significant") if name == "m" else None,
            factors=factors,
            clusters=clusters,
        )
        for name in values
    ]


CELLS = Form(
    "cells",
    "M [, se, brier, significant], or value_<name> [, se_<name>]; and model, prompt, domain, reasoning, ... or "
    "factor_<name>",
    _columns,
    _build,
    cluster=("cluster", "model"),
    pools=True,
)
