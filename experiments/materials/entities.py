"""Triples of nouns, none of which is part of another, and the ranking of words by one fixed model.

A ranked list lies in the cache folder as plain text, a word a line, named by what decides its order: the model's
weights and tokenizer, the words, and the text before them. It may be given to others as a file of entities.
"""

import logging
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from pydantic import Field, model_validator

from ...base.cache import kept
from ...base.documents import read_text, user_path
from ...base.errors import UserError
from ...base.files import atomic_write, json_digest
from ...base.settings import Settings
from ...hooks.lm import LanguageModel, open_model
from ...hooks.prompts.chat import Message
from ...hooks.prompts.options import MOST, make_options

log = logging.getLogger("doxascope")

RANKING_TEXT = "The first word that comes to mind is"


def rank_words(words: Sequence[str], reference: str, text: str = RANKING_TEXT) -> list[str]:
    """`words`, the likeliest first: by the probability that the model goes on from `text` with one, and then ends.

    Args:
        words: at least two, in any order.
        reference: name of the model, which reads `text` as it is, without a chat template.
        text: not empty.

    Raises UserError if the model cannot be loaded, or a word does not follow the text token by token.
    """
    with open_model(reference, template="none") as lm:
        order = [lm.identity.weights, lm.identity.tokenizer, lm.identity.dtype, text, sorted(words)]
        name = f"{lm.spec.name}-{json_digest(order)}"

        def rank(file: Path) -> None:
            log.warning("ranking %d words by %s, once", len(words), lm.spec.name)
            ranked = _rank(sorted(words), text, lm)
            with atomic_write(file) as temporary:
                temporary.write_text("".join(f"{word}\n" for word in ranked), encoding="utf-8")

        file = kept("entities", f"{name}.txt", rank)
    return file.read_text(encoding="utf-8").splitlines()


def _rank(words: list[str], text: str, lm: LanguageModel) -> list[str]:
    """Some thousand at a time, since no mass depends on what else is asked for."""
    parts = np.array_split(np.array(words, dtype=object), -(-len(words) // MOST))
    asked = [make_options(part.tolist(), [" {option}"]) for part in parts]
    message: Message = {"role": "user", "content": text}
    readings = [lm.read([lm.reader.query("entities.ranking_text", [message], part)])[0][0] for part in asked]
    return [words[i] for i in np.argsort(-np.concatenate([reading.logp for reading in readings]), kind="stable")]


Window = tuple[int, int]
"""A first and a last rank."""
Words = tuple[str, str, str]
"""In the order in which they are listed."""


class EntityConfig(Settings):
    """Where the nouns come from."""

    file: str | None = None
    """One entity a line; None takes the English nouns of the wonderwords package."""
    min_length: int = Field(default=3, ge=1)
    max_length: int = Field(default=10, ge=1, le=1000)
    reference: str | None = None
    """A model that ranks them, the likeliest first: the same one whichever model is measured, so that all are asked
    about the same triples. None: not ranked, or, in a file, as they stand there.
    """
    ranking_text: str = RANKING_TEXT
    """What an entity is ranked by: its probability after this text."""
    ranks: Window | tuple[Window, ...] | None = None
    """First and last rank to draw from, or several such windows, each of which gets triples of its own; None draws
    from all.
    """

    @model_validator(mode="after")
    def _ranks_are_ranks(self) -> "EntityConfig":
        for window in self.windows:
            if window and not 1 <= window[0] <= window[1]:
                raise ValueError(f"ranks {list(window)}: give the first and the last, counted from 1")
        if len(set(self.windows)) < len(self.windows):
            raise ValueError("ranks: a window is there twice")
        if self.ranks and not (self.reference or self.file):
            raise ValueError("ranks: the words are not ranked; give a `reference` model, or a `file` in their order")
        return self

    @property
    def windows(self) -> tuple[Window | None, ...]:
        """What to draw from, one after the other; None is everything."""
        match self.ranks:
            case None | ():
                return (None,)
            case (int(first), int(last)):
                return ((first, last),)
            case several:
                return tuple(several)  # pyright: ignore[reportReturnType]


def window_name(window: Window | None) -> str:
    """The name of a window in those of its items."""
    return "ranks {}-{}".format(*window) if window else "all ranks"


def entities(config: EntityConfig, window: Window | None = None) -> list[str]:
    """The usable entities, of a window of their ranks, sorted, and distinct whatever their case; a reference model
    ranks them when they are first asked for.

    Raises UserError for a file that cannot be read, or if fewer than three are left.
    """
    words, source = _nouns(), "the wonderwords nouns"
    if config.file is not None:
        words, source = read_text(user_path(config.file)).splitlines(), config.file
    usable = list(_usable(words, config.min_length, config.max_length).values())
    _three_at_least(usable, f"{source} has {len(usable)} of {config.min_length} to {config.max_length} letters")
    if config.reference:
        usable = rank_words(sorted(usable, key=str.casefold), config.reference, config.ranking_text)
    if window:
        first, last = window
        n_usable, usable = len(usable), usable[first - 1 : last]
        _three_at_least(usable, f"{len(usable)} of the {n_usable} of {source} have the ranks {first} to {last}")
    return sorted(usable, key=str.casefold)


def triples(words: Sequence[str], n: int, seed: int) -> list[Words]:
    """`n` ordered triples; no two have the same three words, and more of them begin with the same ones.

    Raises UserError if the words do not yield that many.
    """
    drawn: dict[frozenset[str], Words] = {}
    rng = np.random.default_rng(seed)
    for _ in range(100 * n):
        first, second, third = (words[int(i)] for i in rng.choice(len(words), size=3, replace=False))
        if not _clash((first, second, third)):
            drawn.setdefault(frozenset((first, second, third)), (first, second, third))
        if len(drawn) == n:
            return list(drawn.values())
    raise UserError(f"entities: {len(words)} words gave {len(drawn)} different triples of {n}; ask fewer, or give more")


@cache
def _nouns() -> list[str]:
    from wonderwords import RandomWord

    return RandomWord().filter(include_parts_of_speech=["nouns"], regex="[a-z]+")


def _usable(words: Iterable[str], shortest: int, longest: int) -> dict[str, str]:
    """Case-folded word -> the word as it is first written, with single spaces."""
    kept: dict[str, str] = {}
    for word in (" ".join(word.split()) for word in words):
        if shortest <= len(word) <= longest:
            kept.setdefault(word.casefold(), word)
    return kept


def _three_at_least(words: Sequence[str], fault: str) -> None:
    if len(words) < 3:
        raise UserError(f"entities: {fault}; at least three are needed")


def _clash(words: Sequence[str]) -> bool:
    """Whether a word is part of another: then an answer could name both."""
    lower = [word.casefold() for word in words]
    return any(a in b for i, a in enumerate(lower) for j, b in enumerate(lower) if i != j)
