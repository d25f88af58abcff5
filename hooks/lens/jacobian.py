"""The mean Jacobian from a layer's output to the last one's, at the same token: exact transport, on average.

A translator is regressed on what the last residual turns out to be, and so may put in what the text makes likely. The
Jacobian knows no target: it says how a small change of the residual at a token, all before it held, moves the last
residual at that token. No later layer of a causal model sees the change elsewhere, so that one reverse pass gives a row
of every layer's Jacobian.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..backends.transformers import TransformersBackend
from ..errors import UserError
from ..model.blocks import blocks
from ..model.points import Point, Tap
from ..tree.layout import Batch
from ..tree.tree import TokenTree, cut_into_packs
from .corpus import Document

if TYPE_CHECKING:
    from ..lm import LanguageModel

COPIES = 256
"""Of the token, in one pass: as many rows of the Jacobians are computed at once."""


def mean_jacobians(
    lm: "LanguageModel", documents: Sequence[Document], layers: Sequence[int], tokens: int, *, seed: int = 0
) -> torch.Tensor:
    """[layers, d_model, d_model] float32: how row i of the residual moves column j of the last residual, averaged.

    Args:
        lm: the model.
        documents: of which tokens are drawn, but never their first, which models use as a rest.
        layers: whose outputs are moved.
        tokens: over which to average.
        seed: of the draw.

    Raises UserError if the documents have fewer tokens.
    """
    places = [(document, at) for document in documents for at in range(1, len(document.ids))]
    if len(places) < tokens:
        raise UserError(f"lens.jacobian: {tokens} tokens of a text that has {len(places)}; give fewer, or more text")
    backend = TransformersBackend(lm.model, type(lm.backend.layout))
    total = torch.zeros(len(layers), lm.identity.d_model, lm.identity.d_model)
    for which in np.random.default_rng(seed).permutation(len(places))[:tokens]:
        document, at = places[which]
        total += _jacobians(backend, document.ids[: at + 1], layers, lm.identity.d_model)
    return total / tokens


def _jacobians(backend: TransformersBackend, ids: Sequence[int], layers: Sequence[int], d: int) -> torch.Tensor:
    """[layers, d, d] at the last of the ids."""
    found = torch.empty(len(layers), d, d)
    for start in range(0, d, COPIES):
        rows = range(start, min(start + COPIES, d))
        tree = TokenTree()
        trunk = tree.add(ids[:-1])[-1]
        copies = [tree.add(ids[-1:], below=trunk, apart=True)[0] for _ in rows]
        (pack,) = cut_into_packs(tree, copies, budget=len(tree))
        for batch in backend.layout.batches(pack):
            mine = batch.here(pack.rows)  # the copies, in their order
            cells = torch.from_numpy(batch.home[pack.rows[mine]])
            columns = torch.as_tensor([rows[i] for i in mine])
            moved = _rows(backend, batch, cells, layers, columns, d)
            found[:, :, columns] = moved.transpose(1, 2)
    return found


def _rows(
    backend: TransformersBackend,
    batch: Batch,
    cells: torch.Tensor,
    layers: Sequence[int],
    columns: torch.Tensor,
    d: int,
) -> torch.Tensor:
    """[layers, copies, d] derivatives of the last residual's `columns`, one of each copy, by the residuals there."""
    last = Point(len(blocks(backend.model)) - 1, "resid_post")
    dtype, device = backend.model.dtype, backend.model.device

    def final(changes: torch.Tensor) -> torch.Tensor:
        """[copies, d] the last residuals, once `changes` [layers, copies, d] are added to those of the layers."""
        seen: dict[Point, torch.Tensor] = {}

        def tap(point: Point) -> Tap:
            def visit(hidden: torch.Tensor) -> torch.Tensor:
                stream = hidden.flatten(0, 1)
                if point.layer in layers:
                    own = changes[list(layers).index(point.layer)].to(stream.device)
                    stream = stream.index_add(0, cells.to(stream.device), own)
                if point == last:
                    seen[point] = stream[cells.to(stream.device)]
                return stream.view_as(hidden)

            return visit

        points = sorted({*(Point(layer, "resid_post") for layer in layers), last})
        backend.forward(batch.inputs, {point: tap(point) for point in points})
        return seen[last]

    changes = torch.zeros(len(layers), len(cells), d, dtype=dtype, device=device)
    vjp: Any = torch.func.vjp(final, changes)
    out, pull = vjp
    weights = torch.zeros_like(out)
    weights[torch.arange(len(cells)), columns.to(out.device)] = 1
    return pull(weights)[0].float().cpu()
