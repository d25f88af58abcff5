"""Histories that are continued a token at a time, a row each: what sampling runs on.

Histories that are alike are one row until they part, so that a prompt is computed once for all of its draws. Keys and
values lie in one rectangle of rows and columns that is allocated once; a row that ends gives its place to another.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..edits.marks import Marks
from ..model.blocks import body, input_device
from ..model.upload import upload
from ..tree.layout import Packed
from ..tree.masks import FULL, SLIDING, attention_layers
from ..tree.tree import Ints, TokenTree, cut_into_packs
from .growing import Histories, Node

if TYPE_CHECKING:
    import torch
    from transformers import DynamicCache, PreTrainedModel

    from .row_cache import RowCache

Ids = tuple[int, ...]

ALIGNED = 16
"""Columns are attended to in multiples of this: kernels want masks aligned."""


class HistoryRows(Protocol):
    """Histories of one model."""

    def reserve(self, rows: int, columns: int) -> None:
        """Allot room: there will be at most so many rows, none with more than `columns` tokens."""
        ...

    def forget(self) -> None:
        """Drop all rows."""
        ...

    def begin(self, prompts: Sequence[Ids]) -> "torch.Tensor":
        """Add a row for each prompt, no two alike, behind the rows that are there.

        Returns: [prompts, d_model] after the final norm, at the last token of each.
        """
        ...

    def advance(self, parents: Ints, tokens: Ints) -> "torch.Tensor":
        """Put new rows in the place of all: each goes on from the row `parents` [R] with one of `tokens` [R].

        Returns: [R, d_model] after the final norm, at the new tokens.
        """
        ...


@dataclass(frozen=True)
class _Pass:
    """A pass over prompts."""

    cache: "DynamicCache"
    columns: Mapping[Ids, Ints]
    """Of each prompt, in the cache."""
    hidden: "Mapping[Ids, torch.Tensor]"
    """[d_model] at the last token of each."""


class CachedRows:
    """Computes new tokens alone, over the keys and values of their own rows.

    Args:
        model: whose histories these are.
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
            for one in self._passes(prompts):
                own = [ids for ids in prompts if ids in one.columns]
                hidden |= {ids: one.hidden[ids] for ids in own}
                place |= {ids: len(self._lengths) + i for i, ids in enumerate(own)}
                self._put(one, own)
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
            last = hidden[torch.tensor([one[-1] for one in columns.values()], device=hidden.device)]
            self._latest = _Pass(cache, columns, dict(zip(columns, last, strict=True)))
            yield self._latest

    def _put(self, one: _Pass, prompts: Sequence[Ids]) -> None:
        """Give prompts of a pass the next places."""
        import torch

        from .row_cache import RowCache

        if not prompts:
            return
        if self._cache is None:
            self._cache = RowCache(one.cache, *self._shape)
        lengths = np.array([len(ids) for ids in prompts])
        columns = np.zeros((len(prompts), lengths.max()), dtype=np.int64)
        for row, ids in enumerate(prompts):
            columns[row, : len(ids)] = one.columns[ids]
        self._cache.put(one.cache, torch.from_numpy(columns), len(self._lengths))
        self._lengths = np.concatenate([self._lengths, lengths])

    def _move(self, parents: Ints) -> Ints:
        """Give each row a place among the first ones, its parent's wherever it can; returns the tokens [places] there
        so far.
        """

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
        """Additive masks [rows, 1, 1, end], by layer type where a model mixes types (see `pack_masks`), of tokens that
        stand in `columns` [rows].
        """
        import torch

        here, column = columns[:, None], self._columns[:end]
        hidden = {FULL: column > here}
        if SLIDING in self._kinds:
            window = self.model.config.get_text_config().sliding_window
            hidden[SLIDING] = hidden[FULL] | (column <= here - window)
        masks = {kind: torch.where(hidden[kind], self._unseen, self._seen)[:, None, None] for kind in self._kinds}
        return masks if len(masks) > 1 else next(iter(masks.values()))


class TreeRows:
    """Rows that lie in a tree of histories: for models whose keys and values cannot be kept in rows, and for edits.

    Args:
        histories: an empty tree.
        marks: what is done to the tokens of the one prompt that there is then, and to those after it.
    """

    def __init__(self, histories: Histories, marks: Marks | None = None) -> None:
        self.histories, self.marks = histories, marks
        self._nodes: list[Node] = []

    def reserve(self, rows: int, columns: int) -> None:
        """See `HistoryRows.reserve`: nodes take what room they need."""
        self.forget()

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
