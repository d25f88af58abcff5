"""What a comparison finds: records that a page, a terminal, a card and a program read alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ...metrics import Equivalence, PairedDifference
from ..scoring.number import Number
from ..scoring.paired import Pair
from .drivers import Driver
from .matrix import Matrix
from .sides import Side

Finding = Literal[
    "differ", "differ by less than the margin", "the same within the margin", "undecided", "no test", "struck out"
]
ALPHA = 0.05


@dataclass(frozen=True)
class Record:
    """One number of two samples."""

    pair: Pair
    number: Number
    """Their difference; its score is a `PairedDifference`."""
    drivers: Sequence[Driver] = ()
    """Clusters that make the difference, the largest before all."""
    struck: str = ""
    """Why one of the two is no belief measurement: then the number is shown, and nothing is concluded from it."""

    @property
    def score(self) -> PairedDifference:
        """The difference, with the two numbers on common rows."""
        assert isinstance(self.number.score, PairedDifference)
        return self.number.score

    @property
    def finding(self) -> Finding:
        """What the tests say, each adjusted over its family."""
        if self.struck:
            return "struck out"
        same = isinstance(self.number.equivalence, Equivalence) and self.number.equivalence.equivalent
        if not self.score.p_adjusted >= 0:
            return "no test"
        if self.score.p_adjusted < ALPHA:
            return "differ by less than the margin" if same else "differ"
        return "the same within the margin" if same else "undecided"

    def as_dict(self) -> dict[str, Any]:
        """Its name, its finding and its drivers; the numbers are those of the difference."""
        return {
            "metric": self.pair.metric,
            "first": self.pair.names[0],
            "second": self.pair.names[1],
            "finding": self.finding,
            "struck": self.struck or None,
            "drivers": [{"cluster": one.cluster, "moves": one.moves} for one in self.drivers],
        }


@dataclass(frozen=True)
class Group:
    """Sides that are compared: runs of one experiment, or tables of one form."""

    name: str
    sides: Sequence[Side]
    numbers: Sequence[Number]
    """Of each sample by itself, with all that leads to them."""
    comparable: Sequence[str]
    """The numbers that can be compared."""
    failed: Mapping[str, str]
    """Name of a sample -> the conditions of its gate that fail."""
    differs: Sequence[tuple[str, Sequence[str]]]
    """(condition or setting, its value on each side)."""
    matrix: Matrix | None
    disagreements: Sequence[str] = ()
    """Of tables whose outcomes differ for the same rows, in a line each."""


@dataclass(frozen=True)
class Comparison:
    """Everything that was compared."""

    groups: Sequence[Group]
    family: Sequence[str]
    """The numbers that were named before reading."""
    named_by: str
    """By what."""
    confirmed: Sequence[Record]
    """Of the family, adjusted by Holm."""
    explored: Sequence[Record]
    """Of all others, adjusted by Benjamini and Hochberg."""
    struck: Sequence[Record]
    """Of what fails its gate, in no family."""
    margins: Mapping[str, float] = field(default_factory=dict)
    """That were given."""

    def __repr__(self) -> str:
        n = [len(one) for one in (self.confirmed, self.explored, self.struck)]
        found = "; ".join(f"{one.pair.metric}: {one.finding}" for one in self.confirmed[:3])
        return f"Comparison({n[0]} confirmed, {n[1]} explored, {n[2]} struck out{f'; {found}' if found else ''})"

    @property
    def failures(self) -> list[tuple[str, str]]:
        """(name of a sample that is struck out, the conditions of its gate that fail)."""
        named = {one.name for record in self.struck for one in (record.pair.one, record.pair.two)}
        found = {name: f"fails {why}" for group in self.groups for name, why in group.failed.items() if name in named}
        return list(found.items())
