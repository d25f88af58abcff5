"""What a world can be asked, and a context of it: some of its variables revealed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ....metrics.validation import Floats
from .description import Description

Evidence = Mapping[str, str]


class World(Protocol):
    """Figures and words."""

    @property
    def description(self) -> Description:
        """In words."""
        ...

    def draw(self, rng: np.random.Generator) -> dict[str, str]:
        """States of the variables that may be revealed, as they happen; what is unknown is left out."""
        ...

    def chance(self, evidence: Evidence) -> float:
        """P*(target | evidence). NaN where it is not known well enough."""
        ...

    def shares(self, variable: str, evidence: Evidence) -> Floats:
        """[states] P*(variable | evidence), in the order of the description."""
        ...


@dataclass(frozen=True)
class Auxiliary:
    """A variable that is not revealed, and what would be if it were."""

    variable: str
    noun: str
    labels: Sequence[str]
    situations: Sequence[str]
    """That of the context with each state revealed as well."""
    shares: Sequence[float | None]
    """[m] P*(state | context)."""
    chances: Sequence[float | None]
    """[m] P*(target | context, state); None where it is unknown."""


@dataclass(frozen=True)
class Context:
    """A situation, what is asked about it, and the truth."""

    name: str
    evidence: Evidence
    situation: str
    nothing: str
    """The situation before any evidence."""
    event: str
    ask: str
    chance: str
    """The question for the probability."""
    p_star: float
    prior: float | None
    """P*(target) before any evidence."""
    auxiliary: Auxiliary | None = None
