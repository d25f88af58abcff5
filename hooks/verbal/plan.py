"""Settings of stated beliefs: the formats in which numbers are read or written, and the judges that give theirs."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator, model_validator

from ..model.spec import ModelSpec, resolve_model
from ..settings import Settings, check_placeholders
from .formats import FORMATS


class Judge(Settings):
    """A second model that reads the steps as an observer and gives a number."""

    model: ModelSpec
    """A name is looked up; if it is left out, the judge's own is."""
    sees: Literal["prefix", "whole"] = "prefix"
    """`whole`: the later steps too, as published. Then its prior knows the posterior (METRICS A5)."""
    prompt: str = (
        "You observe somebody who thinks about a question, and form your own belief.\n\n{question}\n\n"
        "What has been said so far:\n\n{steps}\n\nState your belief as it is after part {step}."
    )
    """`{question}`, `{steps}` so far, or all of them numbered; `{step}` is the number of the last that counts."""

    @field_validator("model", mode="before")
    @classmethod
    def _by_name(cls, model: object) -> object:
        return resolve_model(model).model_dump() if isinstance(model, str) else model

    @model_validator(mode="after")
    def _placeholders(self) -> "Judge":
        check_placeholders("prompt", self.prompt, ("question", "steps", "step"))
        return self


class StatedPlan(Settings):
    """Which stated beliefs are read beside the exact ones, at every place."""

    numbers: tuple[str, ...] = ()
    """Formats whose exact number distribution is read."""
    greedy: tuple[str, ...] = ()
    """Formats in which the likeliest answer is written and parsed."""
    sampled: tuple[str, ...] = ()
    """Formats in which answers are sampled by `sampling`, in two halves."""
    draws: int = Field(default=4, ge=2, multiple_of=2)
    """Sampled answers to each question."""
    judges: Mapping[str, Judge] = {}
    """By name, which is that of the model where none is given."""

    @field_validator("numbers", "greedy", "sampled")
    @classmethod
    def _formats_are_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in FORMATS:
                raise ValueError(f"format {name!r} is not one of {', '.join(FORMATS)}")
        return names

    @field_validator("judges", mode="before")
    @classmethod
    def _judges_are_models(cls, judges: object) -> object:
        if not isinstance(judges, Mapping):
            return judges
        return {
            name: {"model": name, **judge} if isinstance(name, str) and isinstance(judge, Mapping) else judge
            for name, judge in judges.items()
        }

    @property
    def formats(self) -> tuple[str, ...]:
        """Every format that is asked for, once."""
        return tuple(dict.fromkeys((*self.numbers, *self.greedy, *self.sampled)))
