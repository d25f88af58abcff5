"""The one thing that a back end does: run a pack and hand back what was read on the way."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from .tree import Pack

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class PackOutput:
    """What running a pack gives at its rows."""

    hidden: "torch.Tensor"
    """[R, d_model] after the final norm: what the unembedding takes."""
    residuals: "torch.Tensor | None" = None
    """[R, n_layers, d_model] residual stream after each block, if it was asked for."""
    tokens_run: int = field(kw_only=True)
    """Tokens that went through the model for it, padding and repeated ones included."""


class Backend(Protocol):
    """Runs packs on one model instance, which is its own."""

    def run(self, pack: Pack, *, capture: bool = False) -> PackOutput:
        """Compute the tokens of `pack`; residuals too, if `capture`."""
        ...
