from typing import Any

import pytest

from doxascope import UserError
from doxascope.hooks.generation.generated_texts import Request
from doxascope.hooks.generation.sampling import Sampling
from doxascope.hooks.prompts.chat import Message
from doxascope.hooks.prompts.options import make_options

LONG: list[Message] = [{"role": "user", "content": "which word did you choose " * 400}]
OPTIONS = make_options(["apple", "stone"])


def test_a_prompt_that_is_longer_than_the_context_is_refused_by_name(tiny: Any) -> None:
    with pytest.raises(
        UserError, match=r"read-out r7: prompt and option take \d+ tokens, the model takes 1024; shorten"
    ):
        tiny.reader.query("r7", LONG, OPTIONS)


def test_a_prompt_that_leaves_no_room_for_an_answer_is_refused_by_name(tiny: Any) -> None:
    prompt = tiny.reader.chat.render([{"role": "user", "content": "which word"}])
    with pytest.raises(UserError, match=r"read-out r7: prompt and answer take up to \d+ tokens.* lower max_new_tokens"):
        tiny.sample([Request("r7", prompt, range(1))], Sampling(max_new_tokens=1020), seed=0)


def test_an_option_that_cannot_follow_the_prompt_is_refused_by_name(tiny: Any) -> None:
    with pytest.raises(UserError, match=r"read-out r7: 'stone' cannot follow the prompt: its last tokens"):
        tiny.reader.query(
            "r7", [{"role": "user", "content": "which"}], make_options(["stone", "river"], ["{option}"]), "which word "
        )
