"""From final hidden states to next-token log-probabilities, in float32 whatever the model's dtype."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

FACTORS = {"logit_scale": 1, "lm_head_multiplier": 1, "logits_scaling": -1}
"""Settings by which architectures multiply (1) or divide (-1) their logits: Cohere, Falcon-H1, Granite."""
CAPS = ("final_logit_softcapping", "logits_soft_cap")
"""Settings by which they cap them: Gemma, RecurrentGemma. What is not known here makes the start-up check refuse
the model."""


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
        from torch.nn.functional import linear

        with torch.inference_mode():
            logits = linear(hidden.to(self.weight), self.weight, self.bias)
            if self.scale != 1:  # a copy of the logits costs as much time as the softmax
                logits *= self.scale
            if self.softcap:
                logits = torch.tanh(logits / self.softcap) * self.softcap
            return torch.log_softmax(logits, dim=-1)


def logit_scale(config: "PretrainedConfig") -> float:
    """What a model multiplies its logits by, before it caps them."""
    scale = 1.0
    for name, power in FACTORS.items():
        scale *= (getattr(config, name, None) or 1.0) ** power
    return scale
