"""From conversations to queries, the half of a read-out that needs the tokenizer but no weights; and edited branches
beside the unedited one: which edits each has, and the queries that ask under them.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from ...base.errors import UserError
from ..edits.interventions import Bound, Intervention, Marks, Touch
from ..model.blocks import Point, blocks, head_widths, layer_numbers
from ..model.loading import TextSide
from ..model.spec import ModelSpec
from ..prompts.chat import ChatRenderer, Conversation, Message, Prompt
from ..prompts.options import Option, OptionPaths, PathFinder, Terminators, token_texts
from ..prompts.places import Positions, ResolvedPosition, find_places

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Swap:
    """What is put into a prompt."""

    tokens: tuple[int, ...]
    """[n] of the prompt, from 0: where."""
    rows: "Mapping[Point, torch.Tensor]"
    """Point -> [n, d_model]: what takes the place of these tokens' rows there."""


@dataclass(frozen=True)
class Query:
    """One read-out: after this prompt, which option?"""

    readout_id: str
    prompt: Prompt
    paths: OptionPaths
    terminators: Terminators
    """What closes its forms."""
    places: tuple[ResolvedPosition, ...] = ()
    """Where in the prompt a capture reads."""
    swap: Swap | None = None
    """Rows of another context, in which the prompt is read."""
    inner: bool = True
    """Whether a lens reads it, too, where there is one."""
    marks: "Marks | None" = None
    """The edits under which it is read; None: none."""
    messages: Sequence[Message] | None = None
    """The conversation that was asked, by which edits find their places; None: it is not known."""
    prefill: str = ""
    """How the answer was begun."""


