"""What a run captures of the residual stream: sites, layers, positions, as its configuration says."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ..errors import UserError
from ..model.points import Site
from ..prompts.places import LAST, PLAIN, Position, Positions, plain_position
from ..settings import Settings, parse


class Every(Settings):
    """Every k-th layer, from layer 0."""

    every: int = Field(ge=1)


def _known(given: Any) -> Any:
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


Layers = Annotated[Literal["all"] | Every | tuple[int | float, ...], BeforeValidator(_known)]
"""`all`, `{every: k}`, or a list: whole numbers are layers (negative ones from the last), numbers with a point are
relative depths from 0.0, the first layer, to 1.0, the last. One of them need not be a list."""


def layer_numbers(layers: Layers, n_layers: int, key: str) -> tuple[int, ...]:
    """The layers that are meant of a model with so many, ascending.

    Raises UserError, naming the setting `key`, for a layer that the model has not.

    >>> layer_numbers((0.0, 0.5, -1), n_layers=9, key="layers")
    (0, 4, 8)
    >>> layer_numbers(Every(every=4), n_layers=9, key="layers")
    (0, 4, 8)
    """
    if layers == "all":
        return tuple(range(n_layers))
    if isinstance(layers, Every):
        return tuple(range(0, n_layers, layers.every))
    numbers = set()
    for one in layers:
        number = int(one * (n_layers - 1) + 0.5) if isinstance(one, float) else one
        if not -n_layers <= number < n_layers:
            raise UserError(f"{key}: there is no layer {one}; the model has layers 0 to {n_layers - 1}")
        numbers.add(number % n_layers)
    return tuple(sorted(numbers))


class CapturePlan(Settings):
    """What to capture in the passes that read beliefs.

    >>> CapturePlan(layers=(0.5, -1)).layer_numbers(n_layers=31)
    (15, 30)
    """

    sites: tuple[Site, ...] = Field(default=("resid_post",), min_length=1)
    """`resid_pre`, `resid_post`: the residual stream before and after a block; `attn_out`, `mlp_out`: what its parts
    give; `head_out`: the outputs of its heads, side by side."""
    layers: Layers = "all"
    positions: dict[str, Position] | None = None
    """Name -> where. None: what the experiment declares for each question."""

    def layer_numbers(self, n_layers: int) -> tuple[int, ...]:
        """See `layer_numbers`."""
        return layer_numbers(self.layers, n_layers, "capture.layers")

    def places(self) -> Positions:
        """Its positions; the prompt's last token where it names none."""
        return {"last": LAST} if self.positions is None else self.positions


Capturing = CapturePlan | Mapping[str, Any] | str
"""A plan; its settings as a mapping; `last`, `before_answer` or `prompt` (each token): there, after each block."""


def as_plan(capture: Capturing | None) -> CapturePlan | None:
    """The plan that is meant. Raises UserError for what means none.

    >>> as_plan("prompt").positions
    {'prompt': Position(at='each', message=None, text=None, occurrence=None)}
    """
    if capture is None or isinstance(capture, CapturePlan):
        return capture
    if isinstance(capture, Mapping):
        return parse(CapturePlan, dict(capture), "capture")
    if not isinstance(capture, str) or (position := plain_position(capture)) is None:
        raise UserError(f"capture {capture!r}: give {', '.join(map(repr, PLAIN))}, or a CapturePlan")
    return CapturePlan(positions={capture: position})
