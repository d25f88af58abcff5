"""How a pack becomes the input of a model: in one row under the mask of its tree, its trunk once and then forked
over the branches, or path by path, padded.

A *cell* is a place of a batch, counted row by row. What is read of a token is read at its home cell; padding repeats
tokens, so what is done to a token is done to all of its copies.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ...base.errors import UserError
from ..model.blocks import body, input_device, upload
from .attention import attends_by_blocks, attention_layers, block_masks, pack_masks, piece_masks, use_tree_attention
from .flex import padded
from .token_tree import FILLER, ROOT, Ints, Pack

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


NOWHERE = -1
BY_LENGTH = ("dynamic", "longrope")
"""Kinds of rotary embeddings, as transformers names them, that choose their frequencies by the length of a pass."""


@dataclass(frozen=True)
class Batch:
    """What one call of the model computes: B rows of T cells."""

    inputs: Mapping[str, Any]
    """Ids, mask and, where the model takes them as an input, positions; or the cache from which it goes on."""
    tokens: Ints
    """[B * T] the token of the pack in each cell; NOWHERE for padding."""
    home: Ints
    """[tokens of the pack] the cell where each is read; NOWHERE if another batch reads it."""

    def here(self, tokens: Ints) -> Ints:
        """Indices of those of `tokens` that this batch reads."""
        return np.flatnonzero(self.home[tokens] != NOWHERE)


class Layout(Protocol):
    """Lays out packs for one model."""

    continues: bool
    """Whether a pack may take several passes, so that none of its tokens is run twice however long they are."""

    def __init__(self, model: "PreTrainedModel") -> None: ...

    def batches(self, pack: Pack) -> Iterator[Batch]:
        """Batches that together compute the pack, no one larger than it."""
        ...


class Packed:
    """The whole pack in one row: every token once, seeing its ancestors alone.

    A pack that is too long for one pass goes through in pieces, depth first. What a piece sees outside itself is the
    path to its first token: that path's keys and values are all that is kept between two passes.

    Raises UserError at once for a model whose attention cannot take the mask of a tree.
    """

    def __init__(self, model: "PreTrainedModel") -> None:
        attention_layers(model.config)
        use_tree_attention(model)
        self.model = model
        self.continues = "past_key_values" in signature(body(model).forward).parameters and not _turns_by_length(model)

    def batches(self, pack: Pack) -> Iterator[Batch]:
        """See `Layout.batches`."""
        if pack.most:
            yield from self._pieces(pack)
            return
        device, every = input_device(self.model), np.arange(len(pack))
        blocks = attends_by_blocks(self.model)
        whole, masks = (padded(pack), block_masks) if blocks else (pack, pack_masks)
        inputs = {
            "input_ids": upload(whole.tokens, device)[None],
            "position_ids": upload(whole.positions, device)[None],
            "attention_mask": masks(whole, self.model.config, self.model.dtype, device),
        }
        tokens = np.where(whole.members == FILLER, NOWHERE, np.arange(len(whole)))
        yield Batch(inputs, tokens, home=every)

    def _pieces(self, pack: Pack) -> Iterator[Batch]:
        """One pass after the other: each leaves its keys and values in the cache from which the next goes on."""
        from transformers import DynamicCache

        device = input_device(self.model)
        # Without a configuration every layer keeps every column, and the mask alone decides what is in a window.
        cache, columns = DynamicCache(), np.empty(0, dtype=np.int64)
        for start in range(0, len(pack), pack.most):
            rows = np.arange(start, min(start + pack.most, len(pack)))
            path = pack.path(start)[:-1]
            _keep_columns(cache, np.searchsorted(columns, path), len(columns))
            columns = np.concatenate([path, rows])
            home = np.full(len(pack), NOWHERE)
            home[rows] = np.arange(len(rows))
            inputs = {
                "input_ids": upload(pack.tokens[rows], device)[None],
                "position_ids": upload(pack.positions[rows], device)[None],
                "attention_mask": piece_masks(pack, rows, columns, self.model.config, self.model.dtype, device),
                "past_key_values": cache,
                "use_cache": True,
            }
            yield Batch(inputs, rows, home)


def _turns_by_length(model: "PreTrainedModel") -> bool:
    """Whether keys of a short pass are other than those of a long one, by a model's rotary embedding."""
    rotary = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    kinds = [rotary, *(inner for inner in rotary.values() if isinstance(inner, Mapping))]
    return any(kind.get("rope_type") in BY_LENGTH for kind in kinds)


def _keep_columns(cache: Any, columns: Ints, n: int) -> None:
    """Drop all but these of the `n` columns of a cache."""
    if len(columns) == n:
        return
    for layer in cache.layers:
        kept = upload(columns, layer.keys.device)
        layer.keys, layer.values = layer.keys.index_select(2, kept), layer.values.index_select(2, kept)


