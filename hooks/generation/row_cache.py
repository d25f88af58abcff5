"""The keys and values of histories in rows, allocated once. Imports torch: import it where a model is."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer


@dataclass
class _Step:
    """Where the tokens of a forward pass go, one in each of the first rows."""

    columns: torch.Tensor
    """[rows] the column of each."""
    end: int
    """Columns that are attended to."""


class RowLayer(DynamicLayer):
    """Of one layer: [rows, heads, columns, d]. What no token was written to is zero, or of a row that ended."""

    def __init__(self, like: Any, rows: int, columns: int, step: _Step) -> None:
        super().__init__()
        self.keys: Any
        self.values: Any
        self.keys, self.values = (
            one.new_zeros(rows, one.shape[1], columns, one.shape[3]) for one in (like.keys, like.values)
        )
        self.dtype, self.device, self.is_initialized, self._step = like.keys.dtype, like.keys.device, True, step

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Takes [rows, heads, 1, d] of new tokens, and returns those of their whole rows."""
        n, end = len(key_states), self._step.end
        columns = self._step.columns.to(key_states.device)[:, None, None, None]
        self.keys[:n].scatter_(2, columns.expand_as(key_states), key_states)
        self.values[:n].scatter_(2, columns.expand_as(value_states), value_states)
        return self.keys[:n, :, :end], self.values[:n, :, :end]


class RowCache(Cache):
    """All layers.

    Args:
        prompts: a cache of one row by whose layers these are shaped.
        rows: at most.
        columns: at most.
    """

    def __init__(self, prompts: DynamicCache, rows: int, columns: int) -> None:
        self.step = _Step(torch.zeros(0, dtype=torch.long), 0)
        super().__init__(layers=[RowLayer(layer, rows, columns, self.step) for layer in prompts.layers])

    def put(self, prompts: DynamicCache, columns: torch.Tensor, first: int) -> None:
        """Copy the `columns` [prompts, longest] of a cache of one row to the start of rows from `first` on."""
        for own, other in self._tensors(prompts):
            taken = other[0][:, columns.to(other.device)].transpose(0, 1)
            own[first : first + len(columns), :, : columns.shape[1]] = taken

    def copy(self, source: torch.Tensor, target: torch.Tensor, end: int) -> None:
        """Copy the first columns of rows `source` [n] to rows `target` [n], none of which is a source."""
        for own, _ in self._tensors(self):
            own[target.to(own.device), :, :end] = own[source.to(own.device), :, :end]

    def _tensors(self, other: Cache) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
        """Keys and values of each layer, with those of another cache."""
        pairs: Any = zip(self.layers, other.layers, strict=True)
        for own, its in pairs:
            yield own.keys, its.keys
            yield own.values, its.values
