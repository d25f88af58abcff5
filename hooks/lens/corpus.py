"""Generic text to fit translators on: documents, as token ids, that share nothing with what is measured."""

import re
from collections.abc import Collection, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import UserError
from ..generation.generation import Request
from ..generation.sampling import Sampling
from ..prompts.chat import Message

if TYPE_CHECKING:
    from ..lm import LanguageModel

ANSWER = Sampling(max_new_tokens=128)


class Document(NamedTuple):
    """A stretch of text as the model sees it."""

    text: str
    ids: tuple[int, ...]


def own_samples(lm: "LanguageModel", *, seed: int = 0) -> list[Document]:
    """What the model itself answers to the shipped prompts, at temperature 1: chats as it writes them."""
    prompts = (files("doxascope.configs") / "lens" / "prompts.txt").read_text("utf-8").splitlines()
    return _answered(lm, prompts, seed)


def from_file(lm: "LanguageModel", path: Path) -> list[Document]:
    """The paragraphs of a text file, each as a user's message.

    Raises UserError if it cannot be read.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"lens.text {path}: cannot be read as UTF-8 ({error})") from error
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    return [
        Document(part, lm.reader.chat.render([Message(role="user", content=part)]).ids[: lm.reader.context])
        for part in paragraphs
    ]


def without(documents: Sequence[Document], words: Collection[str]) -> list[Document]:
    """The documents that say none of `words`: what is measured must not be what was fitted on."""
    if not words:
        return list(documents)
    said = re.compile(r"\b(" + "|".join(map(re.escape, sorted(words))) + r")\b", re.IGNORECASE)
    return [document for document in documents if not said.search(document.text)]


def _answered(lm: "LanguageModel", prompts: Sequence[str], seed: int) -> list[Document]:
    requests = [
        Request(str(i), lm.reader.chat.render([Message(role="user", content=prompt)]), range(1))
        for i, prompt in enumerate(prompts)
    ]
    samples = lm.sample(requests, ANSWER, seed=seed)
    return [
        Document(f"{prompt}\n{sample.text}", request.prompt.ids + sample.ids)
        for prompt, request, sample in zip(prompts, requests, samples, strict=True)
    ]
