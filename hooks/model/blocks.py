"""The parts of a transformers model: its body without the head, its blocks, and what leaves them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import UserError
from .points import Point, Tap

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

PLACES = ("layers", "h", "blocks", "decoder.layers", "language_model.layers")
"""Where architectures keep their blocks, below the body."""
NORMS = (
    "norm",
    "ln_f",
    "norm_f",
    "final_layernorm",
    "final_layer_norm",
    "decoder.final_layer_norm",
    "language_model.norm",
)
"""And the norm after the last of them."""
ATTENTIONS = ("self_attn", "attn", "attention", "self_attention")
"""Where blocks keep their attention,"""
PROJECTIONS = ("o_proj", "c_proj", "out_proj", "dense")
"""it its output projection,"""
MLPS = ("mlp", "feed_forward", "block_sparse_moe")
"""and blocks their MLP."""


class Tapped(NamedTuple):
    """The module at which a point is seen."""

    module: "torch.nn.Module"
    before: bool
    """Whether its input is what is seen, else its output."""


def module_at(model: "PreTrainedModel", point: Point) -> Tapped:
    """Where a point is. Raises UserError for a block that has no such part under a known name."""
    block = blocks(model)[point.layer]
    if point.site in ("resid_pre", "resid_post"):
        return Tapped(block, point.site == "resid_pre")
    if point.site == "mlp_out":
        return Tapped(_part(block, MLPS, point), False)
    attention = _part(block, ATTENTIONS, point)
    return Tapped(_part(attention, PROJECTIONS, point), True) if point.site == "head_out" else Tapped(attention, False)


def head_widths(model: "PreTrainedModel") -> tuple[int, int]:
    """How many heads there are, and the width of all their outputs together."""
    config = model.config.get_text_config()
    heads = int(config.num_attention_heads)
    return heads, heads * int(getattr(config, "head_dim", None) or config.hidden_size // heads)


def _part(module: "torch.nn.Module", names: Sequence[str], point: Point) -> "torch.nn.Module":
    found = next((part for name in names if (part := getattr(module, name, None)) is not None), None)
    if found is None:
        raise UserError(f"{point}: {type(module).__name__} has none of {', '.join(names)}; choose another site")
    return found


@contextmanager
def tapped(model: "PreTrainedModel", taps: Mapping[Point, Tap]) -> Iterator[None]:
    """Let taps see what is at their points while the block is open. The hooks are removed whatever happens."""
    handles = []
    try:
        for point, tap in taps.items():
            module, before = module_at(model, point)
            if before:
                handles.append(module.register_forward_pre_hook(_before(tap), with_kwargs=True))
            else:
                handles.append(module.register_forward_hook(_after(tap)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _before(tap: Tap) -> Callable[..., Any]:
    """A hook on a module's input, which some architectures hand over by name."""

    def hook(module: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        changed = tap(args[0] if args else kwargs["hidden_states"])
        if changed is None:
            return None
        return ((changed, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": changed})

    return hook


def _after(tap: Tap) -> Callable[..., Any]:
    """A hook on a module's output, which attention and older architectures hand over in a tuple."""

    def hook(module: object, args: object, output: Any) -> Any:
        inside = isinstance(output, tuple)
        changed = tap(output[0] if inside else output)
        return (changed, *output[1:]) if inside and changed is not None else changed

    return hook


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


def final_norm(model: "PreTrainedModel") -> "torch.nn.Module":
    """What stands between the last block and the head."""
    for place in NORMS:
        try:
            return attrgetter(place)(body(model))
        except AttributeError:
            continue
    raise UserError(f"{type(model).__name__}: its final norm is under no known name; inner layers cannot be read")
