"""Settings of the inner read-outs (METRICS W3), and the generic text that tuned lenses are fitted on."""

import re
from bisect import bisect_right
from collections.abc import Collection, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from ...base.documents import read_text
from ...base.settings import Settings
from ..generation.generated_texts import Request
from ..generation.sampling import Sampling
from ..model.blocks import Layers, layer_numbers
from ..prompts.chat import Message

RAW, TRANSLATED, JACOBIAN = "raw", "translated", "jacobian"


class View(NamedTuple):
    """One inner read-out."""

    layer: int
    lens: str
    """`raw`: as if the layer were the last. `translated`: after a tuned lens. `jacobian`: after the mean Jacobian."""


class Gate(Settings):
    """What a layer must show, on items that it is not scored on, before it is called a belief (METRICS W3)."""

    share: float = Field(default=0.5, gt=0, lt=1)
    """Of the clusters, drawn by the run's seed, that judge; the others score."""
    coverage: float = Field(default=0.01, ge=0, le=1)
    """The median coverage must reach it."""
    partial_corr: float = Field(default=0.5, ge=-1, le=1)
    """So must the correlation with the exact log-odds, each word's own mean taken out."""


class LensPlan(Settings):
    """Which inner layers to read beside the exact beliefs, raw and translated."""

    layers: Layers = "all"
    methods: tuple[str, ...] | None = Field(default=None, min_length=1)
    """The read-out forms to read inside. None: the one with the fewest surface forms, which costs least."""
    text: str | None = None
    """A UTF-8 file of generic text to fit the tuned lenses on, a paragraph a document. None: the model's own answers to
    questions about anything, each up to where it first says a word of the items."""
    draws: int = Field(default=1, ge=1)
    """Own answers to each question."""
    jacobian: int = Field(default=0, ge=0)
    """Tokens of that text over which each layer's Jacobian to the last is averaged, for a third lens; 0: none."""
    gate: Gate = Gate()

    def layer_numbers(self, n_layers: int) -> tuple[int, ...]:
        """The layers that are meant of a model with so many, ascending. Raises UserError for one that it has not."""
        return layer_numbers(self.layers, n_layers, "lens.layers")


# Generic text to fit tuned lenses on: documents, as token ids, that share nothing with what is measured.

if TYPE_CHECKING:
    from ..lm import LanguageModel

ANSWER = Sampling(max_new_tokens=128)
NOTHING = "(?!)"
"""The pattern that no text matches."""


class Document(NamedTuple):
    """A stretch of text as the model sees it."""

    text: str
    """What is said in it, without what a template puts around it."""
    ids: tuple[int, ...]
    ends: tuple[int, ...]
    """For each id, how many characters of the text are said once it is."""


def shipped_prompts() -> list[str]:
    """The shipped questions, about anything."""
    return (files("doxascope.configs") / "lens" / "prompts.txt").read_text("utf-8").splitlines()


def own_answers(lm: "LanguageModel", *, seed: int = 0, draws: int = 1) -> list[Document]:
    """What the model itself answers to the shipped prompts, at temperature 1: chats as it writes them."""
    questions = shipped_prompts()
    requests = [
        Request(str(i), lm.reader.chat.render([Message(role="user", content=prompt)]), range(draws))
        for i, prompt in enumerate(questions)
    ]
    by_id = {request.readout_id: (prompt, request) for prompt, request in zip(questions, requests, strict=True)}
    documents = []
    for sample in lm.sample(requests, ANSWER, seed=seed):
        prompt, request = by_id[sample.readout_id]
        answers = [lm.tokenizer.decode(list(sample.ids[: i + 1])) for i in range(len(sample.ids))]
        documents.append(
            Document(
                text=f"{prompt}\n{answers[-1]}",
                ids=request.prompt.ids + sample.ids,
                ends=(len(prompt),) * len(request.prompt.ids) + tuple(len(prompt) + 1 + len(a) for a in answers),
            )
        )
    return documents


def documents_from_file(lm: "LanguageModel", path: Path) -> list[Document]:
    """The paragraphs of a text file, each as a user's message.

    Raises UserError if it cannot be read.
    """
    text = read_text(path)
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    rendered = [lm.reader.chat.render([Message(role="user", content=part)]) for part in paragraphs]
    cut = [prompt.ids[: lm.reader.context] for prompt in rendered]
    return [Document(part, ids, (len(part),) * len(ids)) for part, ids in zip(paragraphs, cut, strict=True)]


def words_mentioned(documents: Sequence[Document], words: Collection[str]) -> list[str]:
    """Those of `words` that the documents say, in lower case and sorted."""
    pattern = _saying(words)
    return sorted({match.group().lower() for document in documents for match in pattern.finditer(document.text)})


def cut_before_words(documents: Sequence[Document], words: Collection[str]) -> list[Document]:
    """The documents up to where each first says one of `words`: what is measured must not be what was fitted on."""
    pattern = _saying(words)
    kept = []
    for document in documents:
        match = pattern.search(document.text)
        n = len(document.ids) if match is None else bisect_right(document.ends, match.start())
        if n > 1:
            kept.append(Document(document.text[: document.ends[n - 1]], document.ids[:n], document.ends[:n]))
    return kept


def _saying(words: Collection[str]) -> re.Pattern[str]:
    """What finds any of the words, whole."""
    any_of = "|".join(map(re.escape, sorted(words))) or NOTHING
    return re.compile(rf"(?<!\w)({any_of})(?!\w)", re.IGNORECASE)
