"""Settings of `steer`: the questions, the direction, and how far along it and along its controls is gone."""

from typing import Annotated

from pydantic import Field, model_validator

from ....base.settings import Settings
from ....hooks.prompts.places import Position
from ...materials.choices.forms import ChoiceForm
from ...materials.choices.tables import AskedSource
from ...run.questions import EVERY_ITEM, RunConfig

Strength = Annotated[float, Field(gt=0, le=1e6)]
Layer = Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0, le=1)]


class SteerDirection(Settings):
    """Where it comes from: a file, or statements."""

    file: str | None = None
    """A .npz, .npy or .safetensors file with an array [d], or [layers, d]; or a probe that was saved."""
    key: str | None = None
    """The name of the array in the file, if it has several."""
    statements: str | None = None
    """A CSV of `statement,label`: the direction is the mean at the end of what is labelled 1, less that of 0."""

    @model_validator(mode="after")
    def _comes_from_one_place(self) -> "SteerDirection":
        if self.file and self.statements:
            raise ValueError("`file` and `statements` are two places; give one of them")
        if self.key and not self.file:
            raise ValueError("`key` is the name of an array in a `file`; give the file, too")
        return self


class SteerControls(Settings):
    """How many other directions of the same length are gone along."""

    random: int = Field(default=5, ge=0, le=1000)
    """Drawn from a sphere."""
    orthogonal: int = Field(default=0, ge=0, le=1000)
    """Drawn likewise, without the part along the direction, which is small where there are many dimensions."""
    shuffled: int = Field(default=5, ge=0, le=1000)
    """Of statements: made in the same way of labels that are exchanged at random; of a file: its entries in another
    order."""


class SteerConfig(RunConfig):
    """Configuration of `steer`; `items` is the most questions that are taken."""

    items: int = Field(default=EVERY_ITEM, ge=1, le=EVERY_ITEM)
    questions: AskedSource = AskedSource()
    system: str = ""
    """The system prompt of questions that bring none."""
    form: ChoiceForm
    """How they are asked."""
    direction: SteerDirection = SteerDirection()
    layers: tuple[Layer, ...] | None = None
    """By number, or by depth from 0.0 to 1.0; None: that of a probe, else the middle."""
    strengths: tuple[Strength, ...] = Field(min_length=1)
    """How many times the direction is added, and subtracted."""
    length: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Of the direction, in mean lengths of the residual stream at its layer; None: as it is, of a probe 0.1, since its
    own length is none of activations."""
    controls: SteerControls = SteerControls()
    at: str | Position = "prompt"
    """The tokens that are edited, as `Steer` takes them."""
    neutral: bool = True
    """Whether each question has a chat beside it that asks nothing of the kind, whose next token under the same edits
    says what else they do."""

    @model_validator(mode="after")
    def _names_each_once(self) -> "SteerConfig":
        for name in ("layers", "strengths"):
            given = getattr(self, name) or ()
            if len({*given}) < len(given):
                raise ValueError(f"{name}: names one twice; take one away")
        if self.model.thinking == "on":
            raise ValueError("model.thinking 'on': edits are read in one pass; set `closed`")
        return self
