"""The reference path: one ordinary forward pass per surface form, through the model's own head."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..edits.changes import Edit, edit_taps, swap_edits
from ..edits.marks import marked_edits
from ..model.blocks import input_device, tapped
from ..prompts.query import Query
from .exact import ExactReading, best_competitor, make_reading

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def read_plain(query: Query, model: "PreTrainedModel") -> ExactReading:
    """What `read_packed` computes, without tree, masks, packs or float32 head: slow and simple."""
    with tapped(model, edit_taps(_edits(query))):
        return _read(query, model)


def _edits(query: Query) -> list[Edit]:
    """The edits of a pass over the prompt and the longest of what may follow it."""
    prompt = range(len(query.prompt.ids))
    swaps = swap_edits([(prompt, query.swap)]) if query.swap else []
    if query.marks is None:
        return swaps
    longest = max(len(path) for paths in query.paths.paths for path in paths)
    return swaps + marked_edits(enumerate([*query.marks.prompt, *[query.marks.answer] * longest]))


def _read(query: Query, model: "PreTrainedModel") -> ExactReading:
    import torch

    prompt = list(query.prompt.ids)
    form_logp = []
    for paths in query.paths.paths:
        sums = []
        for path in paths:
            logp = next_token_logp(model, [*prompt, *path], first=len(prompt) - 1).double().cpu()
            steps = logp[torch.arange(len(path)), torch.tensor(path)].sum()
            sums.append(float(steps + logp[-1, torch.from_numpy(query.terminators.ids)].logsumexp(0)))
        form_logp.append(np.array(sums))
    barred = set(query.paths.first_ids.tolist())
    competitor = best_competitor(next_token_logp(model, prompt, first=len(prompt) - 1)[0], barred)
    reading = make_reading(query.readout_id, tuple(form_logp), competitor)
    if not query.prompt.prefilled:
        return reading
    logp = next_token_logp(model, prompt).double()
    places = [i for turn in query.prompt.prefilled for i in turn]
    return replace(reading, forced_logp=float(sum(logp[i - 1, prompt[i]] for i in places)))


def next_token_logp(model: "PreTrainedModel", ids: list[int], first: int = 0) -> "torch.Tensor":
    """[T - first, vocabulary] log-probabilities after each token from `first` on, as transformers computes them."""
    import torch

    keep = len(ids) - first
    with torch.inference_mode():
        inputs = torch.tensor([ids], device=input_device(model))
        logits = model(input_ids=inputs, use_cache=False, logits_to_keep=keep).logits  # some keep all the same
        return torch.log_softmax(logits[0, -keep:].float(), dim=-1)
