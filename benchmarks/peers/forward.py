"""The plain peer: one forward pass per context, which gives the first token of every option and no more."""

from collections.abc import Sequence
from itertools import chain

import torch
from transformers import PreTrainedModel

from doxascope.hooks.exact.queries import Query


@torch.inference_mode()
def read(model: PreTrainedModel, groups: Sequence[Sequence[Query]]) -> list[float]:
    """Log-probability of the first token of every path of every query, in order."""
    values = []
    for query in chain.from_iterable(groups):
        logits = model(torch.tensor([query.prompt.ids]), use_cache=False, logits_to_keep=1).logits[0, -1]
        firsts = [path[0] for forms in query.paths.paths for path in forms]
        values += logits.log_softmax(dim=0)[firsts].tolist()
    return values
