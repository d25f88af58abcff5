"""The parts of a transformers model: its body without the head, its blocks, and what leaves them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING

from .errors import UserError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

PLACES = ("layers", "h", "blocks", "decoder.layers", "language_model.layers")
"""Where architectures keep their blocks, below the body."""


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


def body(model: "PreTrainedModel") -> "torch.nn.Module":
    """The model without its head. Llama 4 misnames its own, so that its `base_model` is the whole."""
    base = model.base_model
    return base if base is not model else model.model  # pyright: ignore[reportReturnType]


def input_device(model: "PreTrainedModel") -> "torch.device":
    """Where token ids go: under a device map a model is in many places, and begins at its embedding."""
    return model.get_input_embeddings().weight.device  # pyright: ignore[reportReturnType]


def blocks(model: "PreTrainedModel") -> list["torch.nn.Module"]:
    """The transformer blocks, in order."""
    for place in PLACES:
        try:
            return list(attrgetter(place)(body(model)))
        except AttributeError:
            continue
    raise UserError(f"{type(model).__name__}: its blocks are under no known name; residuals cannot be read")


def stacked(taken: list["torch.Tensor"], device: "torch.device") -> "torch.Tensor":
    """[R, n_layers, d_model] on one device: under a device map each block's output is where the block is."""
    import torch

    return torch.stack([one.to(device) for one in taken], dim=1)
