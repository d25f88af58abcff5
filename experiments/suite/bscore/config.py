"""Settings of the B-score experiment: questions, forms of asking, conversations, named distributions to draw from,
and the confidence that is stated.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from ....base.settings import Settings, placeholders
from ....hooks.generation.sampling import Sampling
from ...materials.choices.forms import ChoiceForm
from ...materials.choices.sources import Choice, ChoiceSource
from ...run.questions import MethodName, RunConfig

CATEGORY = "distribution"
MOST_NUMBERS = 1000
"""Each is an option, which is read under every order."""


class Distribution(Settings):
    """A distribution over the whole numbers from `low` to `high`; its density there is normalised to one."""

    law: Literal["uniform", "gaussian", "exponential"]
    low: int = 0
    high: int = 9
    mean: float | None = None
    """Of `gaussian`, and of an `exponential` that is not cut."""
    sd: float | None = Field(default=None, gt=0)
    """Of `gaussian`."""
    ask: Annotated[str, placeholders("low", "high", "law")] = (
        "X takes the whole numbers from {low} to {high}. It follows {law}. Draw one value of X."
    )

    @model_validator(mode="after")
    def _has_its_moments(self) -> "Distribution":
        needed = {"uniform": (False, False), "gaussian": (True, True), "exponential": (True, False)}[self.law]
        if (self.mean is not None, self.sd is not None) != needed:
            takes = {"uniform": "neither `mean` nor `sd`", "gaussian": "`mean` and `sd`", "exponential": "`mean` alone"}
            raise ValueError(f"law {self.law!r}: takes {takes[self.law]}")
        if self.high <= self.low:
            raise ValueError(f"low {self.low}, high {self.high}: give two numbers or more")
        if self.high - self.low >= MOST_NUMBERS:
            raise ValueError(f"low {self.low}, high {self.high}: give at most {MOST_NUMBERS} numbers")
        if self.law == "exponential" and self.mean is not None and self.mean <= self.low:
            raise ValueError(f"mean {self.mean:g}: that of an exponential lies above low {self.low}")
        return self

    @property
    def words(self) -> str:
        """As the question names it."""
        match self.law:
            case "gaussian":
                return f"a Gaussian distribution with mean {self.mean:g} and standard deviation {self.sd:g}"
            case "exponential":
                return f"an exponential distribution with mean {self.mean:g}"
            case _:
                return "a uniform distribution"

    @property
    def probabilities(self) -> tuple[float, ...]:
        """Of each number."""
        x = np.arange(self.low, self.high + 1, dtype=np.float64)
        weights = np.ones(len(x))
        if self.law == "gaussian":
            assert self.mean is not None
            assert self.sd is not None
            weights = np.exp(-(((x - self.mean) / self.sd) ** 2) / 2)
        elif self.law == "exponential":
            assert self.mean is not None
            weights = np.exp(-(x - self.low) / (self.mean - self.low))
        return tuple((weights / weights.sum()).tolist())

    def choice(self, name: str) -> Choice:
        """The question, called by a name."""
        return Choice(
            id=f"{CATEGORY}-{name}",
            cluster=f"{CATEGORY}-{name}",
            category=CATEGORY,
            text=self.ask.format(low=self.low, high=self.high, law=self.words),
            options=tuple(str(x) for x in range(self.low, self.high + 1)),
            provenance="a named distribution",
            listed=False,
            target=self.probabilities,
        )


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


class Controls(Settings):
    """Histories of equal length that a B needs no self-assessment to survive: after each turn's question stands another
    question with answers drawn evenly; or the answers that a question of the same options got; or the last answer as it
    was, and before it every option equally often.
    """

    question: str
    """Asked again and again in the first of them."""
    options: tuple[str, ...] = Field(min_length=2)
    """Of that question."""


class Written(Sampling):
    """The published way: answers are written at these settings of sampling, and parsed; those in conversations, too."""

    open: str = "{{"
    close: str = "}}"
    """The marks between which an answer stands; both empty: the whole text is the answer."""
    lists: int = Field(default=0, ge=0, le=10**4)
    """Lists of numbers that are written of each named distribution."""
    list_numbers: int = Field(default=100, ge=1, le=10**4)
    """Numbers that a list is asked for."""
    list_tokens: int = Field(default=400, ge=1)
    """Most tokens of a list."""
    list_ask: Annotated[str, placeholders("question", "n")] = (
        "{question} Do so {n} times, and reply with the list of the {n} numbers."
    )
    """What is asked; `{question}` is that of one draw."""

    @model_validator(mode="after")
    def _has_both_marks(self) -> "Written":
        if bool(self.open) != bool(self.close):
            raise ValueError("give both marks, `open` and `close`, or neither")
        return self


class BScoreConfig(RunConfig):
    """Configuration of `bscore`. `items` counts questions of each source that does not say otherwise."""

    reads_temperatures: ClassVar[bool] = True
    reads_stated: ClassVar[bool] = True

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
    written: Written | None = None
    """Answers that are written out and parsed, as published, beside the exact ones. None: there are none."""
    confidence: Confidence | None = None
    distributions: Mapping[str, Distribution] = {}
    controls: Controls | None = None
    """None: B stands without the histories that could make it without being heard."""
    per_question: bool = True
    """Whether each question has scores of its own, with intervals over its conversations."""

    @property
    def held(self) -> dict[str, Method]:
        """The methods under which conversations are held."""
        return {name: method for name, method in self.methods.items() if method.conversations}

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
            raise ValueError(
                "sampling: past answers are the model's own; `temperatures` rescale what is read, and answers are "
                "written out at `written.temperature`"
            )
        return self
