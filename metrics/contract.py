"""What every metric checks of its input, and the one shape that every result has (METRICS 0.1, 0.5, 0.7)."""

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any, ClassVar, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike, NDArray

NAN = float("nan")

Array = NDArray[Any]


DRAWS = 2000


@dataclass(frozen=True)
class Resampling:
    """How everything random in a score is drawn, and what its intervals cover."""

    seed: int = 0
    draws: int | None = None
    """Resamples; None: as many as the function draws unless told otherwise."""
    level: float = 0.95
    """Of every interval."""

    def __post_init__(self) -> None:
        """Raises ValueError for a level that no interval has, and for no draws at all."""
        if not 0 < self.level < 1:
            raise ValueError(f"level: {self.level!r}; give a value between 0 and 1, such as 0.95")
        if self.n_draws < 1:
            raise ValueError(f"draws: {self.draws!r}; give one resample or more")

    @property
    def params(self) -> dict[str, Any]:
        """As a result records them."""
        return {"level": self.level, "draws": self.n_draws, "seed": self.seed}

    @property
    def n_draws(self) -> int:
        """Resamples."""
        return DRAWS if self.draws is None else self.draws

    def drawing(self, draws: int) -> "Resampling":
        """The same, for a function that draws another number unless told otherwise."""
        return replace(self, draws=draws) if self.draws is None else self


RESAMPLING = Resampling()
"""Unless told otherwise."""


def row_counts(n_rows: int, n_dropped: int) -> dict[str, Any]:
    """What a Score says about its rows when those dropped were undefined."""
    return {"n_rows": n_rows, "n_dropped": n_dropped, "reasons": {"undefined": n_dropped} if n_dropped else {}}


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Frozen:
    """Its subclasses are frozen dataclasses by themselves; one that is decorated as such, too, is as well."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, kw_only=True)(cls)
        for name in ("__setattr__", "__delattr__"):  # a second decorator would find them; those below do as well
            delattr(cls, name)

    def __setattr__(self, name: str, _: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


class Score(Frozen):
    """Fields common to every result (METRICS 0.7). A subclass, which is a frozen dataclass by itself, adds its own and
    names one of them: `class Brier(Score, headline="brier")`.
    """

    headline: ClassVar[str]

    se: float = NAN
    """Standard error of the headline, in its units."""
    ci_lo: float = NAN
    ci_hi: float = NAN
    ci_method: str = ""
    """How the interval was made; empty when there is none, and then the number may not be reported."""
    p: float = NAN
    p_method: str = ""
    n_rows: int = 0
    """Rows that entered the number, after dropping."""
    n_clusters: int = 0
    n_dropped: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why rows were dropped, with counts that sum to `n_dropped`."""
    status: str = "ok"
    """`ok`, or the machine-readable name of the degenerate case."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """The settings that another run needs to get the same number: seed, draws, level, ..."""

    def __init_subclass__(cls, headline: str | None = None, **kwargs: Any) -> None:
        """A result prints in one line; without this, `dataclass` would print every field."""
        if headline is not None:
            cls.headline = headline
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = Score.__repr__
        super().__init_subclass__(**kwargs)

    def __repr__(self) -> str:
        text = f"{self.headline}={_short(self.estimate)}"
        text += "" if self.ci_lo != self.ci_lo else f" [{_short(self.ci_lo)}, {_short(self.ci_hi)}]"
        text += f", n={self.n_rows}" + (f" in {self.n_clusters} clusters" if self.n_clusters else "")
        text += f", dropped={self.n_dropped}" if self.n_dropped else ""
        return f"{type(self).__name__}({text}{'' if self.status == 'ok' else f', status={self.status}'})"

    @property
    def estimate(self) -> Any:
        """The headline field under its common name."""
        return getattr(self, self.headline)

    def common_fields(self, **changes: Any) -> dict[str, Any]:
        """The fields that every result has, for one that is made of this one, but for `changes`."""
        return {common.name: getattr(self, common.name) for common in fields(Score)} | changes

    @property
    def row_fields(self) -> dict[str, Any]:
        """What it says about its rows."""
        return {name: getattr(self, name) for name in ("n_rows", "n_clusters", "n_dropped", "reasons")}

    def interval(self, **params: Any) -> dict[str, Any]:
        """The fields of the interval, for a result that is made of this one; `params` are recorded with its own."""
        fields = {name: getattr(self, name) for name in ("se", "ci_lo", "ci_hi", "ci_method")}
        return fields | {"params": {**self.params, **params}}

    def as_dict(self) -> dict[str, Any]:
        """Every field by name, `estimate` first."""
        return {"estimate": self.estimate} | {f.name: getattr(self, f.name) for f in fields(self)}


def _short(value: Any) -> str:
    """A number in four digits; anything else in a few characters."""
    if isinstance(value, float):
        return f"{value:.4g}"
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


SHOWN = 60
"""Characters of a value that is no number, in the line that a result prints as."""


# The checks that every metric makes of its input (METRICS 0.1, 0.5): one line that says what and where.

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


def same_shape(**arrays: NDArray) -> None:
    """Raise unless all arrays have one shape."""
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError("shapes differ: " + ", ".join(f"{name} {shape}" for name, shape in shapes.items()))
