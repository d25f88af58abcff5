import re
from typing import Any

import pytest

from doxascope import UserError
from doxascope.hooks.prompts.chat import ChatRenderer, Message
from doxascope.hooks.prompts.places import Span, find_spans

TALK: list[Message] = [
    {"role": "system", "content": "We play with apple and stone."},
    {"role": "user", "content": "Is it apple, is it?"},
    {"role": "assistant", "content": "No."},
]
SPANS = {"word": Span(1, "apple"), "question": Span(1), "answer": Span(-1)}


def texts(chat: ChatRenderer, spans: dict[str, Span], prefill: str = "I say") -> dict[str, str]:
    ids = chat.render(TALK, prefill).ids
    found = find_spans(chat, TALK, prefill, spans)
    assert sorted(token for tokens in found.values() for token in tokens) == list(range(len(ids)))
    return {name: str(chat.tokenizer.decode([ids[token] for token in tokens])) for name, tokens in found.items()}


@pytest.fixture(params=["plain", "own"])
def chat(request: pytest.FixtureRequest, smollm: Any) -> ChatRenderer:
    return ChatRenderer(smollm.tokenizer, request.param)


def test_every_token_is_in_one_span(chat: ChatRenderer) -> None:
    said = texts(chat, SPANS)
    assert said["word"].strip() == "apple"
    assert said["question"].replace(" ", "") == "Isit,isit?"
    assert said["answer"].strip() == "No."
    assert (said["prefill"].strip(), said["last token"].strip()) == ("I", "say")
    assert TALK[0]["content"] in said["template"]
    assert "prefill" not in texts(chat, SPANS, prefill="")


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ({"word": Span(1, "pear")}, "span 'word': message 1 has no 'pear' in it: 'Is it apple, is it?'"),
        ({"word": Span(0, "Is it")}, "span 'word': message 0 has no 'Is it' in it"),
        ({"reply": Span(7)}, "span 'reply': there is no message 7; the conversation has 3"),
        ({"question": Span(1), "word": Span(1, "apple")}, "span 'word': its tokens are all in the spans before it"),
        ({"prefill": Span(1)}, "span 'prefill': every prompt has one of that name"),
    ],
)
def test_a_span_that_a_prompt_lacks_is_refused(chat: ChatRenderer, spans: dict[str, Span], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        find_spans(chat, TALK, "", spans)
