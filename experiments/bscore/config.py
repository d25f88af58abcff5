"""Settings of the B-score experiment: questions, forms of asking, conversations, and the confidence that is stated."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, model_validator

from ...hooks.settings import Settings
from ..experiment import MethodName, RunConfig
from ..materials.choices.asking import ChoiceForm
from ..materials.choices.sources import ChoiceSource
from .distributions import Distribution

TURN_FREE = 2
"""Fewest turns: the first has no history."""


class Method(ChoiceForm):
    """A form of asking and of reading the answer."""

    close: str = ""
    """How a past answer ends."""
    conversations: bool = True
    """Whether conversations are held under it, too; if not, it is read in single turns alone."""


class Confidence(Settings):
    """How sure the model says it is, once it has given an answer: of each option, a branch of its own."""

    ask: str
    greedy: bool = True
    """Whether the likeliest number is written and parsed, beside the exact distribution over all of them."""


class BScoreConfig(RunConfig):
    """Configuration of `bscore`. `items` counts questions of each source that does not say otherwise."""

    reads_temperatures: ClassVar[bool] = True

    sources: Mapping[str, ChoiceSource] = Field(min_length=1)
    methods: Mapping[MethodName, Method] = Field(min_length=1)
    runs: int = Field(ge=2, le=10**5)
    """Conversations of each question (R); with fewer than two their variance is not known."""
    turns: int = Field(ge=TURN_FREE, le=10**4)
    """Of each conversation (N)."""
    keep_turns: int | None = Field(default=None, ge=1)
    """Past turns that a turn sees; None: all. A conversation that is too long is refused, not cut."""
    cuts: tuple[int, ...] = ()
    """Numbers of turns (k) after which scores are told, too."""
    queries: int = Field(default=30, ge=2, le=10**6)
    """Answers that are drawn from the exact single-turn distribution, for each conversation: the published estimate."""
    confidence: Confidence | None = None
    distributions: Mapping[str, Distribution] = {}
    per_question: bool = True
    """Whether each question has scores of its own, with intervals over its conversations."""

    @property
    def held(self) -> dict[str, Method]:
        """The methods under which conversations are held."""
        return {name: one for name, one in self.methods.items() if one.conversations}

    @model_validator(mode="after")
    def _hangs_together(self) -> "BScoreConfig":
        if self.model.thinking == "on":
            raise ValueError("model.thinking 'on': answers are read without thoughts; set `closed`")
        if not self.held:
            raise ValueError("methods: none holds conversations; set `conversations: true` for one of them")
        if next(iter(self.methods)) not in self.held:
            raise ValueError("methods: the first holds no conversations; put one that does before it")
        if wrong := [k for k in self.cuts if not TURN_FREE <= k <= self.turns]:
            raise ValueError(f"cuts: {wrong[0]} is none of the turns {TURN_FREE} to {self.turns}")
        if self.sampling.temperature != 1 or not self.sampling.faithful:
            raise ValueError("sampling: past answers are the model's own; `temperatures` rescale what is read")
        return self
