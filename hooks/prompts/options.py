"""What counts as saying an option: surface forms, terminators, and the token paths that spell them.

The event that a belief is about: the continuation begins with one of the option's surface forms and then ends
or goes on with a terminator. Its probability is a sum over token paths, and a sum is a probability only if the
paths are disjoint; this module makes sure of that, or refuses.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import UserError
from ..model.blocks import upload
from ..tree.token_tree import Graft, Ints
from .chat import Boundary, ChatRenderer

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

END = "<end>"
"""The terminator that is the end of the turn, whatever the model's token for it is."""
TERMINATORS = (END, "\n", ".", ",", "!", "?", ";", '"', ")", "*")
"""Default: the end, or what closes a word in a sentence, a quotation, a list or bold type. No space: an option
may be the beginning of a longer one. The closing quote stands here, so a quoted form is written `"apple`."""


@dataclass(frozen=True)
class Option:
    """An option and every text that counts as saying it."""

    name: str
    forms: tuple[str, ...]


def make_options(
    names: Sequence[str], templates: Sequence[str] = ("{option}", "{Option}"), labels: Sequence[str] | None = None
) -> tuple[Option, ...]:
    """Write each name, or its label, into each template: `{option}` as it is, `{Option}` with a capital.

    Raises UserError for what is no list of texts, for fewer than two options or more than `MOST`, an empty one, or two
    that differ in case or space alone.

    >>> make_options(["apple", "stone"])[0].forms
    ('apple', 'Apple')
    >>> make_options(["apple", "stone"], labels=["A", "B"], templates=["({option})"])[1].forms
    ('(B)',)
    """
    names, templates = _texts("options", names), _texts("surface forms", templates)
    _refuse_alike(names)
    if labels is not None:
        if len(labels) != len(names):
            raise UserError(f"labels {list(labels)}: {len(labels)} for {len(names)} options")
        _refuse_alike(labels)
    return tuple(Option(name, _forms(text, templates)) for name, text in zip(names, labels or names, strict=True))


MOST = 2000
"""Options of one question. Each costs some forms, each with what may close it: 20,000 took 2.8 GB."""


def _texts(what: str, given: Sequence[str]) -> list[str]:
    """A text alone would be read as its letters, and a mapping as its keys."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise UserError(f"{what} {given!r}: is {type(given).__name__}; give a list of texts, such as ['Yes', 'No']")
    texts = list(given)
    if other := [text for text in texts if not isinstance(text, str)]:
        raise UserError(f"{what}: {other[0]!r} is {type(other[0]).__name__}; give each as text")
    if len(texts) > MOST:
        raise UserError(f"{what}: {len(texts):,} are given; at most {MOST:,} can be read at once")
    return texts


def _refuse_alike(names: Sequence[str]) -> None:
    if len(names) < 2:
        raise UserError(f"options {list(names)}: give at least two")
    seen: dict[str, str] = {}
    for name in names:
        plain = " ".join(name.split()).casefold()
        if not plain:
            raise UserError(f"options {list(names)}: one is empty; give each a text")
        if plain in seen:
            raise UserError(f"options {seen[plain]!r} and {name!r} are the same; give each a text of its own")
        seen[plain] = name


def _forms(name: str, templates: Sequence[str]) -> tuple[str, ...]:
    for template in templates:
        if "{option}" not in template and "{Option}" not in template:
            raise UserError(f"surface form {template!r}: has no {{option}} or {{Option}} in it")
    capital = name[:1].upper() + name[1:]
    written = (t.replace("{option}", name).replace("{Option}", capital) for t in templates)
    return tuple(dict.fromkeys(written))


class Terminators:
    """The tokens that close an option: those whose text begins with a terminator, and the end of the turn.

    Args:
        tokenizer: of the model.
        texts: the terminators; `END` means `end_ids`.
        end_ids: the ids that end a turn.
        known: what each id says, as `token_texts` has it, if that was found before.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        texts: Sequence[str],
        end_ids: Sequence[int],
        known: Sequence[str] | None = None,
    ) -> None:
        if not texts or "" in texts:
            raise UserError(f"terminators {list(texts)}: give at least one, and none empty")
        self.texts = tuple(text for text in texts if text != END)
        starting = [i for i, text in enumerate(known or token_texts(tokenizer)) if text.startswith(self.texts)]
        ends = [i for i in end_ids if END in texts]
        self.ids: NDArray[np.int64] = np.array(sorted({*starting, *ends}), dtype=np.int64)
        self._on: dict[torch.device, torch.Tensor] = {}
        if not len(self.ids):
            raise UserError(f"terminators {list(texts)}: no token of the model begins with any of them")

    def on(self, device: "torch.device") -> "torch.Tensor":
        """The ids where they are used; they are copied there once."""

        if device not in self._on:
            self._on[device] = upload(self.ids, device)
        return self._on[device]

    @cached_property
    def id_set(self) -> frozenset[int]:
        """The ids, for membership."""
        return frozenset(self.ids.tolist())


