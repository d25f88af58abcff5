"""The way for models that cannot take the mask of a tree: each path of a pack as a padded row of its own."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .backend import PackOutput
from .blocks import body, input_device, stacked, tapped
from .tree import ROOT, Pack

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Ints = NDArray[np.int64]


class PaddedBackend:
    """Batched forward passes over the root-to-leaf paths of a pack, for ALiBi, recurrent and chunked layers.

    Rows are padded on the right: what is causal, of whatever kind, sees nothing of what follows, so that each path
    reads as it would alone, at the positions that the model gives by itself (some take none from outside). A node
    that lies on several paths is read on the first. No batch is larger than the pack, so that the token
    budget bounds memory here too.
    """

    def __init__(self, model: "PreTrainedModel") -> None:
        self.model = model

    def run(self, pack: Pack, *, capture: bool = False) -> PackOutput:
        """See `Backend.run`."""
        import torch

        paths = leaf_paths(pack)
        owner = np.empty(len(pack), dtype=np.int64)
        for number in reversed(range(len(paths))):
            owner[paths[number]] = number
        row_path, row_column = owner[pack.rows], pack.positions[pack.rows]
        at_once = max(1, len(pack) // max(len(path) for path in paths))
        hidden, residuals, order, tokens_run = [], [], [], 0
        for start in range(0, len(paths), at_once):
            batch = [pack.tokens[path] for path in paths[start : start + at_once]]
            mine = np.flatnonzero((row_path >= start) & (row_path < start + at_once))
            read, streams, size = self._run_batch(batch, row_path[mine] - start, row_column[mine], capture)
            hidden.append(read)
            residuals.append(streams)
            order.append(mine)
            tokens_run += size
        back = torch.from_numpy(np.argsort(np.concatenate(order))).to(hidden[0].device)
        return PackOutput(
            torch.cat(hidden)[back], torch.cat(residuals)[back] if capture else None, tokens_run=tokens_run
        )

    def _run_batch(
        self, sequences: list[Ints], rows: Ints, columns: Ints, capture: bool
    ) -> "tuple[torch.Tensor, torch.Tensor, int]":
        """Final hidden states and residuals at (rows, columns) of the padded batch, and its size in tokens."""
        import torch

        width = max(len(ids) for ids in sequences)
        tokens = np.zeros((len(sequences), width), dtype=np.int64)
        present = np.zeros_like(tokens)
        for row, ids in enumerate(sequences):
            tokens[row, : len(ids)] = ids
            present[row, : len(ids)] = 1
        device = input_device(self.model)
        where = torch.from_numpy(rows).to(device), torch.from_numpy(columns).to(device)

        def pick(hidden: "torch.Tensor") -> "torch.Tensor":
            return hidden[where[0].to(hidden.device), where[1].to(hidden.device)]

        with torch.inference_mode(), tapped(self.model, pick if capture else None) as taken:
            output = body(self.model)(
                input_ids=torch.from_numpy(tokens).to(device),
                attention_mask=torch.from_numpy(present).to(device),
                use_cache=False,
            )
            hidden = pick(output.last_hidden_state)
            return hidden, stacked(taken, hidden.device) if capture else hidden[:0], tokens.size


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
