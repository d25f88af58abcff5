"""Rows of models that take no mask of a tree, whatever their layers keep: rows of one length share a cache.

A new row is a fork of the one that it goes on from; none is padded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from ..model.blocks import body, input_device
from ..tree.forked import Forked, fork_cache
from ..tree.tree import Ints
from .rows import Ids

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class _Cohort:
    """Rows of one length."""

    cache: Any
    rows: int
    length: int
    """Tokens of each."""


class ForkedRows:
    """Computes new tokens alone, from the caches of the rows before them. See `HistoryRows`.

    Args:
        model: whose histories these are.
        budget: most tokens of a pass over prompts; one prompt is never cut.
    """

    def __init__(self, model: "PreTrainedModel", budget: int) -> None:
        self.model, self.budget, self._forked = model, budget, Forked(model)
        self.forget()

    def reserve(self, rows: int, columns: int) -> None:
        """See `HistoryRows.reserve`: caches take what room they need."""
        self.forget()

    def forget(self) -> None:
        """See `HistoryRows.forget`."""
        self._homes: list[tuple[_Cohort, int]] = []  # of each row, and its place there

    def begin(self, prompts: Sequence[Ids]) -> "torch.Tensor":
        """See `HistoryRows.begin`: prompts of one length are run together."""
        import torch

        found: dict[Ids, tuple[_Cohort, int, torch.Tensor]] = {}
        for length, group in groupby(sorted(prompts, key=len), key=len):
            alike, most = list(group), max(1, self.budget // length)
            for some in (alike[start : start + most] for start in range(0, len(alike), most)):
                cohort, hidden = self._run(_Cohort(self._forked.empty(), len(some), 0), np.array(some))
                found |= {ids: (cohort, row, hidden[row]) for row, ids in enumerate(some)}
        self._homes += [found[ids][:2] for ids in prompts]
        return torch.stack([found[ids][2] for ids in prompts])

    def advance(self, parents: Ints, tokens: Ints) -> "torch.Tensor":
        """See `HistoryRows.advance`: one call for each length."""
        import torch

        homes = [self._homes[row] for row in parents.tolist()]
        self._homes, hidden = list(homes), [torch.empty(0)] * len(homes)
        for cohort in {id(one): one for one, _ in homes}.values():
            mine = [row for row, (home, _) in enumerate(homes) if home is cohort]
            longer, last = self._run(self._chosen(cohort, [homes[row][1] for row in mine]), tokens[mine][:, None])
            for place, row in enumerate(mine):
                self._homes[row], hidden[row] = (longer, place), last[place]
        return torch.stack(hidden)

    def _chosen(self, cohort: _Cohort, places: list[int]) -> _Cohort:
        """Some rows of a cohort, which may repeat; itself, if it is all of them, since nobody needs it any more."""
        import torch

        if places == list(range(cohort.rows)):
            return cohort
        rows = torch.tensor(places, device=input_device(self.model))
        return _Cohort(fork_cache(cohort.cache, rows), len(places), cohort.length)

    def _run(self, cohort: _Cohort, tokens: Ints) -> "tuple[_Cohort, torch.Tensor]":
        """The cohort after `tokens` [B, T] of its rows, and [B, d_model] after the final norm, at the last of them."""
        import torch

        ids = torch.from_numpy(tokens).to(input_device(self.model))
        with torch.inference_mode():
            output = body(self.model)(**self._forked.inputs(ids, cohort.cache, cohort.length))
        return _Cohort(cohort.cache, len(tokens), cohort.length + tokens.shape[1]), output.last_hidden_state[:, -1]
