"""The checks that every metric makes of its input (METRICS 0.1, 0.5)."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

RANGE_SLACK = 1e-9
"""How far outside [0, 1] rounding may put a probability before it counts as wrong."""
TIE = 1e-12
"""Probabilities closer than this are equal."""

Floats = NDArray[np.float64]


def probabilities(values: ArrayLike, name: str) -> Floats:
    """Return `values` as float64 within [0, 1]; NaN stays NaN, rounding is clipped, anything else raises."""
    array = np.asarray(values, dtype=np.float64)
    outside = (array < -RANGE_SLACK) | (array > 1 + RANGE_SLACK)
    if outside.any():
        raise ValueError(f"{name}: {array[outside].flat[0]!r} is not a probability; give values in [0, 1] or NaN")
    return np.clip(array, 0.0, 1.0)


def distributions(values: ArrayLike, name: str) -> Floats:
    """Return `values` as distributions over the last axis: each sums to one, or holds a NaN."""
    array = probabilities(values, name)
    totals = array.sum(axis=-1)
    wrong = np.abs(totals - 1) > RANGE_SLACK
    if wrong.any():
        raise ValueError(f"{name}: sums to {totals[wrong].flat[0]!r}, not 1; normalise it first")
    return array


def same_shape(**arrays: NDArray) -> None:
    """Raise unless all arrays have one shape."""
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError("shapes differ: " + ", ".join(f"{name} {shape}" for name, shape in shapes.items()))
