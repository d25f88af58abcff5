"""The peer of a library's example: every continuation in a row of its own, with its whole prompt, padded."""

from collections.abc import Sequence
from itertools import chain

import torch
from transformers import PreTrainedModel

from doxascope.hooks.exact.queries import Query

ROWS = 64
"""Of a batch."""


@torch.inference_mode()
def read(model: PreTrainedModel, groups: Sequence[Sequence[Query]]) -> list[float]:
    """Log-probability of every path of every query, in order."""
    asked = [
        (query.prompt.ids, path)
        for query in chain.from_iterable(groups)
        for path in chain.from_iterable(query.paths.paths)
    ]
    values = []
    for start in range(0, len(asked), ROWS):
        rows = [(*prompt, *path) for prompt, path in asked[start : start + ROWS]]
        width = max(map(len, rows))
        longest = max(len(path) for _, path in asked[start : start + ROWS])
        ids = torch.tensor([[0] * (width - len(row)) + list(row) for row in rows], device=model.device)
        seen = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=model.device)
        logits = model(ids, attention_mask=seen, use_cache=False, logits_to_keep=longest + 1).logits
        logp = logits.float().log_softmax(dim=-1)[:, :-1]
        said = logp.gather(2, ids[:, -longest:, None])[:, :, 0].cpu()
        values += [
            float(one[-len(path) :].sum()) for one, (_, path) in zip(said, asked[start : start + ROWS], strict=True)
        ]
    return values
