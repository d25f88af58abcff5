"""The transformer blocks of a model, and what leaves them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING

from .errors import UserError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

PLACES = ("layers", "h", "blocks", "decoder.layers", "language_model.layers")
"""Where architectures keep their blocks, below the base model."""


@contextmanager
def tapped(
    model: "PreTrainedModel", pick: "Callable[[torch.Tensor], torch.Tensor] | None"
) -> Iterator[list["torch.Tensor"]]:
    """Collect `pick` of each block's output, in order, while the block is open; None taps nothing.

    The hooks are removed whatever happens.
    """
    taken: list[torch.Tensor] = []

    def take(module: object, args: object, output: "torch.Tensor | tuple[torch.Tensor, ...]") -> None:
        assert pick is not None
        taken.append(pick(output[0] if isinstance(output, tuple) else output))

    handles = [block.register_forward_hook(take) for block in blocks(model)] if pick else []
    try:
        yield taken
    finally:
        for handle in handles:
            handle.remove()


def blocks(model: "PreTrainedModel") -> list["torch.nn.Module"]:
    """The transformer blocks, in order."""
    for place in PLACES:
        try:
            return list(attrgetter(place)(model.base_model))
        except AttributeError:
            continue
    raise UserError(f"{type(model).__name__}: its blocks are under no known name; residuals cannot be read")


def stacked(taken: list["torch.Tensor"], device: "torch.device") -> "torch.Tensor":
    """[R, n_layers, d_model] on one device: under a device map each block's output is where the block is."""
    import torch

    return torch.stack([one.to(device) for one in taken], dim=1)
