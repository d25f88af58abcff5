"""Texts are tokenised stretch by stretch only where that gives what tokenising them whole does."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from doxascope.hooks.prompts.tokenising import Tokeniser

SPECIAL = ("<|im_start|>", "<|im_end|>")
texts = st.lists(
    st.sampled_from([*SPECIAL, "user", "\n", " ", "Is it", " so? ", ".", "<|", "im_end|>", "a"]), max_size=12
)


def test_stretches_and_wholes_have_the_same_ids(smollm: Any) -> None:
    tokeniser = Tokeniser(smollm.tokenizer, SPECIAL)

    @given(st.lists(texts, min_size=1, max_size=4))
    def check(drawn: list[list[str]]) -> None:
        written = ["".join(one) for one in drawn]
        assert tokeniser.ids(written) == smollm.tokenizer(written, add_special_tokens=False)["input_ids"]

    check()
    assert tokeniser._cut is not None, "this tokenizer does begin anew at special tokens"


def test_a_special_token_that_takes_the_space_beside_it_does_not_cut(make_tokenizer: Callable[..., Any]) -> None:
    from tokenizers import AddedToken

    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": [AddedToken("<greedy>", lstrip=True, special=True)]})
    written = ["word <greedy> word", "<greedy>word  <greedy>"]
    assert Tokeniser(tokenizer, ["<greedy>"]).ids(written) == tokenizer(written, add_special_tokens=False)["input_ids"]
