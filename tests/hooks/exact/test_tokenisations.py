from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope import load
from doxascope.hooks.exact.tokenisations import Vocabulary, other_tokenisations
from doxascope.hooks.prompts.chat import Message
from doxascope.hooks.prompts.options import Option, OptionPaths

PIECES = ("a", "b", "c", "ab", "ba", "aba", "bc", "?", ".")
ASKED: list[Message] = [{"role": "user", "content": "b?"}]


@pytest.fixture(scope="module")
def lm(save_speller: Callable[..., Path]) -> Any:
    """A random model of ten tokens, some of several letters, which its tokenizer never uses."""
    return load(str(save_speller(PIECES)), template="none")


def spelled(lm: Any, text: str) -> set[tuple[int, ...]]:
    """Every sequence of tokens that decodes to a text, found by trying all."""
    tokens = range(len(lm.tokenizer))
    tried = (ids for n in range(1, len(text) + 1) for ids in product(tokens, repeat=n))
    return {ids for ids in tried if lm.tokenizer.decode(list(ids)) == text}


@pytest.mark.parametrize("text", ["a", "ab", "abab", "babc", "ca"])
def test_every_spelling_is_found_once_the_shortest_first(lm: Any, text: str) -> None:
    vocabulary = Vocabulary(lm.tokenizer)
    found = list(vocabulary.spellings(text))
    assert set(found) == spelled(lm, text)
    assert len(found) == len(set(found)) == vocabulary.count(text)
    assert [len(ids) for ids in found] == sorted(len(ids) for ids in found)


def test_what_cannot_be_spelled_has_no_spelling(lm: Any) -> None:
    vocabulary = Vocabulary(lm.tokenizer)
    assert list(vocabulary.spellings("axb")) == []
    assert vocabulary.count("axb") == 0
    assert vocabulary.count("\ufffd") == 0


def test_the_mass_of_the_others_is_that_of_all_sequences_with_the_text(lm: Any) -> None:
    options = (Option("one", ("abab", "c")), Option("two", ("babc",)))
    query = lm.reader.query("r", ASKED, options, spaced=False)
    found = other_tokenisations(lm, query, Vocabulary(lm.tokenizer), budget=1024)
    every = [[ids for form in option.forms for ids in spelled(lm, form)] for option in options]
    paths = OptionPaths(options, tuple(tuple(ids) for ids in every))
    mass = np.exp(lm.read_plain(replace(query, paths=paths)).logp)
    canonical = np.exp(lm.read_plain(query).logp)
    assert found.share == pytest.approx(1 - canonical.sum() / mass.sum(), rel=1e-3)
    assert 0 < found.share < 1
    assert found.change == pytest.approx(abs(mass[0] / mass.sum() - canonical[0] / canonical.sum()), rel=1e-3)
    assert found.n_read == found.n_all == sum(map(len, every)) - 3


def test_of_too_many_the_shortest_are_read_and_all_are_counted(lm: Any) -> None:
    query = lm.reader.query("r", ASKED, (Option("one", ("abababab",)), Option("two", ("c",))), spaced=False)
    vocabulary = Vocabulary(lm.tokenizer)
    some, more = (other_tokenisations(lm, query, vocabulary, budget=1024, limit=n) for n in (2, 1000))
    assert (some.n_read, some.n_all) == (2, vocabulary.count("abababab") - 1)
    assert more.n_read == more.n_all == some.n_all
    assert 0 < some.share < more.share


def test_what_a_shorter_form_has_counted_is_not_counted_again(lm: Any) -> None:
    """`ab.c` spelled `ab` `.` `c` is an answer that says `ab` and ends it."""
    query = lm.reader.query("r", ASKED, (Option("one", ("ab",)), Option("two", ("c",))), spaced=False)
    longer = OptionPaths(
        query.paths.options, ((*query.paths.paths[0], lm_ids(lm, "a", "b", ".", "c")), query.paths.paths[1])
    )
    found = other_tokenisations(lm, replace(query, paths=longer), Vocabulary(lm.tokenizer), budget=1024)
    assert found.n_read == 1  # `ab` as one token


def lm_ids(lm: Any, *pieces: str) -> tuple[int, ...]:
    return tuple(lm.tokenizer.convert_tokens_to_ids(list(pieces)))
