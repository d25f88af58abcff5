"""From final hidden states to next-token log-probabilities, in float32 whatever the model's dtype."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

FACTORS = {"logit_scale": 1, "lm_head_multiplier": 1, "logits_scaling": -1}
"""Settings by which architectures multiply (1) or divide (-1) their logits: Cohere, Falcon-H1, Granite."""
CAPS = ("final_logit_softcapping", "logits_soft_cap")
"""Settings by which they cap them: Gemma, RecurrentGemma. What is not known here makes the start-up check refuse
the model."""
SLICE = 4096
"""Words of the vocabulary whose logits are held at once where a few tokens alone are wanted: they stay in a cache."""


class Head:
    """The unembedding of a model: bfloat16 logits are spaced an eighth apart, so weights are cast once."""

    def __init__(self, model: "PreTrainedModel") -> None:
        unembedding: Any = model.get_output_embeddings()
        bias = getattr(unembedding, "bias", None)
        config = model.config.get_text_config()
        self.weight: torch.Tensor = unembedding.weight.float()
        self.bias: torch.Tensor | None = None if bias is None else bias.float()
        self.scale: float = logit_scale(config)
        self.softcap: float | None = next((cap for name in CAPS if (cap := getattr(config, name, None))), None)

    def log_probs(self, hidden: "torch.Tensor") -> "torch.Tensor":
        """[R, d_model] -> [R, vocabulary], natural log, float32."""
        import torch

        with torch.inference_mode():
            return torch.log_softmax(self._logits(hidden.to(self.weight), slice(None)), dim=-1)

    def token_log_probs(
        self, hidden: "torch.Tensor", rows: Sequence[int], tokens: "Sequence[int] | torch.Tensor"
    ) -> "torch.Tensor":
        """[views, R, d_model] -> [views, E], natural log, float32: of `tokens` [E] after `rows` [E] alone.

        The normaliser runs over the whole vocabulary, a slice at a time.
        """
        import torch

        with torch.inference_mode():
            hidden = hidden.to(self.weight)
            slices = (slice(start, start + SLICE) for start in range(0, len(self.weight), SLICE))
            parts = [self._logits(hidden, one).logsumexp(dim=-1) for one in slices]
            total = torch.stack(parts).logsumexp(dim=0)
            logits = (hidden[:, rows] * self.weight[tokens]).sum(dim=-1)
            bias = 0.0 if self.bias is None else self.bias[tokens]
            return self._bent(logits + bias) - total[:, rows]

    def _logits(self, hidden: "torch.Tensor", words: slice) -> "torch.Tensor":
        """[..., d_model] -> [..., of these words]."""
        from torch.nn.functional import linear

        return self._bent(linear(hidden, self.weight[words], None if self.bias is None else self.bias[words]))

    def _bent(self, logits: "torch.Tensor") -> "torch.Tensor":
        """What the model makes of its products, in place where it can."""
        import torch

        if self.scale != 1:  # a copy of the logits costs as much time as the softmax
            logits *= self.scale
        if self.softcap:
            logits = torch.tanh(logits / self.softcap) * self.softcap
        return logits


def logit_scale(config: "PretrainedConfig") -> float:
    """What a model multiplies its logits by, before it caps them."""
    scale = 1.0
    for name, power in FACTORS.items():
        scale *= (getattr(config, name, None) or 1.0) ** power
    return scale
