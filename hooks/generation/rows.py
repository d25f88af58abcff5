"""Histories that are continued a token at a time, a row each: what sampling runs on.

Histories that are alike are one row until they part, so that a prompt is computed once for all of its draws. Keys and
values lie in one rectangle of rows and columns that is allocated once; a row that ends gives its place to another.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from ..edits.interventions import Marks
from ..model.blocks import body, input_device, upload
from ..tree.attention import FULL, SLIDING, attention_layers
from ..tree.layouts import Forked, Packed, fork_cache
from ..tree.token_tree import Ints, TokenTree, cut_into_packs
from .histories import Histories, Node

if TYPE_CHECKING:
    import torch
    from transformers import DynamicCache, PreTrainedModel

    from .row_cache import RowCache


Ids = tuple[int, ...]

ALIGNED = 16
"""Columns are attended to in multiples of this: kernels want masks aligned."""


class HistoryRows(ABC):
    """Histories of one model."""

    def reserve(self, rows: int, columns: int) -> None:
        """Allot room for so many rows of at most `columns` tokens, where it is not taken as needed."""
        self.forget()

    @abstractmethod
    def forget(self) -> None:
        """Drop all rows."""

    @abstractmethod
    def begin(self, prompts: Sequence[Ids]) -> "torch.Tensor":
        """Add a row for each prompt, no two alike, behind the rows that are there.

        Returns: [prompts, d_model] after the final norm, at the last token of each.
        """

    @abstractmethod
    def advance(self, parents: Ints, tokens: Ints) -> "torch.Tensor":
        """Put new rows in the place of all: each goes on from the row `parents` [R] with one of `tokens` [R].

        Returns: [R, d_model] after the final norm, at the new tokens.
        """


@dataclass(frozen=True)
class _Pass:
    """A pass over prompts."""

    cache: "DynamicCache"
    columns: Mapping[Ids, Ints]
    """Of each prompt, in the cache."""
    hidden: "Mapping[Ids, torch.Tensor]"
    """[d_model] at the last token of each."""


class CachedRows(HistoryRows):
    """Computes new tokens alone, over the keys and values of their own rows.

    Args:
        budget: most tokens of a pass over prompts; one prompt is never cut.

    Raises UserError at once for a model whose attention cannot take the mask of a tree.
    """

    def __init__(self, model: "PreTrainedModel", budget: int) -> None:
        import torch

        self.model, self.budget = model, budget
        self._layout, self._kinds = Packed(model), attention_layers(model.config)
        self._device, dtype = input_device(model), model.dtype
        self._seen = torch.zeros((), dtype=dtype, device=self._device)
        self._unseen = torch.full_like(self._seen, torch.finfo(dtype).min)
        self.reserve(0, 0)

    def reserve(self, rows: int, columns: int) -> None:
        """See `HistoryRows.reserve`."""
        import torch

        self._shape = rows, _aligned(columns)
        self._columns = torch.arange(self._shape[1], device=self._device)
        self._cache: RowCache | None = None
        self._latest: _Pass | None = None
        self.forget()

    def forget(self) -> None:
        """See `HistoryRows.forget`."""
        self._places = np.zeros(0, dtype=np.int64)  # [rows] in the cache
        self._lengths = np.zeros(0, dtype=np.int64)  # [places] tokens

    def begin(self, prompts: Sequence[Ids]) -> "torch.Tensor":
        """See `HistoryRows.begin`."""
        import torch

        hidden: dict[Ids, torch.Tensor] = {}
        place: dict[Ids, int] = {}
        with torch.inference_mode():
            for done in self._passes(prompts):
                begun = [ids for ids in prompts if ids in done.columns]
                hidden |= {ids: done.hidden[ids] for ids in begun}
                place |= {ids: len(self._lengths) + i for i, ids in enumerate(begun)}
                self._put(done, begun)
        self._places = np.concatenate([self._places, [place[ids] for ids in prompts]])
        return torch.stack([hidden[ids] for ids in prompts])

    def advance(self, parents: Ints, tokens: Ints) -> "torch.Tensor":
        """See `HistoryRows.advance`."""
        import torch

        from .row_cache import Step

        assert self._cache is not None  # some prompt began
        with torch.inference_mode():
            lengths = self._move(parents)
            order, end = np.argsort(self._places), _aligned(int(lengths.max()) + 1)
            step = upload(np.stack([tokens[order], lengths, self._places]), self._device)
            ids, columns, places = step.unbind()
            self._cache.go_to(Step(columns, end))
            output = body(self.model)(
                input_ids=ids[:, None],
                position_ids=columns[:, None],
                attention_mask=self._masks(columns, end),
                past_key_values=self._cache,
                use_cache=True,
            )
            self._lengths = lengths + 1
            hidden = output.last_hidden_state[:, 0]
            return hidden[places.to(hidden.device)]

    def _passes(self, prompts: Sequence[Ids]) -> Iterator[_Pass]:
        """Passes over all prompts; first the latest one, if some draws of its prompts were still to come."""
        import torch
        from transformers import DynamicCache

        if self._latest:
            yield self._latest
            prompts = [ids for ids in prompts if ids not in self._latest.columns]
        tree = TokenTree()
        ends = {tree.add(ids)[-1]: ids for ids in prompts}
        for pack in cut_into_packs(tree, ends, self.budget):
            # Without a configuration every layer keeps every column, and the mask alone decides what is in a window.
            cache = DynamicCache()
            (batch,) = self._layout.batches(pack)
            hidden = body(self.model)(**batch.inputs, past_key_values=cache, use_cache=True).last_hidden_state[0]
            cells = dict(zip(pack.members.tolist(), batch.home.tolist(), strict=True))
            columns = {
                ends[end]: np.array([cells[node] for node in tree.ancestors(end)]) for end in pack.nodes.tolist()
            }
            last = hidden[torch.tensor([places[-1] for places in columns.values()], device=hidden.device)]
            self._latest = _Pass(cache, columns, dict(zip(columns, last, strict=True)))
            yield self._latest

    def _put(self, done: _Pass, prompts: Sequence[Ids]) -> None:
        """Give prompts of a pass the next places."""
        import torch

        from .row_cache import RowCache

        if not prompts:
            return
        if self._cache is None:
            self._cache = RowCache(done.cache, *self._shape)
        lengths = np.array([len(ids) for ids in prompts])
        columns = np.zeros((len(prompts), lengths.max()), dtype=np.int64)
        for row, ids in enumerate(prompts):
            columns[row, : len(ids)] = done.columns[ids]
        self._cache.put(done.cache, torch.from_numpy(columns), len(self._lengths))
        self._lengths = np.concatenate([self._lengths, lengths])

    def _move(self, parents: Ints) -> Ints:
        """Give each row a place among the first, its parent's if it can; returns the tokens [places] there so far."""

        assert self._cache is not None
        before, n = self._places[parents], len(parents)
        if n == len(self._places) and (parents[:-1] < parents[1:]).all():  # every row goes on, by one token
            return self._lengths
        places = np.full(n, -1)
        kept, first = np.unique(before, return_index=True)
        first = first[kept < n]
        places[first] = before[first]
        if len(moved := np.flatnonzero(places < 0)):
            places[moved] = np.setdiff1d(np.arange(n), places)  # where no parent is
            pair = upload(np.stack([before[moved], places[moved]]), self._device)
            self._cache.copy(*pair, end=int(self._lengths[before[moved]].max()))
        lengths = np.empty(n, dtype=np.int64)
        lengths[places] = self._lengths[before]
        self._places = places
        return lengths

    def _masks(self, columns: "torch.Tensor", end: int) -> Any:
        """Additive masks [rows, 1, 1, end], by layer type where these are mixed, of tokens in `columns` [rows]."""
        import torch

        here, column = columns[:, None], self._columns[:end]
        hidden = {FULL: column > here}
        if SLIDING in self._kinds:
            window = self.model.config.get_text_config().sliding_window
            hidden[SLIDING] = hidden[FULL] | (column <= here - window)
        masks = {kind: torch.where(hidden[kind], self._unseen, self._seen)[:, None, None] for kind in self._kinds}
        return masks if len(masks) > 1 else next(iter(masks.values()))


