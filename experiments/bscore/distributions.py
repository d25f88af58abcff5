"""Named distributions over whole numbers, of which the model is asked to draw one."""

from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from ...hooks.settings import Settings, check_placeholders
from ..materials.choices.choice import Choice

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
    ask: str = "X takes the whole numbers from {low} to {high}. It follows {law}. Draw one value of X."

    @model_validator(mode="after")
    def _has_its_moments(self) -> "Distribution":
        needed = {"uniform": (False, False), "gaussian": (True, True), "exponential": (True, False)}[self.law]
        if (self.mean is not None, self.sd is not None) != needed:
            told = {"uniform": "neither `mean` nor `sd`", "gaussian": "`mean` and `sd`", "exponential": "`mean` alone"}
            raise ValueError(f"law {self.law!r}: takes {told[self.law]}")
        if self.high <= self.low:
            raise ValueError(f"low {self.low}, high {self.high}: give two numbers or more")
        if self.high - self.low >= MOST_NUMBERS:
            raise ValueError(f"low {self.low}, high {self.high}: give at most {MOST_NUMBERS} numbers")
        if self.law == "exponential" and self.mean is not None and self.mean <= self.low:
            raise ValueError(f"mean {self.mean:g}: that of an exponential lies above low {self.low}")
        check_placeholders("ask", self.ask, ("low", "high", "law"))
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
