"""The checks that every metric makes of its input (METRICS 0.1, 0.5): one line that says what and where."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

RANGE_SLACK = 1e-9
"""How far outside [0, 1] rounding may put a probability before it counts as wrong."""
TIE = 1e-12
"""Probabilities closer than this are equal."""

Floats = NDArray[np.float64]


def floats(values: ArrayLike) -> Floats:
    """Values as float64, any of them."""
    return np.asarray(values, dtype=np.float64)


def probabilities(values: ArrayLike, name: str) -> Floats:
    """Return `values` as float64 within [0, 1]; NaN stays NaN, rounding is clipped, anything else raises."""
    array = floats(values)
    outside = (array < -RANGE_SLACK) | (array > 1 + RANGE_SLACK)
    refuse(array, outside, f"{name}:", " is not a probability; give values in [0, 1] or NaN")
    return np.clip(array, 0.0, 1.0)


def distributions(values: ArrayLike, name: str) -> Floats:
    """Return `values` as distributions over the last axis: each sums to one, or holds a NaN."""
    array = probabilities(values, name)
    totals = array.sum(axis=-1)
    refuse(totals, np.abs(totals - 1) > RANGE_SLACK, f"{name}: sums to", ", not 1; normalise it first")
    return array


def outcomes(values: ArrayLike, name: str) -> Floats:
    """What came true: each 0, 1, or NaN if unknown."""
    array = floats(values)
    wrong = np.isfinite(array) & (array != 0) & (array != 1) | np.isinf(array)
    refuse(array, wrong, f"{name}:", " is not an outcome; give 0, 1 or NaN")
    return array


def updates(values: ArrayLike, name: str) -> Floats:
    """Differences of two beliefs, in [-1, 1], or NaN."""
    array = floats(values)
    refuse(array, np.abs(array) > 1 + RANGE_SLACK, f"{name}:", " is no difference of two beliefs; give [-1, 1] or NaN")
    return array


def posteriors(values: ArrayLike, name: str) -> Floats:
    """Bayesian posteriors, which unclipped may exceed 1 (METRICS D1); negative or infinite ones raise."""
    array = floats(values)
    refuse(array, (array < 0) | np.isinf(array), f"{name}:", " is negative or infinite; give P* or NaN")
    return array


def refuse(array: NDArray, wrong: NDArray[np.bool_], before: str, after: str) -> None:
    """Raise if anything is wrong, with the first such value between two halves of a line."""
    if np.any(wrong):
        raise ValueError(f"{before} {float(array[wrong].flat[0])!r}{after}")


def one_of(value: object, allowed: tuple[str, ...], name: str) -> None:
    """Raise unless an option has one of its values."""
    if value not in allowed:
        raise ValueError(f"{name}: {value!r} is unknown; use one of {', '.join(allowed)}")


def check_level(level: float, name: str = "level") -> None:
    """Raise unless a confidence level lies strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"{name}: {level!r}; give a value between 0 and 1, such as 0.95")


def check_draws(draws: int) -> None:
    """Raise unless at least one resample is asked for."""
    if draws < 1:
        raise ValueError(f"draws: {draws!r}; give one resample or more")


def same_shape(**arrays: NDArray) -> None:
    """Raise unless all arrays have one shape."""
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError("shapes differ: " + ", ".join(f"{name} {shape}" for name, shape in shapes.items()))
