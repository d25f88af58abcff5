"""Edited branches beside the unedited one: which edits each has, and the queries that ask under them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..model.blocks import blocks, head_widths
from ..model.layers import layer_numbers
from ..model.points import Point, Site
from ..prompts.chat import ChatRenderer, Conversation, Prompt
from ..prompts.places import find_places
from ..prompts.query import Query
from .interventions import Intervention
from .marks import Bound, Mark, Marks, Touch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Edits = Intervention | Sequence[Intervention] | Mapping[str, Sequence[Intervention]]
"""Edits that are made together, or several such lists by the names of their branches."""
EDITS = "Steer, Ablate, Replace, PatchAlong, Clamp or Erase"
EDITED = "edited"
"""The branch of a list without a name."""


def as_branches(edits: Edits | None) -> dict[str, tuple[Intervention, ...]]:
    """Branch -> its edits, in the order in which they are made. The unedited branch is none of them.

    Raises UserError for what is no edit, and for a name that cannot be part of another.
    """
    if edits is None:
        return {}
    given: Mapping[str, Any] = edits if isinstance(edits, Mapping) else {EDITED: edits}
    branches = {}
    for name, own in given.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise UserError(f"edits: branch {name!r}; name it by letters, digits and underscores")
        several = [own] if isinstance(own, Intervention) else own
        if isinstance(several, list | tuple) and not several:
            raise UserError(f"edits: {name} is empty; give {EDITS}, or leave it out")
        if not isinstance(several, list | tuple):
            raise UserError(f"edits: {name} holds {type(own).__name__}; give a list of {EDITS}")
        if other := next((one for one in several if not isinstance(one, Intervention)), None):
            raise UserError(f"edits: {name} holds {type(other).__name__}; give {EDITS}")
        branches[name] = tuple(several)
    return branches


class Branches:
    """Edited branches on one model.

    Raises UserError for a layer that is not there, and for a vector of another width or for other layers.
    """

    def __init__(self, edits: Edits | None, model: "PreTrainedModel", chat: ChatRenderer) -> None:
        self.chat = chat
        bound: dict[int, Bound] = {}  # an edit in several branches is one: they share what comes after it
        self._bound = {
            name: [bound.setdefault(id(one), _bind(one, model)) for one in own]
            for name, own in as_branches(edits).items()
        }

    @property
    def names(self) -> list[str]:
        """In their order."""
        return list(self._bound)

    @property
    def records(self) -> dict[str, list[dict[str, Any]]]:
        """Branch -> what each of its edits is, with the layers of this model and the digest of its vector."""
        return {
            name: [one.what.record() | {"layers": sorted({point.layer for point in one.points})} for one in own]
            for name, own in self._bound.items()
        }

    def marks(self, branch: str, messages: Conversation, prefill: str, prompt: Prompt, where: str) -> Marks:
        """What a branch does to the tokens of a prompt and to those after it.

        Raises UserError, which begins with `where`, for a place that the prompt lacks.
        """
        touched: list[list[Touch]] = [[] for _ in prompt.ids]
        answer: list[Touch] = []
        for order, bound in enumerate(self._bound[branch]):
            try:
                tokens = self._tokens(bound.what, messages, prefill, prompt)
                n = 1 if bound.values is None else len(bound.values)
                if n > 1 and (bound.what.answer or n != len(tokens)):
                    after = " and what follows the prompt" if bound.what.answer else ""
                    raise UserError(f"{bound.what.title}: has values for {n} tokens, and edits {len(tokens)}{after}")
            except UserError as error:
                raise UserError(f"{where}: {error}") from None
            for row, token in enumerate(tokens):
                touched[token].append(Touch(order, bound, row if n > 1 else 0))
            if bound.what.answer:
                answer.append(Touch(order, bound, 0))
        return Marks(tuple(_mark(one) for one in touched), _mark(answer))

    def _tokens(self, what: Intervention, messages: Conversation, prefill: str, prompt: Prompt) -> list[int]:
        """Those of the prompt that an edit touches, ascending."""
        named = {f"{what.title}, {i}" if i else what.title: one for i, one in enumerate(what.positions)}
        places = find_places(self.chat, messages, prefill, prompt, named) if named else ()
        return sorted({place.token for place in places})

    def queries(self, queries: Sequence[Query]) -> list[Query]:
        """Every query once more for each branch, named `<read-out>/<branch>`.

        Raises UserError, naming the read-out, for one that was not compiled by `reader.query`.
        """
        made = []
        for branch in self._bound:
            for query in queries:
                where = f"read-out {query.readout_id}"
                if query.messages is None:
                    raise UserError(f"{where}: its conversation is not known; make it by `reader.query` to edit it")
                marks = self.marks(branch, query.messages, query.prefill, query.prompt, where)
                made.append(replace(query, readout_id=f"{query.readout_id}/{branch}", marks=marks))
        return made


def _mark(touches: list[Touch]) -> Mark | None:
    return tuple(touches) or None


def _bind(what: Intervention, model: "PreTrainedModel") -> Bound:
    layers = layer_numbers(what.layers, len(blocks(model)), what.title)
    if what.vector and (n_layers := what.vector.by_token_and_layer().shape[1]) not in (1, len(layers)):
        raise UserError(f"{what.title}: has values for {n_layers} layers, and edits {len(layers)}")
    for vector in what.held:
        for site in what.sites:
            if (width := vector.values.shape[-1]) != (own := _width(model, site)):
                raise UserError(f"{what.title}: its vector has {width} entries, {site} of this model {own}")
    points = {Point(layer, site): i for i, layer in enumerate(layers) for site in what.sites}
    told = json.dumps([what.record(), layers], sort_keys=True, default=str)
    return Bound(what, points, hashlib.sha256(told.encode()).hexdigest()[:16])


def _width(model: "PreTrainedModel", site: Site) -> int:
    return head_widths(model)[1] if site == "head_out" else int(model.config.get_text_config().hidden_size)