class TreeRows(HistoryRows):
    """Rows that lie in a tree of histories: for models whose keys and values cannot be kept in rows, and for edits.

    Args:
        marks: what is done to the tokens of the one prompt that there is then, and to those after it.
    """

    def __init__(self, histories: Histories, marks: Marks | None = None) -> None:
        self.histories, self.marks = histories, marks
        self._nodes: list[Node] = []

    def forget(self) -> None:
        """See `HistoryRows.forget`."""
        self._nodes = []

    def begin(self, prompts: Sequence[Ids]) -> "torch.Tensor":
        """See `HistoryRows.begin`."""
        new = [self.histories.extend(None, ids, self.marks and self.marks.prompt) for ids in prompts]
        self._nodes += new
        return self._hidden(new)

    def advance(self, parents: Ints, tokens: Ints) -> "torch.Tensor":
        """See `HistoryRows.advance`."""
        pairs = zip(parents.tolist(), tokens.tolist(), strict=True)
        after = self.marks and [self.marks.answer]
        self._nodes = [self.histories.extend(self._nodes[row], [token], after) for row, token in pairs]
        return self._hidden(self._nodes)

    def _hidden(self, nodes: Sequence[Node]) -> "torch.Tensor":
        import torch

        self.histories.compute(nodes)
        return torch.stack([node.hidden for node in nodes if node.hidden is not None])