class PromptReader:
    """Renders conversations for one model and finds the token paths of options after them."""

    def __init__(self, spec: ModelSpec, text: TextSide, terminators: Sequence[str]) -> None:
        self.context, self.text = text.context, text
        self.chat = ChatRenderer(text.tokenizer, spec.template, spec.thinking, spec.date)
        self._own = tuple(terminators)
        # Of the whole vocabulary, which takes seconds to decode where it is large.
        known = cache(lambda: token_texts(text.tokenizer))
        self._finder = cache(
            lambda closers: PathFinder(self.chat, Terminators(text.tokenizer, closers, text.end_ids, known()))
        )
        self.terminators = self._finder(self._own).terminators

    def query(
        self,
        readout_id: str,
        messages: Sequence[Message],
        options: tuple[Option, ...],
        prefill: str = "",
        *,
        thought: Sequence[int] | None = None,
        positions: Positions | None = None,
        terminators: tuple[str, ...] | None = None,
        own_turns: bool = False,
        spaced: bool = True,
    ) -> Query:
        """The query that asks, after `messages`, which option the assistant's next turn says; of a model that thinks,
        which its answer says after a thought (see `ChatRenderer.render_answer`).

        Args:
            prefill: how the assistant's turn already begins.
            thought: what a model that thinks wrote before its answer.
            positions: where a capture reads.
            terminators: what closes an option, where that is not what closes all others: numbers need it.
            own_turns: the assistant's turns are the model's own: what it gave to them is not read.
            spaced: whether a form gets the space that raw text leaves out before an answer (`Boundary.gap`).

        Raises UserError, naming the read-out, for a prompt that is longer than the model's context, or whose ids
        change when an option follows, or that lacks a position.
        """
        try:
            prompt = self.chat.render_answer(messages, prefill, thought, own_turns=own_turns)
            finder = self._finder(terminators or self._own)
            paths = finder.find(prompt.boundary if spaced else prompt.boundary._replace(gap=""), options)
            places = find_places(self.chat, messages, prefill, prompt, positions) if positions else ()
        except UserError as error:
            raise UserError(f"read-out {readout_id}: {error}") from error
        if (n_tokens := self.text.n_tokens) is not None:
            ids = (*prompt.ids, *(token for forms in paths.paths for path in forms for token in path))
            if (beyond := max(ids)) >= n_tokens:
                raise UserError(
                    f"read-out {readout_id}: the tokenizer gives the id {beyond}, and the model has embeddings of "
                    f"{n_tokens:,} tokens; it is another model's tokenizer, or has tokens that were added to it"
                )
        longest = len(prompt.ids) + int(paths.graft.lengths.max())
        if self.context is not None and longest > self.context:
            raise UserError(
                f"read-out {readout_id}: prompt and option take {longest} tokens, the model takes {self.context}; "
                "shorten the conversation"
            )
        return Query(readout_id, prompt, paths, finder.terminators, places, messages=tuple(messages), prefill=prefill)


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
    for name, branch in given.items():
        if not isinstance(name, str) or not name.isprintable() or name != name.strip() or not name or "/" in name:
            raise UserError(f"edits: branch {name!r}; give a name without '/' and blanks at its ends")
        several = [branch] if isinstance(branch, Intervention) else branch
        if isinstance(several, list | tuple) and not several:
            raise UserError(f"edits: {name} is empty; give {EDITS}, or leave it out")
        if not isinstance(several, list | tuple):
            raise UserError(f"edits: {name} holds {type(branch).__name__}; give a list of {EDITS}")
        if other := next((edit for edit in several if not isinstance(edit, Intervention)), None):
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
            name: [bound.setdefault(id(edit), _bind(edit, model)) for edit in branch]
            for name, branch in as_branches(edits).items()
        }

    @property
    def names(self) -> list[str]:
        """In their order."""
        return list(self._bound)

    @property
    def records(self) -> dict[str, list[dict[str, Any]]]:
        """Branch -> what each of its edits is, with the layers of this model and the digest of its vector."""
        return {
            name: [
                bound.what.record() | {"layers": sorted({point.layer for point in bound.points})} for bound in branch
            ]
            for name, branch in self._bound.items()
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
        return Marks(tuple(tuple(touches) or None for touches in touched), tuple(answer) or None)

    def _tokens(self, what: Intervention, messages: Conversation, prefill: str, prompt: Prompt) -> list[int]:
        """Those of the prompt that an edit touches, ascending."""
        named = {f"{what.title}, {i}" if i else what.title: position for i, position in enumerate(what.positions)}
        places = find_places(self.chat, messages, prefill, prompt, named) if named else ()
        return sorted({place.token for place in places})

    def queries(self, queries: Sequence[Query]) -> list[Query]:
        """Every query once more for each branch, named `<read-out>/<branch>`.

        Raises UserError, naming the read-out, for one that was not compiled by `reader.query`.
        """
        edited = []
        for branch in self._bound:
            for query in queries:
                where = f"read-out {query.readout_id}"
                if query.messages is None:
                    raise UserError(f"{where}: its conversation is not known; make it by `reader.query` to edit it")
                marks = self.marks(branch, query.messages, query.prefill, query.prompt, where)
                edited.append(replace(query, readout_id=f"{query.readout_id}/{branch}", marks=marks))
        return edited


def _bind(what: Intervention, model: "PreTrainedModel") -> Bound:
    layers = layer_numbers(what.layers, len(blocks(model)), what.title)
    if what.vector and (n_layers := what.vector.by_token_and_layer().shape[1]) not in (1, len(layers)):
        raise UserError(f"{what.title}: has values for {n_layers} layers, and edits {len(layers)}")
    for vector in what.vectors:
        for site in what.chosen_sites:
            wanted = head_widths(model)[1] if site == "head_out" else int(model.config.get_text_config().hidden_size)
            if (width := vector.values.shape[-1]) != wanted:
                raise UserError(f"{what.title}: its vector has {width} entries, {site} of this model {wanted}")
    points = {Point(layer, site): i for i, layer in enumerate(layers) for site in what.chosen_sites}
    record = json.dumps([what.record(), layers], sort_keys=True, default=str)
    return Bound(what, points, hashlib.sha256(record.encode()).hexdigest()[:16])


def branch_names(names: Mapping[str, Any], branch: str) -> dict[str, Any]:
    """The names of a read-out under a branch of edits, from those as it is; `edits` says the branch, too."""
    return {
        **names,
        "readout_id": f"{names['readout_id']}/{branch}",
        "of": names["readout_id"],
        "method": f"{names['method']} {branch}",
        "edits": branch,
    }
