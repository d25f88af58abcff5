"""What a run captures of the residual stream: sites, layers, positions, as its configuration says."""

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from ..errors import UserError
from ..model.points import Site
from ..prompts.places import Position
from ..settings import Settings


class Every(Settings):
    """Every k-th layer, from layer 0."""

    every: int = Field(ge=1)


class LayerPlan(Settings):
    """Which layers of a model."""

    key: ClassVar[str]
    """Where in a configuration it stands."""
    layers: Literal["all"] | Every | tuple[int | float, ...] = "all"
    """`all`, `{every: k}`, or a list: whole numbers are layers (negative ones from the last), numbers with a point are
    relative depths from 0.0, the first layer, to 1.0, the last. One of them need not be a list."""

    @field_validator("layers", mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        listed = (given,) if isinstance(given, int | float) else given
        if isinstance(listed, list | tuple):
            if listed and all(
                isinstance(one, int | float) and not isinstance(one, bool) and (isinstance(one, int) or 0 <= one <= 1)
                for one in listed
            ):
                return tuple(listed)
        elif listed == "all" or isinstance(listed, dict | Every):
            return listed
        raise ValueError("give `all`, `{every: k}`, layer numbers, or depths from 0.0 to 1.0")

    def layer_numbers(self, n_layers: int) -> tuple[int, ...]:
        """The layers that are meant of a model with so many, ascending.

        Raises UserError for a layer that the model has not.
        """
        if self.layers == "all":
            return tuple(range(n_layers))
        if isinstance(self.layers, Every):
            return tuple(range(0, n_layers, self.layers.every))
        numbers = set()
        for one in self.layers:
            number = int(one * (n_layers - 1) + 0.5) if isinstance(one, float) else one
            if not -n_layers <= number < n_layers:
                raise UserError(f"{self.key}.layers: there is no layer {one}; the model has layers 0 to {n_layers - 1}")
            numbers.add(number % n_layers)
        return tuple(sorted(numbers))


class CapturePlan(LayerPlan):
    """What to capture in the passes that read beliefs."""

    key = "capture"
    sites: tuple[Site, ...] = Field(default=("resid_post",), min_length=1)
    """`resid_pre` and `resid_post`: the residual stream before and after a block."""
    positions: dict[str, Position] | None = None
    """Name -> where. None: what the experiment declares for each question."""
