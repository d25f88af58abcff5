"""Maps of a loaded model's inner layers to its last, from documents run through its back end: tuned lenses and mean
Jacobians.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...base.errors import UserError
from ..backends.backend import Capture
from ..backends.libraries import TransformersBackend
from ..model.blocks import Point, Tap, blocks
from ..tree.layouts import Batch
from ..tree.token_tree import TokenTree, cut_into_packs
from .lens import TunedLens, TunedLensFitter
from .plan import Document

if TYPE_CHECKING:
    from ..lm import LanguageModel


COPIES = 256
"""Of the token, in one pass: as many rows of the Jacobians are computed at once."""


def mean_jacobians(
    lm: "LanguageModel", documents: Sequence[Document], layers: Sequence[int], tokens: int, *, seed: int = 0
) -> torch.Tensor:
    """[layers, d_model, d_model] float32: how row i of the residual moves column j of the last residual, averaged.

    Args:
        documents: of which tokens are drawn, but never their first, which models use as a rest.

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
    jacobians = torch.empty(len(layers), d, d)
    for start in range(0, d, COPIES):
        rows = range(start, min(start + COPIES, d))
        tree = TokenTree()
        trunk = tree.add(ids[:-1])[-1]
        copies = [tree.add(ids[-1:], below=trunk, apart=True)[0] for _ in rows]
        (pack,) = cut_into_packs(tree, copies, budget=len(tree))
        for batch in backend.layout.batches(pack):
            copies_here = batch.here(pack.rows)  # the copies, in their order
            cells = torch.from_numpy(batch.home[pack.rows[copies_here]])
            columns = torch.as_tensor([rows[i] for i in copies_here])
            moved = _rows(backend, batch, cells, layers, columns, d)
            jacobians[:, :, columns] = moved.transpose(1, 2)
    return jacobians


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
                    change = changes[list(layers).index(point.layer)].to(stream.device)
                    stream = stream.index_add(0, cells.to(stream.device), change)
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


SITE = "resid_post"
SAME = ("weights", "tokenizer", "chat_template", "template", "dtype")
"""Of a model's identity, what a tuned lens belongs to."""


def fit_tuned_lens(lm: "LanguageModel", documents: Sequence[Document], layers: Sequence[int]) -> TunedLens:
    """Fit the maps of `layers` on every token of the documents but their first, which models use as a rest.

    Raises UserError if the documents are too short.
    """
    return _seen(lm, documents, layers).fit(_origin(lm, documents))


def fit_jacobian(lm: "LanguageModel", documents: Sequence[Document], layers: Sequence[int], tokens: int) -> TunedLens:
    """The mean Jacobians of `layers` over some tokens of the documents, about the means of all their tokens.

    Raises UserError if the documents have fewer tokens.
    """
    jacobians = mean_jacobians(lm, documents, layers, tokens)
    origin = _origin(lm, documents) | {"jacobian_tokens": tokens}
    return _seen(lm, documents, layers).transport(jacobians, origin)


def _origin(lm: "LanguageModel", documents: Sequence[Document]) -> dict[str, Any]:
    return {"model": lm.identity.model_dump(mode="json"), "text": text_hash(documents)}


def _seen(lm: "LanguageModel", documents: Sequence[Document], layers: Sequence[int]) -> TunedLensFitter:
    """The moments of the documents' residuals."""
    last = len(blocks(lm.model)) - 1
    captured = tuple(dict.fromkeys([*layers, last]))
    fitter = TunedLensFitter(layers, lm.identity.d_model)
    for document in documents:
        if len(document.ids) < 2:
            continue
        tree = TokenTree()
        node = tree.add(document.ids)[-1]
        (document_pack,) = cut_into_packs(tree, [node], budget=len(document.ids))
        rows = np.arange(1, len(document_pack))
        capture = Capture((SITE,), captured, rows, np.ones_like(rows))
        residuals = lm.backend.run(document_pack, capture=capture).fetch()[SITE]
        fitter.update(residuals[:, : len(layers)], residuals[:, captured.index(last)])
    return fitter


def tuned_lens_identity(lm: "LanguageModel") -> dict[str, str | None]:
    """What a tuned lens of this model must have been fitted on."""
    return {name: getattr(lm.identity, name) for name in SAME}


def require_matching_lens(tuned: TunedLens, lm: "LanguageModel", layers: Sequence[int]) -> None:
    """Raise UserError for a tuned lens of another model, another dtype or other layers."""
    origin = tuned.origin.get("model", {})
    for name, value in tuned_lens_identity(lm).items():
        if origin.get(name) != value:
            raise UserError(f"tuned lens: was fitted on {name} {origin.get(name)}, the model has {value}; fit it anew")
    if tuned.layers != tuple(layers):
        raise UserError(f"tuned lens: is of layers {_listed(tuned.layers)}, not {_listed(layers)}; fit it anew")


def _listed(layers: Sequence[int]) -> str:
    return ", ".join(map(str, layers))


def text_hash(documents: Sequence[Document]) -> str:
    """A short hash of the documents' ids."""
    return hashlib.sha256(json.dumps([document.ids for document in documents]).encode()).hexdigest()[:16]
