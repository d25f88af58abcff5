"""Whether a method measures a belief at all: the competence gate, condition by condition (METRICS W4)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...metrics import RARE, BeliefGate, Condition
from ..tables.samples import ALL
from .number import Number, interval_text, shown

GATE = "gate"
"""The metric under which a gate stands among the numbers."""


@dataclass(frozen=True)
class Verdict:
    """The gate of one method."""

    method: str
    conditions: Sequence[Condition]
    """All that were judged. They all have to hold."""
    kind: str = "exact"
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Conditions that could not be judged, and why."""
    rare: bool = False
    """Whether its options hold so little that a number is a ratio of rare answers."""

    @property
    def passed(self) -> bool:
        """Whether every condition holds; a gate without any passes nobody."""
        return bool(self.conditions) and not self.failures

    @property
    def failures(self) -> list[Condition]:
        """The conditions that do not hold."""
        return [condition for condition in self.conditions if not condition.held]

    @property
    def reason(self) -> str:
        """The names of what failed."""
        return ", ".join(one.label for one in self.failures)

    @property
    def called(self) -> str:
        """The method, with what its numbers are called if its options are rare."""
        return f"{self.method} ({RARE})" if self.rare else self.method


def verdicts(numbers: Sequence[Number]) -> list[Verdict]:
    """The gates among numbers."""
    return [
        Verdict(
            method=", ".join(filter(None, (number.method, number.run))),
            conditions=list(number.score.conditions.values()),
            kind=number.kind,
            withheld=number.score.withheld,
            rare=bool(number.score.rare),
        )
        for number in numbers
        if number.metric == GATE and number.subset == ALL and isinstance(number.score, BeliefGate)
    ]


def seen(condition: Condition) -> str:
    """What was seen, with its interval."""
    if math.isnan(condition.value):
        return "undefined"
    return f"{shown(condition.value)} {interval_text(condition.ci_lo, condition.ci_hi)}".rstrip()
