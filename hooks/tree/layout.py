"""How a pack becomes the input of a model: in one row under the mask of its tree, or path by path, padded. How it is
forked, see `forked`.

A *cell* is a place of a batch, counted row by row. What is read of a token is read at its home cell; padding repeats
tokens, so what is done to a token is done to all of its copies.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..model.blocks import input_device
from ..model.upload import upload
from .attention import attends_by_blocks, use_tree_attention
from .flex import padded
from .masks import attention_layers, block_masks, pack_masks
from .tree import FILLER, ROOT, Ints, Pack

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NOWHERE = -1


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

    def __init__(self, model: "PreTrainedModel") -> None: ...

    def batches(self, pack: Pack) -> Iterator[Batch]:
        """Batches that together compute the pack, no one larger than it."""
        ...


class Packed:
    """The whole pack in one row: every token once, seeing its ancestors alone.

    Raises UserError at once for a model whose attention cannot take the mask of a tree.
    """

    def __init__(self, model: "PreTrainedModel") -> None:
        attention_layers(model.config)
        use_tree_attention(model)
        self.model = model

    def batches(self, pack: Pack) -> Iterator[Batch]:
        """See `Layout.batches`."""
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


class Padded:
    """Each path from a first token to a leaf in a row of its own, for what can neither be packed nor forked.

    Rows are padded on the right: what is causal, of whatever kind, sees nothing of what follows, so that each path
    reads as it would alone, at the positions that the model gives by itself (some take none from outside). A token
    that lies on several paths is read on the first.
    """

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
    paths = []
    for leaf in np.setdiff1d(np.arange(len(pack)), pack.parents):
        path, node = [], int(leaf)
        while node != ROOT:
            path.append(node)
            node = int(pack.parents[node])
        paths.append(np.array(path[::-1], dtype=np.int64))
    return paths