class Padded:
    """Each path from a first token to a leaf in a row of its own, for what can neither be packed nor forked.

    Rows are padded on the right: what is causal, of whatever kind, sees nothing of what follows, so that each path
    reads as it would alone, at the positions that the model gives by itself (some take none from outside). A token
    that lies on several paths is read on the first.
    """

    continues = False

    def __init__(self, model: "PreTrainedModel") -> None:
        self.model = model

    def batches(self, pack: Pack) -> Iterator[Batch]:
        """See `Layout.batches`: the token budget bounds memory here, too."""
        device = input_device(self.model)
        paths = leaf_paths(pack)
        at_once = max(1, len(pack) // max(map(len, paths)))
        read = np.zeros(len(pack), dtype=bool)
        for start in range(0, len(paths), at_once):
            some = paths[start : start + at_once]
            tokens = np.full((len(some), max(map(len, some))), NOWHERE)
            home = np.full(len(pack), NOWHERE)
            for row, path in enumerate(some):
                tokens[row, : len(path)] = path
                fresh = path[~read[path]]
                home[fresh] = row * tokens.shape[1] + pack.positions[fresh]
                read[path] = True
            present = tokens != NOWHERE
            inputs = {
                "input_ids": upload(np.where(present, pack.tokens[tokens], 0), device),
                "attention_mask": upload(present.astype(np.int64), device),
            }
            yield Batch(inputs, tokens.ravel(), home)


def leaf_paths(pack: Pack) -> list[Ints]:
    """Indices within the pack of each path from a first token to a leaf, in the order of the leaves."""
    return [pack.path(leaf) for leaf in np.setdiff1d(np.arange(len(pack)), pack.parents).tolist()]


# A tree level by level: its trunk once, then the cache forked over the branches.
#
# All rows of a call are at one depth, so that their caches are of one length whatever kind of layers a model has:
# recurrent and convolutional states, windows, chunks. A row that ends before the others of its call is padded on the
# right and not gone on from: what is causal sees nothing of what follows.


CALL = 16
"""A call costs as much as so many tokens more: beginnings of branches are run again, and rows are padded, where that
makes calls fewer."""
ROW_TOKENS = 16
"""Tokens of a pack for each row that a call may have: the state of a recurrent layer is as large as the keys and values
of many tokens."""
NEVER = 1 << 40
"""Tokens: what it costs where no call can go on."""
CACHES = ("past_key_values", "cache_params")
"""How models call what they remember."""


Children = Mapping[int, Sequence[int]]
"""Of each token that has some."""


class Level(NamedTuple):
    """What one call computes."""

    source: int
    """The level whose rows it goes on from; ROOT: none."""
    origin: Ints
    """[B] the row of that level that each row goes on from."""
    tokens: Ints
    """[B, T] indices within the pack; NOWHERE for padding."""


def levels(pack: Pack, most_rows: int, lengths: tuple[int, int | None]) -> Iterator[Level]:
    """The calls that compute a pack, each after its source, the deepest first: few sources wait for their branches.

    Args:
        most_rows: of a call.
        lengths: the least and the most tokens of a row, padding included, of every call but the first.
    """
    children: dict[int, list[int]] = {}
    for token, parent in enumerate(pack.parents.tolist()):
        children.setdefault(parent, []).append(token)
    waiting = [(ROOT, {token: 0 for token in children[ROOT]})]
    number = 0
    while waiting:
        source, origin = waiting.pop()
        first = list(origin)
        if first[most_rows:]:
            waiting.append((source, {token: origin[token] for token in first[most_rows:]}))
        now = first[:most_rows]
        shortest, longest = lengths if source != ROOT else (1, None)
        length = longest or _length(children, now, most_rows, shortest)
        tokens = _paths(pack, _ends(children, now, length), int(pack.positions[now[0]]), length)
        yield Level(source, np.array([origin[token] for token in tokens[:, 0].tolist()], dtype=np.int64), tokens)
        last = tokens[:, -1].tolist()
        goes_on = {
            child: row for row, token in enumerate(last) if token != NOWHERE for child in children.get(token, ())
        }
        if goes_on:
            waiting.append((number, goes_on))
        number += 1


def _length(children: Children, first: Sequence[int], most_rows: int, shortest: int) -> int:
    """How many tokens the rows of a call have that begins with the tokens `first`, of one depth, if all calls after it
    are as long as is best, too.
    """
    ended, nodes = [0], [0]  # up to each depth below; at it
    now = first
    while now:
        nodes.append(len(now))
        ended.append(ended[-1] + sum(token not in children for token in now))
        now = [child for token in now for child in children.get(token, ())]
    deepest = len(nodes) - 1
    events = {
        depth for depth in range(1, deepest) if ended[depth] > ended[depth - 1] or nodes[depth + 1] > nodes[depth]
    }
    cuts = sorted({0, deepest, *(cut for depth in events for cut in (depth - 1, depth, depth + 1))})
    # The cheapest way to cut the depths below into calls, from the deepest cut upwards: what a call costs (rows times
    # tokens, and its own share), and what is cheapest after it. Cuts beside depths where rows begin or end suffice.
    cost, best = {deepest: 0}, {deepest: shortest}
    for start in reversed(cuts[:-1]):
        cost[start], best[start] = NEVER, shortest
        for end in cuts[cuts.index(start) + 1 :]:
            length, rows = max(shortest, end - start), nodes[end] + ended[end - 1] - ended[start]
            if (end - start >= shortest or end == deepest) and (rows <= most_rows or length == shortest):
                total = rows * length + CALL + cost[end]
                if total < cost[start]:
                    cost[start], best[start] = total, length
    return best[0]


def _ends(children: Children, first: Sequence[int], length: int) -> Ints:
    """The last token of each row that begins with one of `first`: so far down, or a leaf before."""
    ends, now = [], list(first)
    for _ in range(length - 1):
        ends += [token for token in now if token not in children]
        now = [child for token in now for child in children.get(token, ())]
    return np.array(ends + now, dtype=np.int64)


def _paths(pack: Pack, ends: Ints, start: int, width: int) -> Ints:
    """[B, width] the tokens from depth `start` down to each end."""
    tokens = np.full((len(ends), width), NOWHERE)
    lengths = pack.positions[ends] - start + 1
    step = ends.copy()
    for column in range(width - 1, -1, -1):
        there = lengths > column
        tokens[there, column] = step[there]
        step[there] = pack.parents[step[there]]
    return tokens


class Forked:
    """Every token once, or little more, in as many calls as the tree has depths at which it branches.

    Raises UserError at once for a model that takes no cache.
    """

    continues = False
    lengths: tuple[int, int | None] = 1, None
    """See `levels`."""

    def __init__(self, model: "PreTrainedModel") -> None:
        from transformers import DynamicCache

        self.model = model
        takes = signature(body(model).forward).parameters
        name = next((name for name in CACHES if name in takes), None)
        if name is None:
            raise UserError(f"model type {model.config.model_type!r} takes none of {', '.join(CACHES)}")
        self._positions = "position_ids" in takes
        self._name, self.empty = name, lambda: DynamicCache(config=model.config)

    def batches(self, pack: Pack) -> Iterator[Batch]:
        """See `Layout.batches`."""

        device = input_device(self.model)
        plan = list(levels(pack, max(1, len(pack) // ROW_TOKENS), lengths=self.lengths))
        last_use = {level.source: number for number, level in enumerate(plan)}
        caches: dict[int, Any] = {}
        for number, level in enumerate(plan):
            source = self.empty() if level.source == ROOT else caches[level.source]
            cache = source if level.source == ROOT else fork_cache(source, upload(level.origin, device))
            if last_use[level.source] == number:
                caches.pop(level.source, None)
            if number in last_use:
                caches[number] = cache
            del source
            tokens, home = level.tokens, np.full(len(pack), NOWHERE)
            here, cells = np.unique(tokens, return_index=True)
            home[here[here != NOWHERE]] = cells[here != NOWHERE]
            ids = upload(np.where(tokens == NOWHERE, 0, pack.tokens[tokens]), device)
            inputs = self.inputs(ids, cache, int(pack.positions[tokens[0, 0]]))
            yield Batch(inputs, tokens.ravel(), home)

    def inputs(self, ids: "torch.Tensor", cache: Any, start: int) -> dict[str, Any]:
        """What the body takes to run `ids` [B, T] on from a cache that holds `start` tokens of each row."""
        import torch

        inputs = {"input_ids": ids, self._name: cache, "use_cache": True}
        if self._positions:  # some count from the cache, others from nothing
            places = torch.arange(start, start + ids.shape[1], device=ids.device)
            inputs["position_ids"] = places.expand(ids.shape)
        return inputs


class Paired(Forked):
    """By two tokens at least, for models whose state after one token alone is another than in a prompt."""

    lengths = 2, None


class Stepped(Forked):
    """The same a token at a time, for models that go on from a cache by one token only."""

    lengths = 1, 1


def fork_cache(cache: Any, rows: "torch.Tensor") -> Any:
    """A cache whose rows are those of `cache` at `rows`, which may repeat. The given one stays as it is."""
    forked = copy(cache)
    forked.layers = [_own(layer) for layer in cache.layers]
    forked.reorder_cache(rows)
    return forked


def _own(layer: Any) -> Any:
    """A cache's layer that shares tensors, but no list or mapping of them."""
    copied = copy(layer)
    for name, value in vars(copied).items():
        if isinstance(value, dict | list):
            setattr(copied, name, copy(value))
    return copied


LAYOUTS: Mapping[str, Callable[["PreTrainedModel"], Layout]] = {
    "packed": Packed,
    "forked": Forked,
    "paired": Paired,
    "stepped": Stepped,
    "padded": Padded,
}
"""Tried in this order."""
CACHED = ("forked", "paired", "stepped")
"""Those that go on from a cache."""
