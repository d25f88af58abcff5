"""Positions by meaning and spans by what they say, and the tokens of a prompt that they mean.

The tokens of a message are those that hold its own text, without what the template puts around it; a token that
reaches over its edge is among them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import Field, model_validator

from ...base.errors import UserError
from ...base.settings import Settings
from .chat import ChatRenderer, Conversation, Message, Prompt


class Position(Settings):
    """Where in a prompt to read."""

    at: Literal["last", "before_answer", "thought", "before", "end", "mean", "each"] = "end"
    """`last`: the prompt's last token. `before_answer`: the last token before the answer begins, hence before a
    prefill. `thought`: the last token of the thought before the answer. `before`: the last token before a message's own
    text, or before `text`. `end`: its last token. `mean`: the mean over it. `each`: every token of it by itself;
    without `message` and `text` every token of the prompt."""
    message: int | None = None
    """For `before`, `end`, `mean` and `each`: which message, from 0, or from the end if negative."""
    text: str | None = None
    """The span that is meant: words of the message, or, without one, of the conversation; None: all of the message."""
    occurrence: int | None = Field(default=None, ge=0)
    """Which one, from 0, where `text` stands there several times; None: it stands there once."""

    @model_validator(mode="after")
    def _says_which(self) -> "Position":
        within = self.message is not None or self.text is not None
        if within and self.at in ("last", "before_answer", "thought"):
            raise ValueError("`message` and `text` go with `at: before`, `end`, `mean` or `each`")
        if not within and self.at in ("before", "end", "mean"):
            raise ValueError("`at: before`, `end` and `mean` need a `message` or a `text`")
        if self.text == "":
            raise ValueError("`text` is empty; leave it out for a whole message")
        if self.occurrence is not None and self.text is None:
            raise ValueError("`occurrence` is of a `text`; give both, or leave it out")
        return self


LAST, PROMPT = Position(at="last"), Position(at="each")
PLAIN = ("last", "before_answer", "prompt")
"""Positions that need no more than a word; `prompt` is each token of it."""


def plain_position(word: str) -> Position | None:
    """The position that a word of `PLAIN` names; None if it names none."""
    if word not in PLAIN:
        return None
    return Position(at="each" if word == "prompt" else word)  # pyright: ignore[reportArgumentType]


Positions = Mapping[str, Position]
"""Name -> where."""


class ResolvedPosition(NamedTuple):
    """A position in a prompt."""

    position: str
    """Its name."""
    token: int
    """Index of the token in the prompt; for a mean, of the last one."""
    length: int
    """Over how many tokens, up to it, the mean is taken; 1: the token itself."""


def find_places(
    chat: ChatRenderer, messages: Conversation, prefill: str, prompt: Prompt, positions: Positions
) -> tuple[ResolvedPosition, ...]:
    """The place of each position in a rendered prompt; of one that means each token, the place of each.

    Raises UserError, naming the position, for one that the prompt lacks, and for a text that stands there several times
    where it is not said which one is meant.
    """
    every = list(range(len(prompt.ids)))
    known = {"last": every[-1:]} | ({"thought": [prompt.thought[-1]]} if prompt.thought else {})
    places = {
        name: [ResolvedPosition(name, token, 1) for token in tokens]
        for name, position in positions.items()
        if (tokens := every if position == PROMPT else known.get(position.at))
    }
    if in_text := {name: position for name, position in positions.items() if name not in places}:
        places |= _find_in_text(chat, messages, prefill, prompt, in_text)
    return tuple(place for name in positions for place in places[name])


def _find_in_text(
    chat: ChatRenderer, messages: Conversation, prefill: str, prompt: Prompt, positions: Positions
) -> dict[str, list[ResolvedPosition]]:
    """Those that are places in the rendered text."""
    rendered = chat.text(messages)
    begun = chat.begun(messages, prefill)
    tokens = chat.characters(begun)
    places = {}
    for name, position in positions.items():
        if position.at == "thought":
            raise UserError(f"position {name!r}: no thought stands before the answer")
        if position.at == "before_answer" and prompt.thought is not None:
            raise UserError(f"position {name!r}: after a thought `before_answer` is not known; take `last`")
        start, stop = 0, len(begun)
        if position.at == "before_answer":
            stop = len(rendered)
        else:
            start, stop = _characters(chat, messages, rendered, position, f"position {name!r}")
        if position.at == "before":
            start, stop = 0, start
        inside = [i for i, (first, end) in enumerate(tokens) if first < min(stop, end) and end > start]
        if not inside:
            raise UserError(f"position {name!r}: nothing stands before message {position.message}")
        if position.at == "each":
            places[name] = [ResolvedPosition(name, token, 1) for token in inside]
        else:
            places[name] = [ResolvedPosition(name, inside[-1], len(inside) if position.at == "mean" else 1)]
    return places


def _characters(
    chat: ChatRenderer, messages: Conversation, text: str, position: Position, where: str
) -> tuple[int, int]:
    """From where to where in the rendered `text` the message of a position goes, or its span."""
    numbers = range(len(messages)) if position.message is None else [position.message]
    edges = [
        _message_characters(chat, messages, text, number, where)
        for number in numbers
        if position.message is not None or messages[number]["content"].strip()
    ]
    if position.text is None:
        (only,) = edges
        return only
    looked = "the conversation" if position.message is None else f"message {position.message}"
    occurrences = [at for start, stop in edges for at in _occurrences(text, start, stop, position.text)]
    wanted = position.occurrence
    if not occurrences:
        raise UserError(
            f"{where}: {looked} has no {position.text!r} in it: {' | '.join(text[a:b] for a, b in edges)!r}"
        )
    if wanted is None and len(occurrences) > 1:
        raise UserError(
            f"{where}: {position.text!r} stands {len(occurrences)} times in {looked}; say which one by `occurrence` "
            "(from 0)" + (" or `message`" if position.message is None else "")
        )
    if (wanted or 0) >= len(occurrences):
        raise UserError(f"{where}: occurrence {wanted} of {position.text!r}: {looked} has {len(occurrences)}, from 0")
    at = occurrences[wanted or 0]
    return at, at + len(position.text)


def _occurrences(text: str, start: int, stop: int, part: str) -> list[int]:
    """Where a part begins between two characters, overlapping ones included."""
    places = []
    while (at := text.find(part, start, stop)) >= 0:
        places.append(at)
        start = at + 1
    return places


def _message_characters(
    chat: ChatRenderer, messages: Conversation, text: str, number: int, where: str
) -> tuple[int, int]:
    """From where to where in the rendered text a message goes. Raises UserError, which begins with `where`."""
    if not -len(messages) <= number < len(messages):
        raise UserError(f"{where}: there is no message {number}; the conversation has {len(messages)}")
    edges = _message_texts(chat, messages, text)
    if edges is None:
        raise UserError(f"{where}: the chat template rewrites messages; `last` and `before_answer` remain")
    start, stop = edges[number]
    if start == stop:
        raise UserError(f"{where}: message {number} is empty")
    return start, stop


def _message_texts(chat: ChatRenderer, messages: Conversation, text: str) -> list[tuple[int, int]] | None:
    """Where in the rendered `text` each message's own text stands; None if the template changes it.

    The template is rendered with marks in place of the messages. What stands between the marks is what it puts
    around them, so that a message is not mistaken for a part of the template that says the same.
    """
    marks = [f"\ue000{i}\ue001" for i in range(len(messages))]
    marked = chat.text([Message(role=m["role"], content=mark) for m, mark in zip(messages, marks, strict=True)])
    edges, rebuilt = [], ""
    for message, mark in zip(messages, marks, strict=True):
        around, _, marked = marked.partition(mark)
        rebuilt += around
        ways = (message["content"], message["content"].strip())  # some templates strip
        content = next((way for way in ways if text.startswith(way, len(rebuilt))), "")
        edges.append((len(rebuilt), len(rebuilt) + len(content)))
        rebuilt += content
    return edges if rebuilt + marked == text else None


# Spans: every token of a prompt under one name, by what it says: a message, words in it, or what stands around.

TEMPLATE, PREFILL, LAST_TOKEN = "template", "prefill", "last token"
"""What the template puts around the messages; how the answer begins; and the token after which it is read."""


@dataclass(frozen=True)
class Span:
    """Tokens of a message's own text."""

    message: int
    """From 0, or from the end if negative."""
    text: str | None = None
    """Those alone that hold this, where it first stands in the message; None: all of them."""


