"""The back ends by name (transformers, TransformerLens, nnsight), and how each gets a model instance of its own."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from copy import deepcopy
from importlib import import_module
from importlib.metadata import version
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from ...base.errors import UserError
from ..model.blocks import Point, Site, Tap, body, module_at, tapped
from ..model.fused import Fused
from ..model.loading import load_model
from ..model.spec import IN_MEMORY, ModelSpec
from ..tree.attention import attends_by_blocks, use_tree_attention
from ..tree.layouts import Layout, Packed
from .backend import Backend

if TYPE_CHECKING:
    import torch
    from nnsight import NNsight
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class TransformersBackend(Backend):
    """Forward passes through a transformers model, its blocks `fused` if so given."""

    def __init__(
        self,
        model: "PreTrainedModel",
        layout: Callable[["PreTrainedModel"], Layout] = Packed,
        fused: Fused | None = None,
    ) -> None:
        super().__init__(model, layout)
        self.fused = fused

    def forward(self, inputs: Mapping[str, Any], taps: Mapping[Point, Tap]) -> "torch.Tensor":
        """See `Backend.forward`."""
        with tapped(self.model, taps), self.fused.passes() if self.fused else nullcontext():
            return body(self.model)(**{"use_cache": False, **inputs}).last_hidden_state


def kernel_of(backend: Backend) -> str:
    """The attention kernel of a back end, and whether its blocks are fused."""
    fused = isinstance(backend, TransformersBackend) and backend.fused and backend.fused.parts
    return f"{backend.model.config._attn_implementation}{', fused blocks' if fused else ''}"


MakeBackend = Callable[[Callable[["PreTrainedModel"], Layout]], Backend]
"""From a layout to a back end that uses it, on one and the same model instance."""


def require_library(spec: ModelSpec) -> str:
    """The version of the library that a model is to be read with.

    Raises UserError if it is not installed.
    """
    try:
        import_module(spec.backend)
    except ImportError as error:
        package = spec.backend.replace("_", "-")
        raise UserError(f'back end {spec.backend}: {error}; pip install "doxascope[{package}]"') from error
    return version(spec.backend)


def make_backend(spec: ModelSpec, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> MakeBackend:
    """How the model's back end is made. All but plain transformers hold the weights a second time.

    A library that takes models over or rewires them would make the plain reference path its own: then nothing would
    check it.

    Raises UserError if the library cannot serve the model.
    """
    if spec.backend == "transformers":
        on_one_gpu = {parameter.device.type for parameter in model.parameters()} == {"cuda"} and not spec.device_map
        use_tree_attention(model, blocks=spec.kernel == "flex" or (spec.kernel == "auto" and on_one_gpu))
        fused = Fused(model) if on_one_gpu and attends_by_blocks(model) else None
        return lambda layout: TransformersBackend(model, layout, fused)
    try:
        # Adapters are merged: what one attaches to a layer a library may not know.
        merged = spec.model_copy(update={"adapted": "merged"})
        second = deepcopy(model) if spec.path == IN_MEMORY else load_model(merged)
        if spec.backend == "transformer_lens":
            bridged = bridge(second, tokenizer)
            return lambda layout: TransformerLensBackend(bridged, layout)

        traced = wrap(second)
        return lambda layout: NnsightBackend(traced, layout)
    except UserError:
        raise
    except Exception as error:  # what a library does not know breaks in any way
        reason = shorten(str(error) or type(error).__name__, 120, placeholder=" ...")
        name = type(model).__name__
        raise UserError(f"{spec.backend} cannot serve {name} ({reason}); try `--backend transformers`") from error


# TransformerLens: the same passes through a TransformerBridge, tapped at its own hook points.
#
# It reads token ids alone, since the bridge puts a BOS before strings, and weights as they are: compatibility mode
# would rewrite them. The bridge computes attention eagerly.


HOOKS: Mapping[Site, str] = {
    "resid_pre": "hook_resid_pre",
    "head_out": "attn.o.hook_in",
    "attn_out": "attn.hook_out",
    "mlp_out": "mlp.hook_out",
    "resid_post": "hook_resid_post",
}
"""Its names below a block. Its `hook_attn_out` comes after the norm that some architectures have there."""


class TransformerLensBackend(Backend):
    """Forward passes through a bridge."""

    def __init__(self, bridge: "TransformerBridge", layout: Callable[["PreTrainedModel"], Layout] = Packed) -> None:
        super().__init__(bridge.original_model, layout)  # type: ignore
        self.bridge = bridge

    def forward(self, inputs: Mapping[str, Any], taps: Mapping[Point, Tap]) -> "torch.Tensor":
        """See `Backend.forward`. The pass ends before the head, as the bridge ends one at a layer."""
        from transformer_lens.model_bridge.exceptions import StopAtLayerException

        def stop(module: object, args: object, output: Any) -> None:
            raise StopAtLayerException(output.last_hidden_state)

        hooks: list[Any] = [(f"blocks.{point.layer}.{HOOKS[point.site]}", _hook(tap)) for point, tap in taps.items()]
        others: dict[str, Any] = {"use_cache": False, **inputs}
        ids = others.pop("input_ids")
        end = body(self.model).register_forward_hook(stop)
        try:
            return self.bridge.run_with_hooks(ids, fwd_hooks=hooks, **others)
        finally:
            end.remove()


def bridge(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> "TransformerBridge":
    """A bridge that takes the model over. The tokenizer is copied: the bridge changes its settings."""
    from transformer_lens.model_bridge import TransformerBridge

    return TransformerBridge.boot_transformers(
        model.name_or_path, hf_model=model, tokenizer=deepcopy(tokenizer), dtype=model.dtype, device=model.device
    )


def _hook(tap: Tap) -> "Callable[..., torch.Tensor | None]":
    """A hook of the bridge, which may hand over heads along an axis of their own."""

    def hook(seen: "torch.Tensor", hook: object) -> "torch.Tensor | None":
        changed = tap(seen.flatten(2))
        return None if changed is None else changed.view_as(seen)

    return hook


# nnsight: the same passes traced, the residual stream read and set where the trace comes by it.
#
# The model is wrapped bare. nnsight's wrapper for transformers models turns text into batches, which is not wanted
# here, and changes the tokenizer to do so.


class NnsightBackend(Backend):
    """Forward passes traced by nnsight."""

    def __init__(self, traced: "NNsight", layout: Callable[["PreTrainedModel"], Layout] = Packed) -> None:
        model: PreTrainedModel = traced._module  # type: ignore
        super().__init__(model, layout)
        self.traced = traced
        self._names = {module: name for name, module in model.named_modules()}
        self._body = traced.get(self._names[body(model)])

    def forward(self, inputs: Mapping[str, Any], taps: Mapping[Point, Tap]) -> "torch.Tensor":
        """See `Backend.forward`. The trace ends before the head."""
        import nnsight

        places = [(module_at(self.model, point), tap) for point, tap in taps.items()]
        envoys = [(self.traced.get(self._names[place.module]), place.before, tap) for place, tap in places]
        options: dict[str, Any] = {"use_cache": False, **inputs}
        with self.traced.trace(**options) as tracer:
            for envoy, before, tap in envoys:
                _visit(envoy, before, tap)
            hidden = nnsight.save(self._body.output.last_hidden_state)
            tracer.stop()  # type: ignore
        return hidden  # pyright: ignore[reportPossiblyUnboundVariable]


def wrap(model: "PreTrainedModel") -> "NNsight":
    """A model as nnsight traces it."""
    from nnsight import NNsight

    return NNsight(model)


def _visit(module: Any, before: bool, tap: Tap) -> None:
    """Wait until the trace comes to a module, and let the tap see its input or its output."""
    if before:
        if (changed := tap(module.input)) is not None:
            module.input = changed
        return
    output = module.output
    inside = isinstance(output, tuple)
    if (changed := tap(output[0] if inside else output)) is not None:
        module.output = (changed, *output[1:]) if inside else changed