def token_texts(tokenizer: "PreTrainedTokenizerBase") -> list[str]:
    """What each id adds to a text in mid-sequence ("" for one that adds nothing readable).

    Decoding an id alone would lose a leading space in some tokenizers, so each is decoded after a letter.
    """
    anchor = tokenizer("a", add_special_tokens=False)["input_ids"]
    start: str = tokenizer.decode(anchor)  # type: ignore
    after: list[list[int]] = [[*anchor, i] for i in range(len(tokenizer))]  # pyright: ignore[reportGeneralTypeIssues]
    if tokenizer.is_fast:  # the same, without the seconds that are spent on each id alone
        inner: Any = tokenizer.backend_tokenizer
        texts: list[str] = inner.decode_batch(after, skip_special_tokens=False)
    else:
        texts = tokenizer.batch_decode(after, skip_special_tokens=False, clean_up_tokenization_spaces=False)  # pyright: ignore[reportAssignmentType]
    return [text[len(start) :] if text.startswith(start) else "" for text in texts]


@dataclass(frozen=True)
class OptionPaths:
    """The token paths of each option after one prompt. No path's event contains another's."""

    options: tuple[Option, ...]
    paths: tuple[tuple[tuple[int, ...], ...], ...]
    """[option][form] -> ids."""

    @cached_property
    def first_ids(self) -> Ints:
        """The tokens with which some option begins, each once."""
        return np.unique([path[0] for paths in self.paths for path in paths])

    @cached_property
    def graft(self) -> Graft:
        """All paths as what can be put below any prompt."""
        return Graft([path for paths in self.paths for path in paths])

    @cached_property
    def counts(self) -> Ints:
        """[options] how many paths each has."""
        return np.array([len(paths) for paths in self.paths], dtype=np.int64)


CACHED_PATHS = 64
"""Boundaries and options that are remembered: the contexts of one item share them, other items do not."""


class PathFinder:
    """Finds the token paths of options after a prompt, with the proofs that make their sum a probability."""

    def __init__(self, chat: ChatRenderer, terminators: Terminators) -> None:
        self.chat, self.terminators = chat, terminators
        self.find = lru_cache(CACHED_PATHS)(self._find)

    def _find(self, boundary: Boundary, options: tuple[Option, ...]) -> OptionPaths:
        """The paths of `options` after a prompt with this end.

        Raises UserError if the ids of the prompt, or of a form, change at the boundary, or if the events of two
        options overlap.
        """
        written = [(index, form) for index, option in enumerate(options) for form in option.forms]
        forms = [form for _, form in written]
        paths = self.chat.continuations(boundary, forms)
        changing = self.chat.changing(boundary, forms, self.terminators.texts)
        owner: dict[tuple[int, ...], tuple[int, str]] = {}
        for (index, form), path, end in zip(written, paths, changing, strict=True):
            if end is not None:
                raise UserError(
                    f"surface form {form!r}: its tokens change when {end!r} follows; end the form with a letter or "
                    "a digit, or take the terminator out"
                )
            if owner.setdefault(path, (index, form))[0] != index:
                raise _collision(options, owner[path], (index, form))
        self._drop_contained(owner, options)
        return OptionPaths(
            options, tuple(tuple(path for path, (i, _) in owner.items() if i == index) for index in range(len(options)))
        )

    def _drop_contained(self, owner: dict[tuple[int, ...], tuple[int, str]], options: Sequence[Option]) -> None:
        """A path that runs through another's end and a terminator is part of that event: drop or refuse it."""
        for path in list(owner):
            for cut in range(1, len(path)):
                shorter = path[:cut]
                if shorter in owner and path[cut] in self.terminators.id_set:
                    if owner[shorter][0] != owner[path][0]:
                        raise _collision(options, owner[shorter], owner[path])
                    del owner[path]
                    break


def _collision(options: Sequence[Option], first: tuple[int, str], second: tuple[int, str]) -> UserError:
    return UserError(
        f"options {options[first[0]].name!r} (as {first[1]!r}) and {options[second[0]].name!r} (as {second[1]!r}) "
        "collide: one answer would count for both; change an option, a surface form or the terminators"
    )
