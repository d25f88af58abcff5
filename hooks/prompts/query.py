"""From conversations to queries: the half of a read-out that needs the tokenizer but no weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

from ..errors import UserError
from ..model.loading import TextSide
from ..model.points import Point
from ..model.spec import ModelSpec
from .chat import ChatRenderer, Message, Prompt
from .options import Option, OptionPaths, PathFinder, Terminators, token_texts
from .places import Positions, ResolvedPosition, find_places

if TYPE_CHECKING:
    import torch

    from ..edits.marks import Marks


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
        self.context = text.context
        self.chat = ChatRenderer(text.tokenizer, spec.template, spec.thinking, spec.date)
        self._text, self._own = text, tuple(terminators)
        self._finder = cache(self._make_finder)
        self.terminators = self._finder(self._own).terminators

    def _make_finder(self, terminators: tuple[str, ...]) -> PathFinder:
        known = self._token_texts
        return PathFinder(self.chat, Terminators(self._text.tokenizer, terminators, self._text.end_ids, known))

    @cached_property
    def _token_texts(self) -> list[str]:
        """Of the whole vocabulary, which takes seconds to decode where it is large."""
        return token_texts(self._text.tokenizer)

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
            readout_id: its name.
            messages: the conversation.
            options: the answers.
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
        longest = len(prompt.ids) + int(paths.graft.lengths.max())
        if self.context is not None and longest > self.context:
            raise UserError(
                f"read-out {readout_id}: prompt and option take {longest} tokens, the model takes {self.context}; "
                "shorten the conversation"
            )
        return Query(readout_id, prompt, paths, finder.terminators, places, messages=tuple(messages), prefill=prefill)
