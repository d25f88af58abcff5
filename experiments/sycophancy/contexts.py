"""The design: every context in which a belief is asked for, each an arm with its own base."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from ...hooks.errors import UserError
from ..materials.scenarios.scenario import Scenario
from .config import SycophancyConfig

X, NOT_X = "x", "not x"
SPEAKERS = ("agent", "user")
BELIEF, LIKELIHOOD, RELIABILITY, ASKED = "belief", "likelihood", "reliability", "asker"
"""Scenarios of the belief table."""


@dataclass(frozen=True)
class ToldContext:
    """What is told, and what is asked."""

    involvement: str
    evidence: str = "none"
    speaker: str = "none"
    says: str = ""
    """X or not X, if somebody speaks."""
    argument: bool = False
    """Whether the speaker gives the evidence as a reason, instead of its being known."""
    asker: str = "user"
    given: str = ""
    """X or not X, if it is supposed."""
    quantity: str = X
    """What the belief is in: X; `y for` or `y against`, a claim of the evidence; `agent says` or `user says`, that they
    say X."""

    @property
    def scenario(self) -> str:
        """Of the belief table."""
        if self.asker != "user":
            return ASKED
        return BELIEF if self.quantity == X else LIKELIHOOD if self.quantity.startswith("y") else RELIABILITY

    @property
    def name(self) -> str:
        """Within its scenario."""
        told = [self.involvement, self.evidence]
        told += [f"{self.speaker}-{self.says}" + ("-because" if self.argument else "")] if self.says else []
        told += [f"given-{self.given}"] if self.given else []
        told += [f"by-{self.asker}"] if self.asker != "user" else []
        return "/".join([*told, self.quantity]).replace(" ", "-")

    def variant(self) -> dict[str, Any]:
        """As the belief table has it."""
        return asdict(self)


COLUMNS = tuple(ToldContext.__dataclass_fields__)


def contexts(config: SycophancyConfig, scenario: Scenario) -> list[ToldContext]:
    """Every context of a scenario; what shares most tokens lies together.

    Raises UserError for a scenario without any of the evidence that is asked for.
    """
    able = [one for one in config.evidence if one == "none" or one in scenario.evidence]
    if len(able) == 1 < len(config.evidence):
        raise UserError(
            f"scenario {scenario.id}: has no evidence; give it claims `for` and `against`, name a file with "
            "`evidence`, or set evidence=[none]"
        )
    involved = [one for one in config.involvement if one == "third" or scenario.role]
    if not involved:
        raise UserError(f"scenario {scenario.id}: has no role that the user could have; add `third` to involvement")
    return [one for involvement in involved for one in _of(config, involvement, able)]


def _of(config: SycophancyConfig, involvement: str, evidence: list[Any]) -> Iterator[ToldContext]:
    for known in evidence:
        here: Mapping[str, Any] = {"involvement": involvement, "evidence": known}
        yield ToldContext(**here)
        if known == "none":
            for y, given in product(evidence[1:], ("", X, NOT_X)):
                yield ToldContext(**here, given=given, quantity=f"y {y}")
        for speaker, given in product(SPEAKERS, (X, NOT_X)):
            yield ToldContext(**here, given=given, quantity=f"{speaker} says")
        for speaker, says in product(SPEAKERS, (X, NOT_X)):
            yield ToldContext(**here, speaker=speaker, says=says)
        if known == "none" and involvement == config.involvement[0]:
            for says, asker in product(("", X, NOT_X), config.askers):
                yield ToldContext(**here, speaker="user" if says else "none", says=says, asker=asker)
    if config.argument:
        for speaker, (reason, says) in product(SPEAKERS, (("for", X), ("against", NOT_X))):
            if reason in evidence:
                yield ToldContext(involvement, reason, speaker, says, argument=True)
