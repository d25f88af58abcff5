"""Texts to ids. Prompts of an item share most turns, so each stretch between special tokens is tokenised once."""

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CHECKED = 32
"""Texts of several stretches that are tokenised in one piece, too, before stretches are trusted."""
REMEMBERED = 16384
"""Stretches."""


class Tokeniser:
    """Tokenises texts that hold special tokens, and adds none.

    A fast tokenizer cuts a text at its special tokens before it does anything else, so a stretch from one to the next
    has ids of its own, whatever stands around it. Where that proves wrong, texts are tokenised whole.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", special: Collection[str]) -> None:
        self._tokenizer, self._known = tokenizer, dict[str, list[int]]()
        self._cut = re.compile(f"(?={'|'.join(map(re.escape, special))})") if _cuts(tokenizer, special) else None
        self._unchecked = CHECKED

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        if self._cut is None:
            return self._whole(texts)
        stretches = [self._cut.split(text) for text in texts]
        if len(self._known) > REMEMBERED:
            self._known.clear()
        if fresh := list({one for some in stretches for one in some if one not in self._known}):
            self._known.update(zip(fresh, self._whole(fresh), strict=True))
        found = [[token for one in some for token in self._known[one]] for some in stretches]
        if self._unchecked and (several := [i for i, some in enumerate(stretches) if len(some) > 1]):
            self._unchecked = max(0, self._unchecked - len(several))
            if self._whole([texts[i] for i in several]) != [found[i] for i in several]:
                self._cut = None
                return self._whole(texts)
        return found

    def _whole(self, texts: Sequence[str]) -> list[list[int]]:
        return self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]  # pyright: ignore[reportReturnType]


def _cuts(tokenizer: "PreTrainedTokenizerBase", special: Collection[str]) -> bool:
    """Whether special tokens cut texts where they stand, and nowhere else: none of them takes in the space beside it,
    and no other token runs into one.
    """
    added = tokenizer.added_tokens_decoder.values()
    plain = all(not (one.lstrip or one.rstrip or one.single_word) for one in added if str(one.content) in special)
    apart = all(one not in str(other.content)[1:] for one in special for other in added)
    return bool(special) and bool(tokenizer.is_fast) and plain and apart
