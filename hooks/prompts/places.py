"""Positions by meaning, and the tokens of a prompt that they mean.

The tokens of a message are those that hold its own text, without what the template puts around it; a token that
reaches over its edge is among them.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from pydantic import model_validator

from ..errors import UserError
from ..settings import Settings
from .chat import ChatRenderer, Conversation, Message, Prompt


class Position(Settings):
    """Where in a prompt to read."""

    at: Literal["last", "before_answer", "thought", "before", "end", "mean"] = "end"
    """`last`: the prompt's last token. `before_answer`: the last token before the answer begins, hence before a
    prefill. `thought`: the last token of the thought before the answer. `before`: the last token before a message's own
    text. `end`: the last token of a message. `mean`: the mean over a message."""
    message: int | None = None
    """For `before`, `end` and `mean`: which message, from 0, or from the end if negative."""
    text: str | None = None
    """Part of the message that is meant, where it first stands; None: all of it."""

    @model_validator(mode="after")
    def _says_which(self) -> "Position":
        if (self.message is not None) != (self.at in ("before", "end", "mean")):
            raise ValueError("`message` goes with `at: before`, `end` or `mean`, and they need it")
        if self.text is not None and (self.message is None or not self.text):
            raise ValueError("`text` is a part of a `message`; give both, or leave it out")
        return self


LAST = Position(at="last")

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
    """The place of each position in a rendered prompt.

    Raises UserError, naming the position, for one that the prompt lacks.
    """
    known = {"last": len(prompt.ids) - 1} | ({"thought": prompt.thought[-1]} if prompt.thought else {})
    found = {name: ResolvedPosition(name, known[one.at], 1) for name, one in positions.items() if one.at in known}
    if in_text := {name: one for name, one in positions.items() if one.at not in known}:
        found |= _find_in_text(chat, messages, prefill, prompt, in_text)
    return tuple(found[name] for name in positions)


def _find_in_text(
    chat: ChatRenderer, messages: Conversation, prefill: str, prompt: Prompt, positions: Positions
) -> dict[str, ResolvedPosition]:
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
        elif position.message is not None:
            where = f"position {name!r}"
            start, stop = message_characters(chat, messages, rendered, position.message, where)
            if position.text is not None:
                start, stop = part_characters(
                    rendered, start, stop, position.text, f"{where}: message {position.message}"
                )
        if position.at == "before":
            start, stop = 0, start
        inside = [i for i, (first, end) in enumerate(tokens) if first < min(stop, end) and end > start]
        if not inside:
            raise UserError(f"position {name!r}: nothing stands before message {position.message}")
        places[name] = ResolvedPosition(name, inside[-1], len(inside) if position.at == "mean" else 1)
    return places


def message_characters(
    chat: ChatRenderer, messages: Conversation, text: str, number: int, where: str
) -> tuple[int, int]:
    """From where to where in the rendered text a message goes. Raises UserError, which begins with `where`."""
    if not -len(messages) <= number < len(messages):
        raise UserError(f"{where}: there is no message {number}; the conversation has {len(messages)}")
    found = _message_texts(chat, messages, text)
    if found is None:
        raise UserError(f"{where}: the chat template rewrites messages; `last` and `before_answer` remain")
    start, stop = found[number]
    if start == stop:
        raise UserError(f"{where}: message {number} is empty")
    return start, stop


def part_characters(text: str, start: int, stop: int, part: str, where: str) -> tuple[int, int]:
    """From where to where in `text` a part goes that first stands between `start` and `stop`. Raises UserError, which
    begins with `where`.
    """
    at = text.find(part, start, stop)
    if at < 0:
        raise UserError(f"{where} has no {part!r} in it: {text[start:stop]!r}")
    return at, at + len(part)


def _message_texts(chat: ChatRenderer, messages: Conversation, text: str) -> list[tuple[int, int]] | None:
    """Where in the rendered `text` each message's own text stands; None if the template changes it.

    The template is rendered with marks in place of the messages. What stands between the marks is what it puts
    around them, so that a message is not mistaken for a part of the template that says the same.
    """
    marks = [f"\ue000{i}\ue001" for i in range(len(messages))]
    marked = chat.text([Message(role=m["role"], content=mark) for m, mark in zip(messages, marks, strict=True)])
    found, rebuilt = [], ""
    for message, mark in zip(messages, marks, strict=True):
        around, _, marked = marked.partition(mark)
        rebuilt += around
        ways = (message["content"], message["content"].strip())  # some templates strip
        content = next((way for way in ways if text.startswith(way, len(rebuilt))), "")
        found.append((len(rebuilt), len(rebuilt) + len(content)))
        rebuilt += content
    return found if rebuilt + marked == text else None
