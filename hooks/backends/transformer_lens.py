"""TransformerLens: the same passes through a TransformerBridge, tapped at its own hook points.

It reads token ids alone, since the bridge puts a BOS before strings, and weights as they are: compatibility mode
would rewrite them. The bridge computes attention eagerly.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from ..model.blocks import body
from ..model.points import Point, Site, Tap
from ..tree.layout import Layout, Packed
from .backend import Backend

if TYPE_CHECKING:
    import torch
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


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
        super().__init__(bridge.original_model, layout)  # pyright: ignore[reportArgumentType]
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
