"""The peer that is written by hand: what the prompts share is computed once and its keys and values are copied."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from doxascope.hooks.exact.queries import Query
from doxascope.hooks.model.blocks import body

ROWS = 64
"""Continuations that are run at once, each over its own copy of its prompt's keys and values."""


def read(model: PreTrainedModel, groups: Sequence[Sequence[Query]]) -> list[float]:
    """Log-probability of every path of every query, in order; the prompts of a group begin alike."""
    return [value for queries in groups for value in _read(model, queries)]


@torch.inference_mode()
def _read(model: PreTrainedModel, queries: Sequence[Query]) -> list[float]:
    prompts = [query.prompt.ids for query in queries]
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*prompts, strict=False))
    shared = min(len(list(columns)), min(map(len, prompts)) - 1)
    cache = DynamicCache()
    _run(model, [prompts[0][:shared]], [0], cache)
    cache.batch_repeat_interleave(len(prompts))
    hidden = _run(model, [prompt[shared:] for prompt in prompts], [shared] * len(prompts), cache)
    ends = torch.tensor([len(prompt) - shared - 1 for prompt in prompts])
    first = _log_probs(model, hidden[torch.arange(len(prompts)), ends])

    pairs = [(row, path) for row, query in enumerate(queries) for forms in query.paths.paths for path in forms]
    values = [float(first[row, path[0]]) for row, path in pairs]
    longer = sorted((i for i, (_, path) in enumerate(pairs) if len(path) > 1), key=lambda i: len(pairs[i][1]))
    for start in range(0, len(longer), ROWS):
        chunk = longer[start : start + ROWS]
        rows, paths = zip(*(pairs[i] for i in chunk), strict=True)
        depths = [len(prompts[row]) for row in rows]
        hidden = _run(model, [path[:-1] for path in paths], depths, _chosen(cache, rows))
        where = [(row, column) for row, path in enumerate(paths) for column in range(len(path) - 1)]
        logp = _log_probs(model, hidden[tuple(torch.tensor(where).T)])
        said = torch.tensor([paths[row][column + 1] for row, column in where], device=logp.device)
        steps = logp.gather(1, said[:, None])[:, 0]
        for (row, _), step in zip(where, steps.tolist(), strict=True):
            values[chunk[row]] += step
    return values


def _run(
    model: PreTrainedModel, sequences: Sequence[Sequence[int]], depths: Sequence[int], cache: DynamicCache
) -> torch.Tensor:
    """[rows, width, d_model] of sequences, padded on the right, that go on at `depths` after the cache's rows."""
    width, before = max(map(len, sequences)), cache.get_seq_length()
    rows = [[*sequence, *[0] * (width - len(sequence))] for sequence in sequences]
    ids = torch.tensor(rows, device=model.device)
    start = torch.tensor(depths, device=model.device)[:, None]
    # What is causal sees no padding on its right; in the cache, padding lies between a prompt and what follows.
    padded = bool((start < before).any())
    columns = torch.arange(max(before, width), device=model.device)
    seen = torch.cat([columns[:before] < start, torch.ones_like(ids, dtype=torch.bool)], dim=1) if padded else None
    output = body(model)(
        input_ids=ids, position_ids=start + columns[:width], attention_mask=seen, past_key_values=cache
    )
    return output.last_hidden_state


def _chosen(cache: DynamicCache, rows: Sequence[int]) -> DynamicCache:
    """A cache of some rows, with repetitions."""
    layers: list[Any] = cache.layers
    taken, index = DynamicCache(), torch.tensor(rows, device=layers[0].keys.device)
    for number, layer in enumerate(layers):
        taken.update(layer.keys[index], layer.values[index], number)
    return taken


def _log_probs(model: PreTrainedModel, hidden: torch.Tensor) -> torch.Tensor:
    """[rows, d_model] -> [rows, vocabulary]."""
    head: Any = model.get_output_embeddings()
    return head(hidden).log_softmax(dim=-1)
