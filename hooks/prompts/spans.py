"""Spans: every token of a prompt under one name, by what it says: a message, words in it, or what stands around."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import UserError
from .chat import ChatRenderer, Conversation
from .places import message_characters, part_characters

TEMPLATE, PREFILL, LAST = "template", "prefill", "last token"
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
    if taken := [name for name in spans if name in (TEMPLATE, PREFILL, LAST)]:
        raise UserError(f"span {taken[0]!r}: every prompt has one of that name; choose another")
    text = chat.text(messages)
    begun = chat.begun(messages, prefill)
    tokens = chat.characters(begun)
    found: dict[str, tuple[int, ...]] = {}
    free = list(range(len(tokens) - 1))

    def take(name: str, start: int, stop: int) -> None:
        found[name] = tuple(i for i in free if tokens[i][0] < stop and tokens[i][1] > start)
        free[:] = [i for i in free if i not in found[name]]

    for name, span in spans.items():
        take(name, *_characters(chat, messages, text, name, span))
        if not found[name]:
            raise UserError(f"span {name!r}: its tokens are all in the spans before it; leave it out")
    take(PREFILL, len(text), len(begun))
    found[TEMPLATE], found[LAST] = tuple(free), (len(tokens) - 1,)
    return {name: tokens for name, tokens in found.items() if tokens}


def _characters(chat: ChatRenderer, messages: Conversation, text: str, name: str, span: Span) -> tuple[int, int]:
    """From where to where in the rendered text a span goes."""
    start, stop = message_characters(chat, messages, text, span.message, f"span {name!r}")
    if span.text is None:
        return start, stop
    return part_characters(text, start, stop, span.text, f"span {name!r}: message {span.message}")
