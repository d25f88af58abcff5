"""What a run captures of the residual stream: sites, layers, positions, as its configuration says."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from ..errors import UserError
from ..model.layers import Layers, layer_numbers
from ..model.points import Site
from ..prompts.places import LAST, PLAIN, Position, Positions, plain_position
from ..settings import Settings, parse


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