def _aligned(columns: int) -> int:
    return -(-columns // ALIGNED) * ALIGNED


# Rows of models that take no mask of a tree, whatever their layers keep: rows of one length share a cache.
#
# A new row is a fork of the one that it goes on from; none is padded.


@dataclass(frozen=True)
class _Cohort:
    """Rows of one length."""

    cache: Any
    rows: int
    length: int
    """Tokens of each."""


class ForkedRows(HistoryRows):
    """Computes new tokens alone, from the caches of the rows before them. See `HistoryRows`.

    Args:
        budget: most tokens of a pass over prompts; one prompt is never cut.
    """

    def __init__(self, model: "PreTrainedModel", budget: int) -> None:
        self.model, self.budget, self._forked = model, budget, Forked(model)
        self.forget()

    def forget(self) -> None:
        """See `HistoryRows.forget`."""
        self._homes: list[tuple[_Cohort, int]] = []  # of each row, and its place there

    def begin(self, prompts: Sequence[Ids]) -> "torch.Tensor":
        """See `HistoryRows.begin`: prompts of one length are run together."""
        import torch

        begun: dict[Ids, tuple[_Cohort, int, torch.Tensor]] = {}
        for length, group in groupby(sorted(prompts, key=len), key=len):
            alike, most = list(group), max(1, self.budget // length)
            for some in (alike[start : start + most] for start in range(0, len(alike), most)):
                cohort, hidden = self._run(_Cohort(self._forked.empty(), len(some), 0), np.array(some))
                begun |= {ids: (cohort, row, hidden[row]) for row, ids in enumerate(some)}
        self._homes += [begun[ids][:2] for ids in prompts]
        return torch.stack([begun[ids][2] for ids in prompts])

    def advance(self, parents: Ints, tokens: Ints) -> "torch.Tensor":
        """See `HistoryRows.advance`: one call for each length."""
        import torch

        homes = [self._homes[row] for row in parents.tolist()]
        self._homes, hidden = list(homes), [torch.empty(0)] * len(homes)
        for cohort in {id(cohort): cohort for cohort, _ in homes}.values():
            rows = [row for row, (home, _) in enumerate(homes) if home is cohort]
            longer, last = self._run(self._chosen(cohort, [homes[row][1] for row in rows]), tokens[rows][:, None])
            for place, row in enumerate(rows):
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
