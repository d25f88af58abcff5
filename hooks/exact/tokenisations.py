"""What the canonical tokenisation leaves out: the same text, spelled with other tokens of the vocabulary.

The exact read-out follows each surface form along the tokens that the tokenizer gives to it. A model may spell it
otherwise, and what it gives to that is measured here, as a check. Enumerated are the sequences of tokens that decode to
the form's text, those of fewest tokens first, and of each form at most `LIMIT`: their number grows exponentially with
its length. How many there are is counted. Left out are tokens that hold a part of a character, or that run on past the
end of the form.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from ..prompts.options import OptionPaths, token_texts
from .option_beliefs import normalised
from .queries import Query

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from ..lm import LanguageModel

LIMIT = 32
"""Tokenisations of a form that are read, the canonical one besides."""

Ids = tuple[int, ...]


class Vocabulary:
    """The tokens of a model by the text that they add."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self.texts = token_texts(tokenizer)
        self._ids: dict[str, list[int]] = {}
        for token, text in enumerate(self.texts):
            if "\ufffd" not in text:
                self._ids.setdefault(text, []).append(token)
        self._longest = max(map(len, self._ids))

    def text(self, ids: Sequence[int]) -> str:
        """What ids say in mid-text."""
        return "".join(self.texts[token] for token in ids)

    def spellings(self, text: str) -> Iterator[Ids]:
        """Every sequence of tokens with this text, those of fewest tokens first."""
        n = len(text)
        fewest = [n + 1.0] * n + [0.0]  # tokens that the rest from each place takes at least
        for place in reversed(range(n)):
            fewest[place] = min((1 + fewest[end] for end, _ in self._steps(text, place)), default=n + 1.0)

        def walk(place: int, left: int) -> Iterator[Ids]:
            if place == n and left == 0:
                yield ()
            if fewest[place] <= left <= n - place:
                for end, token in self._steps(text, place):
                    yield from ((token, *rest) for rest in walk(end, left - 1))

        for length in range(1, n + 1):
            yield from walk(0, length)

    def count(self, text: str) -> int:
        """How many spellings there are."""
        ways = [0] * len(text) + [1]
        for place in reversed(range(len(text))):
            ways[place] = sum(ways[end] for end, _ in self._steps(text, place))
        return ways[0]

    def _steps(self, text: str, place: int) -> Iterator[tuple[int, int]]:
        """(end, token) of every token with which the text goes on at a place."""
        for end in range(place + 1, min(place + self._longest, len(text)) + 1):
            for token in self._ids.get(text[place:end], ()):
                yield end, token


@dataclass(frozen=True)
class OtherTokenisations:
    """What the other tokenisations of a read-out's forms hold."""

    share: float
    """Of the options' probability over all tokenisations that were read."""
    change: float
    """Largest change of an option's share among the options, were they counted."""
    n_read: int
    n_all: int
    """Of which `n_read` were read."""


def other_tokenisations(
    lm: "LanguageModel", query: Query, vocabulary: Vocabulary, *, budget: int, limit: int = LIMIT
) -> OtherTokenisations:
    """Read a query again, along other tokenisations as well.

    Args:
        budget: most tokens of one forward pass.
    """
    forms = {vocabulary.text(path) for paths in query.paths.paths for path in paths}

    def counted_already(path: Ids) -> bool:
        """Whether it runs through another form's end and a terminator."""
        ends = lm.reader.terminators.id_set
        return any(path[i] in ends and vocabulary.text(path[:i]) in forms for i in range(1, len(path)))

    def others(path: Ids) -> list[Ids]:
        spellings = vocabulary.spellings(vocabulary.text(path))
        return list(islice((ids for ids in spellings if ids != path and not counted_already(ids)), limit))

    added = [[spelling for path in paths for spelling in others(path)] for paths in query.paths.paths]
    both = tuple((*paths, *more) for paths, more in zip(query.paths.paths, added, strict=True))
    (reading,), *_ = lm.read([replace(query, paths=OptionPaths(query.paths.options, both), places=())], budget=budget)
    masses = [np.exp(logp) for logp in reading.form_logp]
    canonical = np.array([mass[: len(paths)].sum() for mass, paths in zip(masses, query.paths.paths, strict=True)])
    every = np.array([mass.sum() for mass in masses])
    with np.errstate(divide="ignore"):
        change = np.abs(normalised(np.log(every)) - normalised(np.log(canonical))).max()
    spelled = sum(vocabulary.count(vocabulary.text(path)) - 1 for paths in query.paths.paths for path in paths)
    return OtherTokenisations(
        share=float(1 - canonical.sum() / every.sum()) if every.sum() > 0 else np.nan,
        change=float(change),
        n_read=sum(map(len, added)),
        n_all=spelled,
    )
