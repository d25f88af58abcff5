"""Numbers that users give, of whatever library they are: of Python, numpy or torch."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError

SINGLE = float(np.finfo(np.float32).max)
"""The largest number of float32, in which edits compute."""


def as_number(value: Any, where: str) -> float:
    """One finite number, within the range of float32.

    Raises UserError, which begins with `where`, for anything else.

    >>> as_number(np.float32(2), "strength")
    2.0
    """
    try:
        found = float("nan") if isinstance(value, str | bytes) or np.iscomplexobj(value) else float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        found = float("nan")
    if not abs(found) <= SINGLE:
        raise UserError(f"{where} {value!r}: give a finite number, within the range of float32")
    return found


def as_floats(values: Any, where: str) -> NDArray[np.float64]:
    """A copy as finite float64, of any shape.

    Raises UserError, which begins with `where`, for what is ragged, complex, not finite, or no number.
    """
    try:
        given = np.asarray(values)
        found = None if given.dtype.kind not in "biufO" else np.array(given, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        found = None
    if found is None:
        raise UserError(f"{where}: {type(values).__name__} is no array of real numbers")
    if not np.isfinite(found).all():
        raise UserError(f"{where}: some of its values are not finite")
    return found
