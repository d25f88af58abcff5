"""Messages to token ids, once. Below this module there are no strings.

A prompt is rendered by the model's own template and tokenised without adding special tokens, so that no BOS
is there twice. What the model could say next is tokenised *in place*: `ChatRenderer.continuations` gives the ids of a
text as it follows the prompt, and refuses when the text would change the ids of the prompt itself.
"""

import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, cast

from ...base.errors import UserError, in_one_line, nearest
from ..model.spec import DAY
from .template import ChatTemplate, WhatIsSaid
from .tokenising import Tokeniser

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

log = logging.getLogger("doxascope")

THINK, CLOSE = "<think>", "</think>"
AFTER_THOUGHT = "\n\n"
"""The text between a thought and the answer, in the templates and in what such models write."""


NEAR = 100
"""Characters at the end of a prompt in which its last special token is looked for first."""
HALF = re.compile("[\ud800-\udfff]")
REMEMBERED = 1024
"""Rendered conversations: the questions of one item ask about few."""
Role = Literal["system", "user", "assistant"]


class Message(TypedDict):
    """One turn of a conversation."""

    role: Role
    content: str


Conversation = Sequence[Message]


ROLES: tuple[str, ...] = ("system", "user", "assistant")
"""Who may speak."""
KEYS = Message.__required_keys__
_Turns = tuple[tuple[Role, str], ...]


def as_conversations(messages: str | Conversation | Sequence[str | Conversation]) -> list[Conversation]:
    """A bare string is one user turn, one conversation is a list of one.

    >>> as_conversations("Is the sky green?")
    [[{'role': 'user', 'content': 'Is the sky green?'}]]

    Raises UserError for anything else.
    """
    if isinstance(messages, str):
        return [[Message(role="user", content=messages)]]
    if isinstance(messages, Mapping) or not isinstance(messages, Sequence) or not len(messages):
        kind = "nothing" if isinstance(messages, Sequence) else type(messages).__name__
        raise UserError(f"messages: {kind} is given; give a question, a list of messages, or a list of either")
    several = cast(Sequence[str | Conversation], [messages] if isinstance(messages[0], Mapping) else messages)
    conversations: list[Conversation] = []
    for given in several:
        if not isinstance(given, str | Sequence):
            raise UserError(f"messages: {type(given).__name__} is among them; give a question, or a list of messages")
        conversations.append([Message(role="user", content=given)] if isinstance(given, str) else given)
        check_messages(conversations[-1])
    return conversations


def check_messages(messages: Conversation) -> None:
    """Raise UserError, naming the message, for one that is no turn of a conversation."""
    for i, message in enumerate(messages):
        plain = type(message) is dict and message.keys() == KEYS
        if plain and type(message["content"]) is str and message["role"] in ROLES:
            continue  # as almost every one is
        if not isinstance(message, Mapping):
            raise UserError(f"message {i}: is {type(message).__name__}; give {{'role': ..., 'content': ...}}")
        if missing := [key for key in ("role", "content") if not isinstance(message.get(key), str)]:
            raise UserError(f"message {i}: {missing[0]!r} is {message.get(missing[0])!r}; give a text")
        if message["role"] not in ROLES:
            raise UserError(f"message {i}: role {message['role']!r}; {nearest(message['role'], ROLES)}")
        if more := [key for key, value in message.items() if key not in ("role", "content") and value]:
            raise UserError(f"message {i}: {more[0]!r} is not read; leave it out")


_template = lru_cache(4)(ChatTemplate)
"""Models that are loaded one after the other mostly have one template, whose process is kept."""


