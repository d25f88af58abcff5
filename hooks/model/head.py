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
    """The unembedding of a model. Its logits are sums in float32, since those of bfloat16 are spaced an eighth apart: a
    GPU takes such sums of products of half precision, which are exact; elsewhere the weights are cast once.
    """

    def __init__(self, model: "PreTrainedModel") -> None:
        unembedding: Any = model.get_output_embeddings()
        bias = getattr(unembedding, "bias", None)
        config = model.config.get_text_config()
        self.weight: torch.Tensor = unembedding.weight if sums_wide(unembedding.weight) else unembedding.weight.float()
        self.bias: torch.Tensor | None = None if bias is None else bias.float()
        self._passing: torch.Tensor | None = None
        self.scale: float = logit_scale(config)
        self.softcap: float | None = next((cap for name in CAPS if (cap := getattr(config, name, None))), None)

    def log_probs(self, hidden: "torch.Tensor", *, passing: bool = False) -> "torch.Tensor":
        """[R, d_model] -> [R, vocabulary], natural log, float32.

        `passing`: they are needed until the next call alone, which may put its own in their place: fresh memory takes a
        CPU a fifth of the time. The numbers are the same to the bit.
        """
        import torch

        with torch.inference_mode():
            hidden, on_cpu = hidden.to(self.weight.device), self.weight.device.type == "cpu"
            logits = self._logits(hidden, slice(None), self._room(len(hidden)) if passing and on_cpu else None)
            return torch.log_softmax(logits, dim=-1, out=logits if on_cpu else None)

    def _room(self, rows: int) -> "torch.Tensor":
        """[rows, vocabulary] for numbers that are passing."""
        import torch

        if self._passing is None or len(self._passing) < rows:
            self._passing = torch.empty(rows, len(self.weight))
        return self._passing[:rows]

    def token_log_probs(
        self, hidden: "torch.Tensor", rows: "Sequence[int] | torch.Tensor", tokens: "Sequence[int] | torch.Tensor"
    ) -> "torch.Tensor":
        """[views, R, d_model] -> [views, E], natural log, float32: of `tokens` [E] after `rows` [E] alone.

        The normaliser runs over the whole vocabulary, a slice at a time.
        """
        import torch

        with torch.inference_mode():
            hidden = hidden.to(self.weight.device)
            slices = (slice(start, start + SLICE) for start in range(0, len(self.weight), SLICE))
            # log sum over the vocabulary = log of the sum over slices of exp(log sum over a slice).
            parts = [self._logits(hidden, words).logsumexp(dim=-1) for words in slices]
            total = torch.stack(parts).logsumexp(dim=0)
            logits = (hidden[:, rows].float() * self.weight[tokens].float()).sum(dim=-1)
            bias = 0.0 if self.bias is None else self.bias[tokens]
            return self._bent(logits + bias) - total[:, rows]

    def _logits(self, hidden: "torch.Tensor", words: slice, out: "torch.Tensor | None" = None) -> "torch.Tensor":
        """[..., d_model] -> [..., of these words], in `out` if it is given and fits."""
        import torch
        from torch.nn.functional import linear

        weight, bias = self.weight[words], None if self.bias is None else self.bias[words]
        if weight.dtype == torch.float32 or hidden.dtype != weight.dtype:
            return self._bent(linear(hidden.float(), weight.float(), bias, out=out))  # type: ignore
        wide = torch.mm(hidden.flatten(0, -2), weight.T, out_dtype=torch.float32).unflatten(0, hidden.shape[:-1])
        return self._bent(wide if bias is None else wide.add_(bias))

    def _bent(self, logits: "torch.Tensor") -> "torch.Tensor":
        """What the model makes of its products, in place where it can."""
        import torch

        if self.scale != 1:  # a copy of the logits costs as much time as the softmax
            logits *= self.scale
        if self.softcap:
            logits = torch.tanh(logits / self.softcap) * self.softcap
        return logits


def sums_wide(weight: "torch.Tensor") -> bool:
    """Whether products with a weight of half precision, where it is, can be summed and given in float32."""
    import torch

    if weight.dtype == torch.float32:
        return False
    try:
        torch.mm(weight[:1], weight[:1].T, out_dtype=torch.float32)
    except (RuntimeError, TypeError):  # a CPU, or an older torch
        return False
    return True


def logit_scale(config: "PretrainedConfig") -> float:
    """What a model multiplies its logits by, before it caps them."""
    scale = 1.0
    for name, power in FACTORS.items():
        scale *= (getattr(config, name, None) or 1.0) ** power
    return scale
