"""The one shape that every result has, so that a number never travels without its denominator."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

NAN = float("nan")


def row_counts(n_rows: int, n_dropped: int) -> dict[str, Any]:
    """What a Score says about its rows when those dropped were undefined."""
    return {"n_rows": n_rows, "n_dropped": n_dropped, "reasons": {"undefined": n_dropped} if n_dropped else {}}


@dataclass(frozen=True, kw_only=True)
class Score:
    """Fields common to every result (METRICS 0.7). A subclass adds its own and names one as `headline`."""

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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """A result prints in one line; without this, `dataclass` would print every field."""
        super().__init_subclass__(**kwargs)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = Score.__repr__

    def __repr__(self) -> str:
        told = f"{self.headline}={_short(self.estimate)}"
        told += "" if self.ci_lo != self.ci_lo else f" [{_short(self.ci_lo)}, {_short(self.ci_hi)}]"
        told += f", n={self.n_rows}" + (f" in {self.n_clusters} clusters" if self.n_clusters else "")
        told += f", dropped={self.n_dropped}" if self.n_dropped else ""
        return f"{type(self).__name__}({told}{'' if self.status == 'ok' else f', status={self.status}'})"

    @property
    def estimate(self) -> Any:
        """The headline field under its common name."""
        return getattr(self, self.headline)

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
    told = " ".join(repr(value).split())
    return told if len(told) <= SHOWN else f"{told[:SHOWN]}..."


SHOWN = 60
"""Characters of a value that is no number, in the line that a result prints as."""
