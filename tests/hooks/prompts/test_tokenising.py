"""Texts are tokenised stretch by stretch only where that gives what tokenising them whole does."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxascope import UserError
from doxascope.hooks.prompts.tokenising import Tokeniser

SPECIAL = ("<|im_start|>", "<|im_end|>")
texts = st.lists(
    st.sampled_from([*SPECIAL, "user", "\n", " ", "Is it", " so? ", ".", "<|", "im_end|>", "a", " b", " 12", "\t é"]),
    max_size=12,
)


def test_stretches_and_wholes_have_the_same_ids(smollm: Any) -> None:
    tokeniser = Tokeniser(smollm.tokenizer, SPECIAL)

    @given(st.lists(texts, min_size=1, max_size=4))
    def check(drawn: list[list[str]]) -> None:
        written = ["".join(one) for one in drawn]
        assert tokeniser.ids(written) == smollm.tokenizer(written, add_special_tokens=False)["input_ids"]

    check()
    assert tokeniser._cut is not None, "this tokenizer does begin anew at special tokens"
    assert tokeniser._words is not None, "and at words"


def test_an_end_changes_a_text_where_tokenising_both_together_says_so(smollm: Any) -> None:
    tokeniser, ends = Tokeniser(smollm.tokenizer, SPECIAL), ["\n", ".", "s", " is", "<|im_end|>"]

    @given(texts)
    def check(drawn: list[str]) -> None:
        text = "".join(["user\n", *drawn])
        own, *more = smollm.tokenizer([text, *(text + end for end in ends)], add_special_tokens=False)["input_ids"]
        changing = [end for end, ids in zip(ends, more, strict=True) if ids[: len(own)] != own]
        assert tokeniser.changing([text], ends) == [changing[0] if changing else None]

    check()


def test_a_special_token_that_takes_the_space_beside_it_does_not_cut(make_tokenizer: Callable[..., Any]) -> None:
    from tokenizers import AddedToken

    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": [AddedToken("<greedy>", lstrip=True, special=True)]})
    written = ["word <greedy> word", "<greedy>word  <greedy>"]
    assert Tokeniser(tokenizer, ["<greedy>"]).ids(written) == tokenizer(written, add_special_tokens=False)["input_ids"]


def test_half_a_character_is_told(make_tokenizer: Callable[..., Any]) -> None:
    tokeniser = Tokeniser(make_tokenizer(), SPECIAL)
    with pytest.raises(UserError, match="half of a character"):
        tokeniser.ids(["whole", "half \ud83d"])
