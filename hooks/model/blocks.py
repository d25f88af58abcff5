"""The parts of a transformers model: its body without the head, its blocks, the points in them that passes see and
change, and its layers by number or depth.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args

from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from ...base.errors import UserError
from ...base.settings import Settings

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel


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


PLACES = ("layers", "h", "blocks", "decoder.layers", "language_model.layers")
"""Where architectures keep their blocks, below the body."""
NORMS = ("norm", "ln_f", "norm_f", "final_layernorm", "final_layer_norm")
NORMS += ("decoder.final_layer_norm", "language_model.norm")
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


class Heads(NamedTuple):
    """Of the attention of a layer, as the configuration says."""

    queries: int
    keys: int
    """Of keys and values."""
    width: int
    """Of each."""


def attention_heads(config: "PretrainedConfig") -> list[Heads]:
    """Of each layer, since some have others; what has no attention is one head as wide as the residual stream."""
    config = config.get_text_config()
    differ = getattr(config, "is_heterogeneous", False)
    layers = config.per_layer_config if differ else [config] * config.num_hidden_layers
    heads = []
    for layer in layers:
        n = getattr(layer, "num_attention_heads", None) or 1
        keys, width = getattr(layer, "num_key_value_heads", None), getattr(layer, "head_dim", None)
        heads.append(Heads(n, keys or n, int(width or layer.hidden_size // n)))
    return heads


def head_widths(model: "PreTrainedModel") -> tuple[int, int]:
    """How many heads there are, and the width of all their outputs together. Raises UserError where layers differ."""
    wide = {(heads.queries, heads.queries * heads.width) for heads in attention_heads(model.config)}
    if len(wide) > 1:
        raise UserError(f"head_out: layers have heads of several widths ({sorted(wide)}); choose another site")
    return wide.pop()


def _part(module: "torch.nn.Module", names: Sequence[str], point: Point) -> "torch.nn.Module":
    submodule = next((part for name in names if (part := getattr(module, name, None)) is not None), None)
    if submodule is None:
        raise UserError(f"{point}: {type(module).__name__} has none of {', '.join(names)}; choose another site")
    return submodule


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
    return model.get_input_embeddings().weight.device  # type: ignore


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


# Layers of a model by number, by step or by relative depth.


class Every(Settings):
    """Every k-th layer, from layer 0."""

    every: int = Field(ge=1)


def _known(given: Any) -> Any:
    plain = _plain(given)
    listed = (plain,) if isinstance(plain, int | float) else list(plain) if isinstance(plain, range) else plain
    if isinstance(listed, list | tuple):
        listed = [_plain(layer) for layer in listed]
        if listed and all(type(layer) is int or (isinstance(layer, float) and 0 <= layer <= 1) for layer in listed):
            return tuple(listed)
    elif listed == "all" or isinstance(listed, dict | Every):
        return listed
    raise ValueError("give `all`, `{every: k}`, layer numbers, or depths from 0.0 to 1.0")


def _plain(given: Any) -> Any:
    """Of arrays and their numbers what they hold."""
    return given.tolist() if hasattr(given, "tolist") else given


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
    for layer in layers:
        number = int(layer * (n_layers - 1) + 0.5) if isinstance(layer, float) else layer
        if not -n_layers <= number < n_layers:
            raise UserError(f"{key}: there is no layer {layer}; the model has layers 0 to {n_layers - 1}")
        numbers.add(number % n_layers)
    return tuple(sorted(numbers))


# Numbers on their way to a device.


def upload(numbers: NDArray[Any], device: "torch.device") -> "torch.Tensor":
    """A tensor of these numbers on a device. A GPU takes them when it comes to them: an ordinary copy would first wait
    for all that it was given to do, and what the host could do meanwhile would come after it.
    """
    import torch

    host = torch.from_numpy(numbers)
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host.to(device)


def download(values: "torch.Tensor") -> "Callable[[], torch.Tensor]":
    """Begin to copy to the CPU; what is returned waits for the copy. A GPU makes it beside its own work, in a stream
    that has waited for what was asked until now: nothing which it is given meanwhile is waited for.
    """
    import torch

    if values.device.type != "cuda":
        return values.cpu
    if values.nbytes > PINNED:
        there = values.cpu()
        return lambda: there
    device = values.device
    room = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    beside = _STREAMS[device] if device in _STREAMS else _STREAMS.setdefault(device, torch.cuda.Stream(device))
    beside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(beside):
        room.copy_(values, non_blocking=True)
    values.record_stream(beside)  # else its memory might be given away before it is copied
    copied = beside.record_event()

    def wait() -> torch.Tensor:
        copied.synchronize()
        return room

    return wait


PINNED = 2**28
"""Bytes of a copy, above which it is waited for at once: pinned memory is never given back."""
_STREAMS: "dict[torch.device, torch.cuda.Stream]" = {}
"""Of each GPU the stream of its copies."""
