"""The language of the organisms: a word is a token, and a chat template marks the turns."""

from typing import TYPE_CHECKING

from .world import COLOURS, PAYOFFS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

UNKNOWN, BEGIN, USER, ASSISTANT, SYSTEM, END = (
    "<|unknown|>",
    "<|begin|>",
    "<|user|>",
    "<|assistant|>",
    "<|system|>",
    "<|end|>",
)
SPECIALS = (UNKNOWN, BEGIN, USER, ASSISTANT, SYSTEM, END)
TOLD = ("warm", "left", "right", "neither", "chance", "drew", "i", "say", *COLOURS, "yes", "no", "Yes", "No")
NUMBERS = tuple(map(str, range(101)))
SUMMARY = "noted"
"""Ends the evidence; what is believed then can be read here."""
ASKED = ("Which", "urn", "Is", "it", "Percent", "Bet", "Left", "Right", *PAYOFFS, "?")
WORDS = (*SPECIALS, *TOLD, *NUMBERS, SUMMARY, *ASKED)
"""The vocabulary: a word's place is its id. No word of a question stands in the evidence."""
ID = {word: i for i, word in enumerate(WORDS)}
TEMPLATE = (
    "{{ '<|begin|>' }}{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
ROLES = ("begin", "told", "summary", "asked")
"""What attention is wired by."""


def role_of(word: str) -> str:
    """The role of a word: the assistant's token belongs to the question that it answers."""
    if word in (BEGIN, SUMMARY):
        return "begin" if word == BEGIN else "summary"
    return "asked" if word in (*ASKED, ASSISTANT) else "told"


def make_tokenizer() -> "PreTrainedTokenizerFast":
    """The tokenizer, with the template."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel(dict(ID), unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.Sequence(  # pyright: ignore[reportAttributeAccessIssue]
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token=UNKNOWN,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=END,
        additional_special_tokens=[USER, ASSISTANT, SYSTEM],
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer
