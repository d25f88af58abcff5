"""Words from the likeliest to the least likely in the eyes of one fixed model: ranked once, and kept.

A list lies in the cache folder as plain text, a word a line, named by what decides its order: the model's weights
and tokenizer, the words, and the text before them. It may be given to others as a file of entities.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...hooks.cache import kept
from ...hooks.files import atomic_write
from ...hooks.lm import LanguageModel, load
from ...hooks.prompts.options import make_options
from ..runs.manifest import digest

log = logging.getLogger("doxascope")

RANKING_TEXT = "The first word that comes to mind is"


class Ranked(NamedTuple):
    """A ranked list."""

    words: list[str]
    """The likeliest first."""
    name: str
    """Equal names are equal lists."""


def rank_words(words: Sequence[str], reference: str, text: str = RANKING_TEXT) -> Ranked:
    """Rank `words` by the probability that the model goes on from `text` with the word and then ends it.

    Args:
        words: at least two, in any order.
        reference: name of the model, which reads `text` as it is, without a chat template.
        text: not empty.

    Raises UserError if the model cannot be loaded, or a word does not follow the text token by token.
    """
    with load(reference, template="none") as lm:
        order = [lm.identity.weights, lm.identity.tokenizer, lm.identity.dtype, text, sorted(words)]
        name = f"{lm.spec.name}-{digest(order)}"

        def rank(file: Path) -> None:
            log.warning("ranking %d words by %s, once", len(words), lm.spec.name)
            ranked = _rank(sorted(words), text, lm)
            with atomic_write(file) as temporary:
                temporary.write_text("".join(f"{word}\n" for word in ranked), encoding="utf-8")

        file = kept("entities", f"{name}.txt", rank)
    return Ranked(file.read_text(encoding="utf-8").splitlines(), name)


def _rank(words: list[str], text: str, lm: LanguageModel) -> list[str]:
    query = lm.reader.query(
        "entities.ranking_text", [{"role": "user", "content": text}], make_options(words, [" {option}"])
    )
    (reading,), *_ = lm.read([query])
    return [words[i] for i in np.argsort(-reading.logp, kind="stable")]
