import logging
from collections.abc import Callable
from typing import Any

import pytest

from doxascope.base.errors import UserError
from doxascope.hooks.prompts.chat import Boundary, ChatRenderer, Message

CHAT: list[Message] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Is it coral?"},
    {"role": "assistant", "content": "No."},
    {"role": "user", "content": "Which word did you choose?"},
]
REFUSES_SYSTEM = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)


def test_ids_are_those_of_the_model_s_own_template(smollm: Any) -> None:
    own = smollm.tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, tokenize=True)["input_ids"]
    assert list(smollm.reader.chat.render(CHAT).ids) == own


def test_a_continuation_is_tokenised_as_in_the_whole_text(smollm: Any) -> None:
    chat, tokenizer = smollm.reader.chat, smollm.tokenizer
    text = tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, tokenize=False)
    for prefill in ("", "The word I chose is"):
        prompt = chat.render(CHAT, prefill)
        assert prompt.boundary.anchor is not None
        for form in (" coral", ' "Coral', "I chose radio", "1"):
            if prefill and not form.startswith(" "):
                continue
            whole = tokenizer(text + prefill + form, add_special_tokens=False)["input_ids"]
            (path,) = chat.continuations(prompt.boundary, [form])
            assert list(prompt.ids + path) == whole


def test_a_prompt_whose_ids_change_is_refused_with_its_tokens(smollm: Any) -> None:
    prompt = smollm.reader.chat.render(CHAT, "The word I chose is ")
    with pytest.raises(UserError, match=r"'coral' cannot follow the prompt.*' is', ' '.*' is', ' coral'"):
        smollm.reader.chat.continuations(prompt.boundary, ["coral"])
    with pytest.raises(UserError, match="cannot follow"):
        smollm.reader.chat.continuations(prompt.boundary, [""])


def test_no_bos_is_added_to_what_the_template_wrote(make_tokenizer: Callable[..., Any]) -> None:
    tokenizer = make_tokenizer(bos=True)
    assert tokenizer("a")["input_ids"][0] == tokenizer.bos_token_id
    assert tokenizer.bos_token_id not in ChatRenderer(tokenizer, "own").render(CHAT).ids


def test_a_template_without_system_role_gets_it_in_the_first_user_turn_and_says_so_once(
    make_tokenizer: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = make_tokenizer(chat_template=REFUSES_SYSTEM)
    with caplog.at_level(logging.WARNING, "doxascope"):
        chat = ChatRenderer(tokenizer, "own")
        rendered = [tokenizer.decode(chat.render(CHAT).ids) for _ in range(2)]
    assert "user\nBe brief.\n\nIs it coral?" in rendered[0]
    assert sum("no system role" in record.message for record in caplog.records) == 1


def test_a_model_without_template_must_choose_one(make_tokenizer: Callable[..., Any]) -> None:
    tokenizer = make_tokenizer(chat_template=None)
    with pytest.raises(UserError, match="no chat template; choose `template: plain`"):
        ChatRenderer(tokenizer, "own")
    plain = ChatRenderer(tokenizer, "plain").render(CHAT)
    assert tokenizer.decode(plain.ids).endswith("User: Which word did you choose?\nAssistant:")
    assert plain.boundary == Boundary(None, tokenizer.decode(plain.ids), " ")
    assert tokenizer.decode(ChatRenderer(tokenizer, "none").render(CHAT[:2]).ids) == "Be brief.\nIs it coral?"


def test_control_tokens_in_a_message_are_refused(smollm: Any) -> None:
    with pytest.raises(UserError, match=r"message 0: contains the control token '<\|im_end\|>'"):
        smollm.reader.chat.render([{"role": "user", "content": "hi<|im_end|>"}])


def test_an_empty_prompt_is_refused(make_tokenizer: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match="empty"):
        ChatRenderer(make_tokenizer(chat_template=None), "none").render([])


@pytest.mark.parametrize(("template", "text"), [("plain", "User: Hi\nAssistant:"), ("none", "Hi")])
def test_without_a_template_a_text_begins_as_the_tokenizer_begins_it(
    make_tokenizer: Callable[..., Any], template: str, text: str
) -> None:
    for bos in (True, False):
        tokenizer = make_tokenizer(chat_template=None, bos=bos)
        rendered = ChatRenderer(tokenizer, template).render([{"role": "user", "content": "Hi"}])
        assert list(rendered.ids) == tokenizer(text)["input_ids"]


@pytest.mark.parametrize(
    ("template", "said", "text"),
    [
        ("plain", "Yes", "User: Hi\nAssistant: Yes"),
        ("plain", " Yes", "User: Hi\nAssistant: Yes"),
        ("plain", "\nYes", "User: Hi\nAssistant:\nYes"),
        ("none", "Yes", "Hi Yes"),
    ],
)
def test_raw_text_gets_the_one_space_that_it_needs(
    make_tokenizer: Callable[..., Any], template: str, said: str, text: str
) -> None:
    """Whether it is an option after the prompt, or how the answer begins, or what was said before."""
    tokenizer = make_tokenizer(chat_template=None)
    chat = ChatRenderer(tokenizer, template)
    hi: list[Message] = [{"role": "user", "content": "Hi"}]
    prompt = chat.render(hi)
    (path,) = chat.continuations(prompt.boundary, [said])
    assert tokenizer.decode(prompt.ids + path) == text
    begun = chat.render(hi, said)
    assert tokenizer.decode(begun.ids) == text
    assert begun.boundary.gap == ""
    if template == "plain":
        past = chat.render([*hi, {"role": "assistant", "content": said}, *hi])
        assert past.prefilled is not None
        ((turn),) = past.prefilled
        assert tokenizer.decode(past.ids[turn.start : turn.stop - 1]) == text.removeprefix("User: Hi\nAssistant:")


def test_text_that_ends_in_white_space_gets_no_other(make_tokenizer: Callable[..., Any]) -> None:
    chat = ChatRenderer(make_tokenizer(chat_template=None), "none")
    assert chat.render([{"role": "user", "content": "Answer:\n"}]).boundary.gap == ""
    assert ChatRenderer(make_tokenizer(), "own").render(CHAT).boundary.gap == ""
