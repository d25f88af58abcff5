"""Triples of nouns, none of which is part of another."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..hooks.errors import UserError
from ..hooks.settings import Settings


class EntityConfig(Settings):
    """Where the nouns come from."""

    file: str | None = None
    """One entity a line; None takes the English nouns of the wonderwords package."""
    min_length: int = 3
    max_length: int = 10


def entities(config: EntityConfig) -> list[str]:
    """The usable entities, sorted and distinct whatever their case.

    Raises UserError for a file that cannot be read or holds fewer than three.
    """
    if config.file is None:
        from wonderwords import RandomWord

        words = RandomWord().filter(include_parts_of_speech=["nouns"], regex="[a-z]+")
        source = "the wonderwords nouns"
    else:
        try:
            words = Path(config.file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"entities.file {config.file}: cannot be read ({error}); give a UTF-8 text file") from error
        source = config.file
    kept: dict[str, str] = {}
    for word in (word.strip() for word in words):
        if config.min_length <= len(word) <= config.max_length:
            kept.setdefault(word.casefold(), word)
    if len(kept) < 3:
        raise UserError(
            f"entities: {source} has {len(kept)} of {config.min_length} to {config.max_length} letters; "
            "at least three are needed"
        )
    return [kept[key] for key in sorted(kept)]


def triples(words: Sequence[str], n: int, seed: int) -> list[tuple[str, str, str]]:
    """`n` ordered triples; no two have the same three words, and more of them begin with the same ones.

    Raises UserError if the words do not yield that many.
    """
    found: dict[frozenset[str], tuple[str, str, str]] = {}
    rng = np.random.default_rng(seed)
    for _ in range(100 * n):
        one, two, three = (words[int(i)] for i in rng.choice(len(words), size=3, replace=False))
        if not _clash((one, two, three)):
            found.setdefault(frozenset((one, two, three)), (one, two, three))
        if len(found) == n:
            return list(found.values())
    raise UserError(f"entities: {len(words)} words gave {len(found)} different triples of {n}; ask fewer, or give more")


def _clash(words: Sequence[str]) -> bool:
    """Whether a word is part of another: then an answer could name both."""
    lower = [word.casefold() for word in words]
    return any(a in b for i, a in enumerate(lower) for j, b in enumerate(lower) if i != j)
