"""Where a belief is asked for, whatever asks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...hooks.prompts.chat import Conversation


@dataclass(frozen=True)
class BeliefPlace:
    """What stands before any question for a belief in one of two options."""

    name: str
    """Of its own: with what is asked there it names a read-out."""
    scenario: str
    step: int
    context: Conversation
    """It holds no question for the belief; each way of reading adds its own."""
    options: tuple[str, str]
    """The belief is in the first."""
    variant: Mapping[str, Any] = field(default_factory=dict)
    thought: tuple[int, ...] = ()
    """The tokens of a think block so far, which follow the question."""

    def columns(self, **condition: object) -> dict[str, Any]:
        """The columns of the belief table that say where a row was read, and under which further condition."""
        variant = json.dumps({**self.variant, **condition}, sort_keys=True)
        return {"scenario": self.scenario, "step": self.step, "variant": variant}
