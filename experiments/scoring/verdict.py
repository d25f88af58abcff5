"""Whether a method measures a belief at all: the competence gate, condition by condition (METRICS W4)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...metrics import NOT_A_BELIEF, RARE, BeliefGate, Condition
from ..tables.samples import ALL
from .number import Number

GATE = "gate"
"""The metric under which a gate stands among the numbers."""


@dataclass(frozen=True)
class Verdict:
    """The gate of one method."""

    method: str
    conditions: Sequence[Condition]
    """All that were judged. They all have to hold."""
    kind: str = "exact"
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
        """What failed: seen, and asked for."""
        return "; ".join(f"{one.label} {seen(one)}, asked: {one.asked}" for one in self.failures)

    @property
    def line(self) -> str:
        """The verdict in a line."""
        if self.passed:
            return f"{self.method} passes its {len(self.conditions)} conditions"
        called = f"{NOT_A_BELIEF}, a {RARE}" if self.rare else NOT_A_BELIEF
        return f"{self.method}: {called}: {self.reason}"


def verdicts(numbers: Sequence[Number]) -> list[Verdict]:
    """The gates among numbers."""
    return [
        Verdict(number.method, list(number.score.conditions.values()), number.kind, bool(number.score.rare))
        for number in numbers
        if number.metric == GATE and number.subset == ALL and isinstance(number.score, BeliefGate)
    ]


def stored_verdicts(rows: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    """The same from the rows of `scores.json`, where NaN is null."""
    return [
        Verdict(row["method"], conditions, row["kind"], bool(row["details"]["rare"]))
        for row in rows
        if row["metric"] == GATE and row["subset"] == ALL
        for conditions in [[_stored(one) for one in row["details"]["conditions"].values()]]
    ]


def seen(condition: Condition) -> str:
    """What was seen, with its interval."""
    if math.isnan(condition.value):
        return "undefined"
    interval = "" if math.isnan(condition.ci_lo) else f" [{condition.ci_lo:.3f}, {condition.ci_hi:.3f}]"
    return f"{condition.value:.3f}{interval}"


def _stored(row: Mapping[str, Any]) -> Condition:
    known: dict[str, Any] = {name: math.nan if value is None else value for name, value in row.items()}
    return Condition(**known)
