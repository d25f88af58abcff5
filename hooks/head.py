"""From final hidden states to next-token log-probabilities, in float32 whatever the model's dtype."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


class Head:
    """The unembedding of a model: bfloat16 logits are spaced an eighth apart, so weights are cast once."""

    def __init__(self, model: "PreTrainedModel") -> None:
        unembedding: Any = model.get_output_embeddings()
        bias = getattr(unembedding, "bias", None)
        self.weight: torch.Tensor = unembedding.weight.float()
        self.bias: torch.Tensor | None = None if bias is None else bias.float()
        self.softcap: float | None = getattr(model.config.get_text_config(), "final_logit_softcapping", None)

    def log_probs(self, hidden: "torch.Tensor") -> "torch.Tensor":
        """[R, d_model] -> [R, vocabulary], natural log, float32."""
        import torch
        from torch.nn.functional import linear

        with torch.inference_mode():
            logits = linear(hidden.float(), self.weight, self.bias)
            if self.softcap:
                logits = torch.tanh(logits / self.softcap) * self.softcap
            return torch.log_softmax(logits, dim=-1)
