from typing import Any

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, PhiConfig, PhiForCausalLM

from doxascope.hooks.model.head import SLICE, Head

SIZES: dict[str, Any] = {
    "vocab_size": SLICE + 100,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "initializer_range": 1.0,
}


@pytest.mark.parametrize("name", ["capped", "biased"])
def test_a_few_tokens_have_the_probability_that_they_have_among_all(name: str) -> None:
    torch.manual_seed(0)
    model = (
        Gemma2ForCausalLM(Gemma2Config(**SIZES, head_dim=8, final_logit_softcapping=2.0))
        if name == "capped"
        else PhiForCausalLM(PhiConfig(**SIZES))
    )
    if name == "biased":
        torch.nn.init.normal_(model.lm_head.bias)
    head, hidden = Head(model), torch.randn(3, 5, 16)
    rows, tokens = [0, 4, 4], [7, SLICE, SLICE + 99]
    few = head.token_log_probs(hidden, rows, tokens)
    torch.testing.assert_close(few, head.log_probs(hidden)[:, rows, tokens])


@pytest.mark.parametrize("softcap", [None, 2.0])
def test_passing_numbers_are_the_same_to_the_bit_in_the_same_place(softcap: float | None) -> None:
    torch.manual_seed(0)
    head = Head(Gemma2ForCausalLM(Gemma2Config(**SIZES, head_dim=8, final_logit_softcapping=softcap)))
    hidden = torch.randn(9, 16)
    kept = [head.log_probs(hidden[:n]) for n in (4, 9, 3)]
    for n, expected in zip((4, 9, 3), kept, strict=True):
        assert torch.equal(head.log_probs(hidden[:n], passing=True), expected)
    plain = torch.nn.functional.linear(hidden, head.weight)
    plain = plain if softcap is None else torch.tanh(plain / softcap) * softcap
    assert torch.equal(kept[1], plain.log_softmax(-1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_cpu_takes_weights_of_half_precision_as_single(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model: Any = PhiForCausalLM(PhiConfig(**SIZES)).to(dtype)
    hidden = torch.randn(7, 16).to(dtype)
    exact = hidden.double() @ model.lm_head.weight.double().T + model.lm_head.bias.double()
    torch.testing.assert_close(Head(model).log_probs(hidden).double(), exact.log_softmax(-1), rtol=0, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_gpu_sums_products_of_half_precision_in_single(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model: Any = PhiForCausalLM(PhiConfig(**SIZES))
    model = model.to("cuda", dtype)
    torch.nn.init.normal_(model.lm_head.bias)
    head, hidden = Head(model), torch.randn(7, 16, device="cuda", dtype=dtype)
    assert head.weight.dtype == dtype
    exact = hidden.double() @ model.lm_head.weight.double().T + model.lm_head.bias.double()
    torch.testing.assert_close(head.log_probs(hidden).double(), exact.log_softmax(-1), rtol=0, atol=1e-4)
