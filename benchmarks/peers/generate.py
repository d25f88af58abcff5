"""The peer that samples: whole answers, from which options are counted."""

import torch
from transformers import PreTrainedModel


def answers(model: PreTrainedModel, prompt: tuple[int, ...], n: int, length: int) -> torch.Tensor:
    """[n, prompt and at most `length` tokens] drawn from the model's own distribution in one batch."""
    return model.generate(  # type: ignore
        torch.tensor([prompt]),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=length,
        num_return_sequences=n,
    )
