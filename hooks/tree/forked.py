"""A tree level by level: its trunk once, then the cache forked over the branches.

All rows of a call are at one depth, so that their caches are of one length whatever kind of layers a model has:
recurrent and convolutional states, windows, chunks. A row that ends before the others of its call is padded on the
right and not gone on from: what is causal sees nothing of what follows.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import UserError
from ..model.blocks import body, input_device
from .layout import NOWHERE, Batch
from .tree import ROOT, Ints, Pack

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

MOST_REPEATED = 1.3
"""Cells of a call for each token of the tree that it computes: more would be padding, or beginnings of branches run
again, but make calls fewer."""
ROW_TOKENS = 16
"""Tokens of a pack for each row that a call may have: the state of a recurrent layer is as large as the keys and values
of many tokens."""
CACHES = ("past_key_values", "cache_params")
"""How models call what they remember."""


class Level(NamedTuple):
    """What one call computes."""

    source: int
    """The level whose rows it goes on from; ROOT: none."""
    origin: Ints
    """[B] the row of that level that each row goes on from."""
    tokens: Ints
    """[B, T] indices within the pack; NOWHERE for padding."""


def levels(pack: Pack, most_rows: int, *, single: bool = False) -> Iterator[Level]:
    """The calls that compute a pack, each after its source, the deepest first: few sources wait for their branches.

    Args:
        pack: what to compute.
        most_rows: of a call.
        single: every call but the trunk's is one token long.
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
        longest = 1 if single and source != ROOT else len(pack)
        ends, width = _ends(children, first[:most_rows], most_rows, longest)
        tokens = _paths(pack, ends, int(pack.positions[first[0]]), width)
        yield Level(source, np.array([origin[token] for token in tokens[:, 0].tolist()], dtype=np.int64), tokens)
        last = tokens[:, -1].tolist()
        goes_on = {
            child: row for row, token in enumerate(last) if token != NOWHERE for child in children.get(token, ())
        }
        if goes_on:
            waiting.append((number, goes_on))
        number += 1


def _ends(
    children: Mapping[int, Sequence[int]], first: Sequence[int], most_rows: int, longest: int
) -> tuple[Ints, int]:
    """Where the rows of a call end that begins with the tokens `first`, of one depth, and how long the longest is: as
    far down as padding and repetition allow.
    """
    ended: list[int] = []
    now, tokens, depth = list(first), 0, 0
    best = now, 1
    while now and (depth == 0 or (depth < longest and len(now) + len(ended) <= most_rows)):
        depth, tokens = depth + 1, tokens + len(now)
        if (len(now) + len(ended)) * depth <= MOST_REPEATED * tokens:
            best = ended + now, depth
        ended += [token for token in now if token not in children]
        now = [child for token in now for child in children.get(token, ())]
    return np.array(best[0], dtype=np.int64), best[1]


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

    single = False
    """See `levels`."""

    def __init__(self, model: "PreTrainedModel") -> None:
        from transformers import DynamicCache

        self.model = model
        takes = signature(body(model).forward).parameters
        name = next((name for name in CACHES if name in takes), None)
        if name is None:
            raise UserError(f"model type {model.config.model_type!r} takes none of {', '.join(CACHES)}")
        self._name, self._empty = name, lambda: DynamicCache(config=model.config)

    def batches(self, pack: Pack) -> Iterator[Batch]:
        """See `Layout.batches`."""
        import torch

        device = input_device(self.model)
        plan = list(levels(pack, max(1, len(pack) // ROW_TOKENS), single=self.single))
        last_use = {level.source: number for number, level in enumerate(plan)}
        caches: dict[int, Any] = {}
        for number, level in enumerate(plan):
            source = self._empty() if level.source == ROOT else caches[level.source]
            cache = source if level.source == ROOT else fork_cache(source, torch.from_numpy(level.origin).to(device))
            if last_use[level.source] == number:
                caches.pop(level.source, None)
            if number in last_use:
                caches[number] = cache
            del source
            tokens, home = level.tokens, np.full(len(pack), NOWHERE)
            here, cells = np.unique(tokens, return_index=True)
            home[here[here != NOWHERE]] = cells[here != NOWHERE]
            ids = torch.from_numpy(np.where(tokens == NOWHERE, 0, pack.tokens[tokens])).to(device)
            yield Batch({"input_ids": ids, self._name: cache, "use_cache": True}, tokens.ravel(), home)


class Stepped(Forked):
    """The same a token at a time, for models that go on from a cache by one token only, as when they generate."""

    single = True


def fork_cache(cache: Any, rows: "torch.Tensor") -> Any:
    """A cache whose rows are those of `cache` at `rows`, which may repeat. The given one stays as it is."""
    forked = copy(cache)
    forked.layers = [_own(layer) for layer in cache.layers]
    forked.reorder_cache(rows)
    return forked


def _own(layer: Any) -> Any:
    """A cache's layer that shares tensors, but no list or mapping of them."""
    mine = copy(layer)
    for name, value in vars(mine).items():
        if isinstance(value, dict | list):
            setattr(mine, name, copy(value))
    return mine
