"""Numbers as rows: what `scores.json` holds of each, the same for runs and tables."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...metrics import Score
from ..scoring.number import Number

COMMON = {"estimate", *(field.name for field in dataclasses.fields(Score))}
"""What every score has."""


def as_row(number: Number) -> dict[str, Any]:
    """A number in what JSON has: its name, the fields that every score has, those of its own under `details`, and what
    is to be read beside it. NaN is null; the status says why.
    """
    fields = number.score.as_dict()
    own = {name: value for name, value in fields.items() if name not in COMMON | {number.score.headline}}
    named = {"metric": number.metric, "method": number.method, "subset": number.subset, "kind": number.kind}
    return jsonable(
        (named | {"run": number.run} if number.run else named)
        | {"quantity": number.quantity, "family": number.family, "code": number.code}
        | {name: value for name, value in fields.items() if name in COMMON}
        | {"details": own, "beside": number.beside}
        | {"equivalence": number.equivalence and number.equivalence.as_dict()}
    )


def jsonable(value: Any) -> Any:
    """The same in what JSON has."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [jsonable(inner) for inner in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
