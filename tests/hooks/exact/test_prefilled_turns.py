"""Turns that were put into the model's mouth, and beliefs at other temperatures: both read off the same pass."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from doxascope.hooks.prompts.chat import ChatRenderer, Message
from doxascope.hooks.prompts.options import make_options

ASKED: list[Message] = [
    {"role": "system", "content": "Choose one of three words: coral, shirt, radio."},
    {"role": "user", "content": "Is it coral?"},
]
PREFILLED: list[Message] = [*ASKED, {"role": "assistant", "content": "No."}]
OPTIONS = make_options(["coral", "shirt", "radio"])


def test_a_prefilled_turn_is_as_likely_as_the_answer_itself(smollm: Any, noise: Callable[[Any], float]) -> None:
    """The turn is a continuation of the prompt that asks for it: sampling it would have this probability."""
    query = smollm.reader.query("prefilled", [*PREFILLED, {"role": "user", "content": "Which word?"}], OPTIONS)
    (reading,), *_ = smollm.read([query])
    prompt = list(smollm.reader.chat.render(ASKED).ids)
    answer = smollm.tokenizer("No.<|im_end|>")["input_ids"]
    with torch.inference_mode():
        logp = (
            smollm.model(torch.tensor([prompt + answer], device=smollm.model.device)).logits[0].log_softmax(dim=1).cpu()
        )
    steps = [float(logp[len(prompt) - 1 + i, token]) for i, token in enumerate(answer)]
    assert reading.prefilled_logp == pytest.approx(sum(steps), abs=noise(sum(steps)))
    assert smollm.read_plain(query).prefilled_logp == pytest.approx(sum(steps), abs=noise(sum(steps)))


def test_without_prefilled_turns_there_is_no_number(smollm: Any) -> None:
    (reading,), *_ = smollm.read([smollm.reader.query("free", ASKED, OPTIONS)])
    assert np.isnan(reading.prefilled_logp)


def test_a_template_that_rewrites_past_turns_hides_them(make_tokenizer: Any) -> None:
    template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ '> ' if m['role'] == 'assistant' }}"
        "{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    chat = ChatRenderer(make_tokenizer(chat_template=template), "own")
    assert chat.render([*PREFILLED, {"role": "user", "content": "Which?"}]).prefilled is None
    assert chat.render(ASKED).prefilled == ()


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_another_temperature_is_the_model_with_rescaled_logits(
    tiny: Any, temperature: float, noise: Callable[[Any], float]
) -> None:
    query = tiny.reader.query("t", ASKED, OPTIONS)
    (reading,), *_ = tiny.read([query], temperatures=[temperature])
    weight = tiny.model.lm_head.weight
    with torch.no_grad():
        weight /= temperature
    try:
        rescaled = tiny.read_plain(query)
    finally:
        with torch.no_grad():
            weight *= temperature
    np.testing.assert_allclose(reading.tempered[temperature], rescaled.logp, atol=noise(rescaled.logp))
    assert not np.allclose(reading.logp, rescaled.logp, atol=1e-2)
