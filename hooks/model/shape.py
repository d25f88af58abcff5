"""How large a model is, and how many operations a read-out takes, from its configuration alone."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .blocks import blocks
from .loading import auto_class

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

CHOSEN, EXPERTS = (
    ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "top_k_experts"),
    ("experts", "local_experts"),
)
"""How configurations call the experts that a token goes through, and how modules call where all of them are."""


@dataclass(frozen=True)
class ModelShape:
    """What memory and time depend on."""

    parameters: int
    active: int
    """Parameters of the blocks that a token goes through: of experts only those that are chosen."""
    width: int
    """Of the residual stream."""
    vocabulary: int
    layers: int

    def operations(self, tokens: int, seen: int, rows: int) -> float:
        """Of passes of so many tokens which see so many others together, so many of which are unembedded."""
        return (
            2.0 * (self.active * tokens + self.vocabulary * self.width * rows) + 4.0 * seen * self.width * self.layers
        )


def shape_from(config: "PretrainedConfig") -> ModelShape:
    """The shape of the model that a configuration describes; no weights are made.

    Raises what transformers raises for a configuration that it cannot make a model of.
    """
    import torch

    with torch.device("meta"):
        return shape_of(auto_class(config).from_config(config))


def shape_of(model: "PreTrainedModel") -> ModelShape:
    """The shape of a model."""
    text = model.config.get_text_config()
    share = 1.0
    if chosen := next(filter(None, (getattr(text, name, None) for name in CHOSEN)), None):
        every = ("num_experts", "num_local_experts", "n_routed_experts")
        share = chosen / (next(filter(None, (getattr(text, name, None) for name in every)), None) or chosen)
    active = sum(
        parameter.numel() * (share if any(part in EXPERTS for part in name.split(".")) else 1.0)
        for block in blocks(model)
        for name, parameter in block.named_parameters()
    )
    n = sum(parameter.numel() for parameter in model.parameters())
    return ModelShape(n, round(active), text.hidden_size, text.vocab_size, text.num_hidden_layers)