class Boundary(NamedTuple):
    """The end of a prompt, which is all of it that decides how a text that follows is tokenised."""

    anchor: int | None
    """The last special token, at which tokenisation starts anew; None if the prompt has none."""
    tail: str
    """The text after the anchor."""
    gap: str = ""
    """What a text that follows needs before it: raw text asks for a space where a chat template ends a line."""


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt."""

    ids: tuple[int, ...]
    boundary: Boundary
    prefilled: tuple[range, ...] | None = ()
    """The tokens of each prefilled (off-policy) assistant turn, with the token that closes it; None if the template
    writes a past turn otherwise than the model would have generated it."""
    thought: range | None = None
    """Where the thought before the answer lies, without the token that closes it; None if there is none to close."""


class ChatRenderer:
    """Renders conversations for one tokenizer.

    Args:
        template: `own`, `plain` or `none` (see `ModelSpec.template`).
        thinking: `off`, `on` or `closed` (see `ModelSpec.thinking`).
        day: the date that a template is told which asks for it.

    Raises UserError for `own` and a tokenizer without a chat template, for a thought and a template without a think
    block, and for no thought and a template that always opens one.
    """

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", template: str, thinking: str = "off", day: date = DAY
    ) -> None:
        if template == "own" and not tokenizer.chat_template:
            raise UserError("the model has no chat template; choose `template: plain` or `template: none` for it")
        self.tokenizer, self.template, self.thinking = tokenizer, template, thinking
        if template == "own":
            with in_one_line("the model's chat template"):
                self._own = _template(tokenizer.get_chat_template(), day)
        added = {str(token.content): (i, token.special) for i, token in tokenizer.added_tokens_decoder.items()}
        self._special = {text: i for text, (i, special) in added.items() if special or text in (THINK, CLOSE)}
        self._tokeniser = Tokeniser(tokenizer, self._special)
        self._rendered = lru_cache(REMEMBERED)(self._render)
        self._answered = lru_cache(REMEMBERED)(self._answer)
        self.close = self._special.get(CLOSE)
        """The token that ends a thought, if the model has one."""
        # Where the template writes no BOS, a text begins as the tokenizer lets it begin.
        begins = template != "own" and tokenizer("")["input_ids"][:1] == [tokenizer.bos_token_id]
        self._start = str(tokenizer.bos_token) if begins else ""
        self._said = WhatIsSaid()
        self._takes_system = self._system_role_works() if template == "own" else True
        self._opens = template == "own" and self._apply(HELLO).rstrip().endswith(THINK)
        self._refuse_wrong_thinking()

    def _refuse_wrong_thinking(self) -> None:
        if self.thinking == "off":
            if self._opens:
                raise UserError(
                    "the model's chat template opens a thought; set `thinking: on`, or `closed` for an empty one"
                )
        elif self.template != "own" or CLOSE not in str(self.tokenizer.chat_template):
            raise UserError(
                f"thinking {self.thinking!r}: the model's template has no think block; leave `thinking: off`"
            )
        elif self.close is None:
            raise UserError(f"thinking {self.thinking!r}: {CLOSE!r} is no token of the model; leave `thinking: off`")

    def render(self, messages: Conversation, prefill: str = "", *, own_turns: bool = False) -> Prompt:
        """The prompt that asks for the next assistant turn, which begins with `prefill`; with `thinking: on`, for the
        thought with which it begins.

        `own_turns`: the assistant's turns are the model's own, so that none is prefilled, and none is looked for.
        """
        turns = _turns(messages)
        text = self._begun(turns, prefill)
        (ids,) = self._tokenise([text])
        if not ids:
            raise UserError("prompt is empty; give at least one message")
        prefilled = () if own_turns else self._prefilled_turns(turns, ids)
        boundary = self._boundary(text, ids)
        return Prompt(tuple(ids), boundary if prefill else boundary._replace(gap=self._gap(text)), prefilled)

    def begun(self, messages: Conversation, prefill: str) -> str:
        """The text whose ids are those of the prompt, with the answer's beginning and the space before it."""
        return self._begun(_turns(messages), prefill)

    def _begun(self, turns: _Turns, prefill: str) -> str:
        text = self._rendered(turns)
        return text + _spaced(self._gap(text), prefill) if prefill else text

    def _gap(self, text: str) -> str:
        """What stands between a rendered text and an answer that does not begin with white space itself: nothing after
        a chat template, which says where an answer begins; a space after raw text.
        """
        return "" if self.template == "own" or text == self._start or text[-1:].isspace() else " "

    def text(self, messages: Conversation) -> str:
        """The text whose ids are those of the prompt, without a prefill."""
        return self._rendered(_turns(messages))

    def digest(self, messages: Conversation, prefill: str = "") -> str:
        """A digest of the rendered text, with its prefill: two read-outs with the same were asked the same."""
        return hashlib.sha256(self.begun(messages, prefill).encode()).hexdigest()[:16]

    def characters(self, text: str) -> list[tuple[int, int]]:
        """Which characters of a rendered text each of its tokens covers, from and to.

        Raises UserError for a tokenizer that cannot tell.
        """
        if not self.tokenizer.is_fast:
            raise UserError("the model's tokenizer does not tell which characters a token covers; capture at `last`")
        return self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]  # pyright: ignore[reportReturnType]

    def render_answer(
        self,
        messages: Conversation,
        prefill: str = "",
        thought: Sequence[int] | None = None,
        *,
        own_turns: bool = False,
    ) -> Prompt:
        """The prompt that asks for the answer itself, which begins with `prefill`.

        Args:
            messages: the conversation; it holds no thoughts.
            thought: with `thinking: on`, the ids that the model wrote before the token that closes the thought; None is
                an empty thought.
            own_turns: as for `render`.
        """
        if self.thinking != "on":
            return self.render(messages, prefill, own_turns=own_turns)
        question, tail = self.render(messages, own_turns=own_turns), AFTER_THOUGHT + prefill
        empty, closing = self._tokenise([self._open_thought(), CLOSE + tail])
        ids = (*question.ids, *(empty if thought is None else thought))
        within = range(len(question.ids), len(ids))
        return Prompt((*ids, *closing), Boundary(self.close, tail), question.prefilled, within)

    def _open_thought(self) -> str:
        return "\n" if self._opens else f"{THINK}\n\n"

    def _boundary(self, text: str, ids: list[int]) -> Boundary:
        for start in (max(0, len(text) - NEAR), 0):
            place, token = max(((text.rfind(token, start), token) for token in self._special), default=(-1, ""))
            if place >= 0:
                break
        else:
            return Boundary(None, text)
        # Tokenisation starts anew at a special token in every tokenizer known; where it does not, use the whole.
        tail = text[place + len(token) :]
        (alone,) = self._tokenise([token + tail])
        starts_anew = ids[-len(alone) :] == alone
        return Boundary(self._special[token], tail) if starts_anew else Boundary(None, text)

    def _prefilled_turns(self, turns: _Turns, ids: list[int]) -> tuple[range, ...] | None:
        """The places of the assistant turns: each must follow the prompt that would have asked for it."""
        spans = []
        for i, (role, content) in enumerate(turns):
            if role == "assistant":
                before, after = self._answered(turns[:i], content)
                if not before or ids[: len(before)] != before or ids[: len(after)] != after or len(ids) == len(after):
                    return None
                spans.append(range(len(before), len(after) + 1))
        return tuple(spans)

    def _answer(self, turns: _Turns, content: str) -> list[list[int]]:
        """The ids of a prompt, and those with an answer begun."""
        return self._tokenise([self._rendered(turns), self._begun(turns, content)])

    def continuations(self, boundary: Boundary, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The ids of each text as it follows a prompt with this end, canonically tokenised together with it. What does
        not begin with white space comes after the gap that the prompt leaves.

        Raises UserError, showing the tokens, if the prompt's own ids change when a text is appended: then no
        sequence of next tokens *is* that text, and its probability is not defined by the prompt's ids.
        """
        start = self._beginning(boundary)
        before, *after = self._tokenise([start, *(start + _spaced(boundary.gap, text) for text in texts)])
        for text, ids in zip(texts, after, strict=True):
            if ids[: len(before)] != before or len(ids) == len(before):
                raise UserError(
                    f"{text!r} cannot follow the prompt: its last tokens {self._shown(before[-3:])} become "
                    f"{self._shown(ids[max(0, len(before) - 3) :])}; change the prefill or the surface form, for "
                    "example by moving the space between them"
                )
        return [tuple(ids[len(before) :]) for ids in after]

    def changing(self, boundary: Boundary, texts: Sequence[str], ends: Sequence[str]) -> list[str | None]:
        """Of each text that follows a prompt with this end, the first of `ends` that changes its ids; None: none."""
        start = self._beginning(boundary)
        return self._tokeniser.changing([start + _spaced(boundary.gap, text) for text in texts], ends)

    def _beginning(self, boundary: Boundary) -> str:
        """All of a prompt with this end that decides how a text that follows is tokenised."""
        anchor = "" if boundary.anchor is None else str(self.tokenizer.convert_ids_to_tokens(boundary.anchor))
        return anchor + boundary.tail

    def _render(self, turns: _Turns) -> str:
        text = self._written(turns)
        if half := HALF.search(text):
            asked = any(HALF.search(content) for _, content in turns)
            whose = "a message" if asked else "what the model's chat template writes"
            raise UserError(f"prompt: {whose} holds {half[0]!a}, half of a character that takes two; take it out")
        return text

    def _written(self, turns: _Turns) -> str:
        messages: Conversation = [{"role": role, "content": content} for role, content in turns]
        for i, message in enumerate(messages):
            if injected := next((token for token in self._special if token in message["content"]), None):
                raise UserError(f"message {i}: contains the control token {injected!r}; take it out")
        if self.template == "none":
            return self._start + "\n".join(message["content"] for message in messages)
        if self.template == "plain":
            names = {"system": "", "user": "User: ", "assistant": ANSWER}
            lines = [names[m["role"]] + _spaced(" " * (m["role"] == "assistant"), m["content"]) for m in messages]
            return self._start + "\n".join([*lines, ANSWER])
        if not self._takes_system:
            messages = _fold_system(messages)
        empty = f"{self._open_thought()}{CLOSE}{AFTER_THOUGHT}" if self.thinking == "closed" else ""
        return self._apply(messages) + empty

    def _apply(self, conversation: Conversation) -> str:
        plain = [{"role": m["role"], "content": m["content"]} for m in conversation]
        variables = {**self.tokenizer.special_tokens_map, "enable_thinking": self.thinking != "off"}
        text = ""
        for messages in (*self._said.unheard(plain), plain):
            text = self._own.render(messages, **variables)
            self._said.require(messages, text)
        return text

    def _system_role_works(self) -> bool:
        probe: list[Message] = [{"role": "system", "content": "Sys-probe"}, *HELLO]
        try:
            works = "Sys-probe" in self._apply(probe)
        except UserError:
            works = False
        if not works:
            log.warning("the chat template has no system role: system text goes to the head of the first user turn")
        return works

    def _tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        return self._tokeniser.ids(texts)

    def _shown(self, ids: Sequence[int]) -> list[str]:
        return [self.tokenizer.decode([i]) for i in ids]  # type: ignore


ANSWER = "Assistant:"
"""In the plain template, what an answer follows."""
HELLO: list[Message] = [{"role": "user", "content": "Hello"}]


def _turns(messages: Conversation) -> _Turns:
    check_messages(messages)
    return tuple((message["role"], message["content"]) for message in messages)


def _spaced(gap: str, text: str) -> str:
    return text if not text or text[0].isspace() else gap + text


def _fold_system(messages: Conversation) -> list[Message]:
    """Put the system text at the head of the first user turn."""
    system = "\n\n".join(m["content"] for m in messages if m["role"] == "system")
    rest: list[Message] = [m for m in messages if m["role"] != "system"]
    if system and rest and rest[0]["role"] == "user":
        rest[0] = {"role": "user", "content": f"{system}\n\n{rest[0]['content']}"}
    elif system:
        rest.insert(0, {"role": "user", "content": system})
    return rest
