"""Texts to ids. Prompts of an item share most turns, so each stretch between special tokens is tokenised once."""

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from ...base.errors import UserError, in_one_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CHECKED = 32
"""Texts of several stretches that are tokenised in one piece, too, before stretches are trusted."""
REMEMBERED = 16384
"""Stretches, and words."""
SPACE = re.compile(r"(?<=\S)(?= \S)")
"""Where a word begins that is one space apart from the one before it."""
HALF = re.compile("[\ud800-\udfff]")
"""Of a character that UTF-16 writes as two."""
FAULT = "the model's tokenizer cannot read a text"
OVER = re.compile("[^ĠĊčĉ]Ġ")
"""What reaches over one, as vocabularies of bytes write spaces, ends of lines and tabs."""


class Tokeniser:
    """Tokenises texts that hold special tokens, and adds none.

    A fast tokenizer cuts a text at its special tokens before it does anything else, so a stretch from one to the next
    has ids of its own, whatever stands around it. So has, within one, a word with the space before it, where no token
    reaches over such a space. Where that proves wrong, texts are tokenised whole.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", special: Collection[str]) -> None:
        self._tokenizer, self._known = tokenizer, dict[str, list[int]]()
        self._cut = re.compile(f"(?={'|'.join(map(re.escape, special))})") if _cuts(tokenizer, special) else None
        self._words = dict[str, list[int]]() if self._cut and _cuts_at_spaces(tokenizer) else None
        self._unchecked = CHECKED

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text. Raises UserError for one that the tokenizer does not take."""
        try:
            return self._ids(texts)
        except UserError as error:
            if half := next(filter(None, map(HALF.search, texts)), None):
                fault = f"a text holds {half[0]!a}, half of a character that takes two; take it out"
                raise UserError(fault) from error
            raise

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        if self._cut is None:
            return self._whole(texts)
        stretches = [self._cut.split(text) for text in texts]
        if len(self._known) > REMEMBERED:
            self._known.clear()
        if fresh := list({stretch for parts in stretches for stretch in parts if stretch not in self._known}):
            self._known.update(zip(fresh, self._by_words(fresh), strict=True))
        ids = [[token for stretch in parts for token in self._known[stretch]] for parts in stretches]
        if self._unchecked and (several := [i for i, parts in enumerate(stretches) if len(parts) > 1]):
            self._unchecked = max(0, self._unchecked - len(several))
            if self._whole([texts[i] for i in several]) != [ids[i] for i in several]:
                self._cut = None
                return self._whole(texts)
        return ids

    def changing(self, texts: Sequence[str], ends: Sequence[str]) -> list[str | None]:
        """Of each text, the first of some ends that changes its own ids when it follows; None: none does."""
        lasts = [self._last(text) for text in texts]
        distinct = list(dict.fromkeys(lasts))
        ids = iter(self.ids([last + end for last in distinct for end in ("", *ends)]))
        changed: dict[str, str | None] = {}
        for last in distinct:
            plain, *more = (next(ids) for _ in range(len(ends) + 1))
            changing = (end for end, longer in zip(ends, more, strict=True) if longer[: len(plain)] != plain)
            changed[last] = next(changing, None)
        return [changed[last] for last in lasts]

    def _last(self, text: str) -> str:
        """The end of a text, all of it that decides how what follows is tokenised."""
        last = self._cut.split(text)[-1] if self._cut else text
        return last if self._words is None or not self._cut else SPACE.split(last)[-1]

    def _by_words(self, stretches: Sequence[str]) -> list[list[int]]:
        if (known := self._words) is None:
            return self._whole(stretches)
        words = [SPACE.split(stretch) for stretch in stretches]
        if len(known) > REMEMBERED:
            known.clear()
        if fresh := list({word for some in words for word in some if word not in known}):
            known.update(zip(fresh, self._fast(fresh), strict=True))
        return [[token for word in some for token in known[word]] for some in words]

    def _fast(self, texts: list[str]) -> list[list[int]]:
        """As `_whole`, without what is known of the characters, wherever nobody has set the tokenizer to cut or pad."""
        inner: Any = self._tokenizer.backend_tokenizer
        if inner.truncation or inner.padding:
            return self._whole(texts)
        with in_one_line(FAULT):
            return [encoding.ids for encoding in inner.encode_batch_fast(texts, add_special_tokens=False)]

    def _whole(self, texts: Sequence[str]) -> list[list[int]]:
        with in_one_line(FAULT):
            return self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]  # pyright: ignore[reportReturnType]


def _cuts(tokenizer: "PreTrainedTokenizerBase", special: Collection[str]) -> bool:
    """Whether special tokens cut texts where they stand alone: none takes in a space, and no other runs into one."""
    added = tokenizer.added_tokens_decoder.values()
    marked = [token for token in added if str(token.content) in special]
    plain = all(not (token.lstrip or token.rstrip or token.single_word) for token in marked)
    rest = "\0".join(str(other.content)[1:] for other in added)  # all in one: there may be thousands of both
    return bool(special) and bool(tokenizer.is_fast) and plain and not any(text in rest for text in special)


def _cuts_at_spaces(tokenizer: Any) -> bool:
    """Whether no merge of bytes, and no token that is cut out first, reaches over the space between two words."""
    inner, added = tokenizer.backend_tokenizer, tokenizer.added_tokens_decoder.values()
    of_bytes = type(inner.model).__name__ == "BPE" and type(inner.decoder).__name__ == "ByteLevel"
    plain = inner.normalizer is None and not any(token.lstrip or token.rstrip or token.single_word for token in added)
    return of_bytes and plain and not any(OVER.search(text.replace(" ", "Ġ")) for text in tokenizer.get_vocab())
