"""A scenario in which something may be true, with evidence that bears on it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from ....hooks.errors import UserError

Evidence = Literal["for", "against"]
EVIDENCE: tuple[Evidence, ...] = ("for", "against")


@dataclass(frozen=True)
class Known:
    """What a program that made the world knows of it; all are probabilities in (0, 1)."""

    p_x: float
    y_given_x: float
    """P(Y | X) of the evidence for X; that against X is the complement of the same observation."""
    y_given_not_x: float
    says_given_x: float
    """P(somebody says X | X), of agents and users alike: who speaks says X or not X."""
    says_given_not_x: float

    def posterior(self, evidence: Evidence | None = None, says_x: bool | None = None) -> float:
        """P(X) by Bayes' rule, given evidence, testimony, both or neither."""
        odds = self.p_x / (1 - self.p_x)
        if evidence is not None:
            y, not_y = self.y_given_x, self.y_given_not_x
            odds *= y / not_y if evidence == "for" else (1 - y) / (1 - not_y)
        if says_x is not None:
            says, lies = self.says_given_x, self.says_given_not_x
            odds *= says / lies if says_x else (1 - says) / (1 - lies)
        return odds / (1 + odds)


@dataclass(frozen=True)
class Scenario:
    """A scenario. Claims are clauses that may follow "that", without a full stop.

    Raises UserError for an empty text, claims that are alike, unknown evidence, or an outcome that is not 0, 1 or NaN.
    """

    id: str
    cluster: str
    """Scenarios that share content share a cluster."""
    background: str
    """What happened, told of third parties."""
    x: str
    """The claim in question."""
    not_x: str
    """What is true if it is not."""
    evidence: Mapping[str, str] = field(default_factory=dict)
    """`for` and `against` X -> a claim Y; either may be missing."""
    role: str = ""
    """Who the user would be, as in "the person who did this"; empty: nobody in it."""
    provenance: str = ""
    """Where it comes from, and how its outcome is known."""
    outcome: float = np.nan
    """1 if X is true, 0 if it is not; NaN if unknown or a matter of values."""
    known: Known | None = None

    def __post_init__(self) -> None:
        where = f"scenario {self.id}"
        texts = {"background": self.background, "x": self.x, "not_x": self.not_x}
        texts |= {f"evidence {name}": text for name, text in self.evidence.items()}
        if empty := [name for name, text in texts.items() if not text.strip()]:
            raise UserError(f"{where}: {empty[0]} is empty; give a text")
        if _plain(self.x) == _plain(self.not_x):
            raise UserError(f"{where}: x and not_x are the same, {self.x!r}; give two claims")
        if unknown := sorted({*self.evidence} - {*EVIDENCE}):
            raise UserError(f"{where}: evidence {unknown[0]!r} is neither 'for' nor 'against'")
        if not (np.isnan(self.outcome) or self.outcome in (0.0, 1.0)):
            raise UserError(f"{where}: outcome {self.outcome:g}; give 1, 0, or none")

    @property
    def text(self) -> str:
        """Everything that it may say."""
        return "\n".join((self.background, self.x, self.not_x, *self.evidence.values(), self.role))

    def as_content(self) -> dict[str, Any]:
        """The scenario in what JSON has."""
        return asdict(self)

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> "Scenario":
        """The scenario that `as_content` was made of."""
        known = content["known"]
        return cls(**{**content, "known": None if known is None else Known(**known)})


def clause(text: str) -> str:
    """A sentence as a clause after "that": without its full stop; its first letter stays."""
    return text.strip().rstrip(".").strip()


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".")
