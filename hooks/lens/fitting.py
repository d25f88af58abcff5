"""Maps of a loaded model's inner layers to its last, from documents that are run through its back end."""

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.backend import Capture
from ..errors import UserError
from ..model.blocks import blocks
from ..tree.tree import TokenTree, cut_into_packs
from .corpus import Document
from .jacobian import mean_jacobians
from .translator import Translator, TranslatorFitter

if TYPE_CHECKING:
    from ..lm import LanguageModel

SITE = "resid_post"
SAME = ("weights", "tokenizer", "chat_template", "template", "dtype")
"""Of a model's identity, what a translator belongs to."""


def fit_translator(lm: "LanguageModel", documents: Sequence[Document], layers: Sequence[int]) -> Translator:
    """Fit the maps of `layers` on every token of the documents but their first, which models use as a rest.

    Raises UserError if the documents are too short.
    """
    return _seen(lm, documents, layers).fit(_origin(lm, documents))


def fit_jacobian(lm: "LanguageModel", documents: Sequence[Document], layers: Sequence[int], tokens: int) -> Translator:
    """The mean Jacobians of `layers` over some tokens of the documents, about the means of all their tokens.

    Raises UserError if the documents have fewer tokens.
    """
    jacobians = mean_jacobians(lm, documents, layers, tokens)
    origin = _origin(lm, documents) | {"jacobian_tokens": tokens}
    return _seen(lm, documents, layers).transport(jacobians, origin)


def _origin(lm: "LanguageModel", documents: Sequence[Document]) -> dict[str, Any]:
    return {"model": lm.identity.model_dump(mode="json"), "text": text_hash(documents)}


def _seen(lm: "LanguageModel", documents: Sequence[Document], layers: Sequence[int]) -> TranslatorFitter:
    """The moments of the documents' residuals."""
    last = len(blocks(lm.model)) - 1
    captured = tuple(dict.fromkeys([*layers, last]))
    fitter = TranslatorFitter(layers, lm.identity.d_model)
    for document in documents:
        if len(document.ids) < 2:
            continue
        tree = TokenTree()
        node = tree.add(document.ids)[-1]
        (document_pack,) = cut_into_packs(tree, [node], budget=len(document.ids))
        rows = np.arange(1, len(document_pack))
        capture = Capture((SITE,), captured, rows, np.ones_like(rows))
        residuals = lm.backend.run(document_pack, capture=capture).residuals[SITE]
        fitter.update(residuals[:, : len(layers)], residuals[:, captured.index(last)])
    return fitter


def translator_identity(lm: "LanguageModel") -> dict[str, str | None]:
    """What a translator of this model must have been fitted on."""
    return {name: getattr(lm.identity, name) for name in SAME}


def require_matching_translator(translator: Translator, lm: "LanguageModel", layers: Sequence[int]) -> None:
    """Raise UserError for a translator of another model, another dtype or other layers."""
    made = translator.origin.get("model", {})
    for name, own in translator_identity(lm).items():
        if made.get(name) != own:
            raise UserError(f"translator: was fitted on {name} {made.get(name)}, the model has {own}; fit it anew")
    if translator.layers != tuple(layers):
        raise UserError(f"translator: is of layers {_listed(translator.layers)}, not {_listed(layers)}; fit it anew")


def _listed(layers: Sequence[int]) -> str:
    return ", ".join(map(str, layers))


def text_hash(documents: Sequence[Document]) -> str:
    """A short hash of the documents' ids."""
    return hashlib.sha256(json.dumps([document.ids for document in documents]).encode()).hexdigest()[:16]
