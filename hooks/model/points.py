"""Places of the residual stream, and what can be done there in a forward pass."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import torch

Site = Literal["resid_pre", "resid_post"]
"""Before and after a block."""


class Point(NamedTuple):
    """A site of a layer. The order of points is `forward_order`, not that of tuples."""

    layer: int
    """From 0."""
    site: Site

    def __str__(self) -> str:
        return f"{self.site} of layer {self.layer}"


Tap = Callable[["torch.Tensor"], "torch.Tensor | None"]
"""Is given the residual stream at a point, [B, T, d_model], and returns what goes on in its place; None: the same."""


def forward_order(point: Point) -> tuple[int, bool]:
    """The key by which points are sorted as a forward pass comes by."""
    return point.layer, point.site == "resid_post"