def find_spans(
    chat: ChatRenderer, messages: Conversation, prefill: str, spans: Mapping[str, Span]
) -> dict[str, tuple[int, ...]]:
    """Span -> its tokens in the prompt, ascending; each token is in one span.

    The last token is a span of its own. Of the `spans`, in their order, each has those of its tokens that none before
    it has; then comes the prefill, and what is left is the template's.

    Raises UserError, naming the span, for one that the prompt lacks or that others leave nothing.
    """
    if taken := [name for name in spans if name in (TEMPLATE, PREFILL, LAST_TOKEN)]:
        raise UserError(f"span {taken[0]!r}: every prompt has one of that name; choose another")
    text = chat.text(messages)
    begun = chat.begun(messages, prefill)
    tokens = chat.characters(begun)
    tokens_of: dict[str, tuple[int, ...]] = {}
    free = list(range(len(tokens) - 1))

    def take(name: str, start: int, stop: int) -> None:
        tokens_of[name] = tuple(i for i in free if tokens[i][0] < stop and tokens[i][1] > start)
        free[:] = [i for i in free if i not in tokens_of[name]]

    for name, span in spans.items():
        place = Position(message=span.message, text=span.text, occurrence=None if span.text is None else 0)
        take(name, *_characters(chat, messages, text, place, f"span {name!r}"))
        if not tokens_of[name]:
            raise UserError(f"span {name!r}: its tokens are all in the spans before it; leave it out")
    take(PREFILL, len(text), len(begun))
    tokens_of[TEMPLATE], tokens_of[LAST_TOKEN] = tuple(free), (len(tokens) - 1,)
    return {name: tokens for name, tokens in tokens_of.items() if tokens}
