"""The keys and values of histories in rows, allocated once. Imports torch: import it where a model is."""

from collections.abc import Iterable
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer


class Step:
    """Where the tokens of a forward pass go, one in each of the first rows."""

    def __init__(self, columns: torch.Tensor, end: int) -> None:
        self.columns, self.end = columns, end
        """[rows] the column of each; and how many columns are attended to."""
        self._index: dict[tuple[torch.Size, torch.device], torch.Tensor] = {}

    def index(self, like: torch.Tensor) -> torch.Tensor:
        """The columns in the shape of new keys or values [rows, heads, 1, d]: made once for all layers of a shape."""
        key = like.shape, like.device
        if key not in self._index:
            self._index[key] = self.columns.to(like.device)[:, None, None, None].expand_as(like)
        return self._index[key]


class RowLayer(DynamicLayer):
    """Of one layer: [rows, heads, columns, d]. What no token was written to is zero, or of a row that ended."""

    def __init__(self, like: Any, rows: int, columns: int) -> None:
        super().__init__()
        self.step: Step
        self.keys: Any
        self.values: Any
        self.keys, self.values = (
            tensor.new_zeros(rows, tensor.shape[1], columns, tensor.shape[3]) for tensor in (like.keys, like.values)
        )
        self.dtype, self.device, self.is_initialized = like.keys.dtype, like.keys.device, True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Takes [rows, heads, 1, d] of new tokens, and returns those of their whole rows."""
        n, end = len(key_states), self.step.end
        keys, values = self.keys[:n], self.values[:n]
        keys.scatter_(2, self.step.index(key_states), key_states)
        values.scatter_(2, self.step.index(value_states), value_states)
        return keys[:, :, :end], values[:, :, :end]


class RowCache(Cache):
    """All layers.

    Args:
        prompts: a cache of one row by whose layers these are shaped.
        rows: at most.
        columns: at most.
    """

    def __init__(self, prompts: DynamicCache, rows: int, columns: int) -> None:
        super().__init__(layers=[RowLayer(layer, rows, columns) for layer in prompts.layers])

    def go_to(self, step: Step) -> None:
        """What the next forward pass writes, and where."""
        layers: Any = self.layers
        for layer in layers:
            layer.step = step

    def put(self, prompts: DynamicCache, columns: torch.Tensor, first: int) -> None:
        """Copy the `columns` [prompts, longest] of a cache of one row to the start of rows from `first` on."""
        for target, prompt in self._tensors(prompts):
            taken = prompt[0][:, columns.to(prompt.device)].transpose(0, 1)
            target[first : first + len(columns), :, : columns.shape[1]] = taken

    def copy(self, source: torch.Tensor, target: torch.Tensor, end: int) -> None:
        """Copy the first columns of rows `source` [n] to rows `target` [n], none of which is a source."""
        for tensor, _ in self._tensors(self):
            tensor[target.to(tensor.device), :, :end] = tensor[source.to(tensor.device), :, :end]

    def _tensors(self, other: Cache) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
        """Keys and values of each layer, with those of another cache."""
        pairs: Any = zip(self.layers, other.layers, strict=True)
        for layer, theirs in pairs:
            yield layer.keys, theirs.keys
            yield layer.values, theirs.values
