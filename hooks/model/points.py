"""Places of a model's blocks, and what can be done there in a forward pass."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    import torch

Site = Literal["resid_pre", "head_out", "attn_out", "mlp_out", "resid_post"]
"""In the order of a pass: the residual stream before a block; the outputs of its heads, side by side, before the output
projection; what its attention and its MLP give, before any norm that comes after them; the residual stream after it."""
SITES: tuple[Site, ...] = get_args(Site)


class Point(NamedTuple):
    """A site of a layer. The order of points is `forward_order`, not that of tuples."""

    layer: int
    """From 0."""
    site: Site

    def __str__(self) -> str:
        return f"{self.site} of layer {self.layer}"


Tap = Callable[["torch.Tensor"], "torch.Tensor | None"]
"""Is given what is at a point, [B, T, width], and returns what goes on in its place; None: the same. The width is that
of the residual stream, but of `head_out` that of all heads."""


def forward_order(point: Point) -> tuple[int, int]:
    """The key by which points are sorted as a forward pass comes by."""
    return point.layer, SITES.index(point.site)
