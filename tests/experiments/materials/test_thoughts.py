"""Thoughts as trajectories: where the tokens are cut, and how a thought ended."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doxascope import load
from doxascope.experiments.materials.trajectories import (
    ThoughtRequest,
    paragraph_closings,
    paragraph_ends,
    thought,
    thoughts,
)
from doxascope.hooks.generation.generated_texts import GeneratedText, Request
from doxascope.hooks.generation.sampling import Sampling

MERGES = (("\n", "\n"), (".", "\n\n"), ("\n\n", "B"))
REQUEST = ThoughtRequest("t", [{"role": "user", "content": "Is it ripe?"}], "Yes or no?")


@pytest.fixture(scope="module", params=["opens", "switch"])
def thinker(request: pytest.FixtureRequest, save_thinker: Callable[..., Path]) -> Any:
    return load(str(save_thinker(request.param, MERGES)), thinking="on")


def said(lm: Any, text: str, end: str = "</think>", status: Any = "ok") -> GeneratedText:
    """A sample as the sampler would give it: without the token that ended it."""
    ids = tuple(lm.tokenizer(text + end)["input_ids"])
    return GeneratedText("t", 0, ids, text, (), status)


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("one\n\ntwo", [5, 8]),
        ("\n\none \n \t\n\n\n two\nmore\n", [10, 22]),
        ("one\n\n\n", [6]),
        ("", []),
        (" \n\n ", []),
    ],
)
def test_a_paragraph_is_closed_by_its_empty_line(text: str, marks: list[int]) -> None:
    assert paragraph_closings(text) == marks
    assert len(marks) == len(paragraph_ends(text))


@pytest.mark.parametrize("opening", ["", "<think>", "<think>\n\n"])
def test_prefixes_are_the_very_tokens(thinker: Any, opening: str) -> None:
    text = "a.\n\nc\n \nd d\nd.\n\n\ne\n"
    sample = said(thinker, opening + text)
    made = thought(thinker, REQUEST, sample)
    assert (made.steps, made.status) == (("a.", "c", "d d\nd.", "e"), "ok")
    assert [thinker.sampler.text(ids).removeprefix(opening) for ids in made.thoughts] == [
        "a.\n\n",
        "a.\n\nc\n \n",
        "a.\n\nc\n \nd d\nd.\n\n",
        text,
    ]
    assert all(sample.ids[: len(ids)] == ids for ids in made.thoughts)
    assert made.thoughts[-1] == sample.ids[:-1]
    assert made.contexts == (REQUEST.conversation,) * 5
    assert made.asked[-1]["content"] == "Is it ripe?\n\nYes or no?"


def test_where_a_step_ends_does_not_depend_on_what_comes_after(thinker: Any) -> None:
    ids = said(thinker, "<think>\na.\n\nc\n\n\nd.\n\n").ids[:-1]
    whole = thought(thinker, REQUEST, GeneratedText("t", 0, ids, thinker.sampler.text(ids), (), "truncated"))
    for n in range(1, len(ids)):
        part = thought(thinker, REQUEST, GeneratedText("t", 0, ids[:n], thinker.sampler.text(ids[:n]), (), "truncated"))
        closed = part.thoughts[:-1]  # the last ends with what there is
        assert closed == whole.thoughts[: len(closed)]
        assert len(closed) >= sum(len(tokens) < n for tokens in whole.thoughts) - 1


def test_a_token_beyond_the_end_of_a_step_is_in_it_whole(thinker: Any) -> None:
    made = thought(thinker, REQUEST, said(thinker, "a\n\nBc\n\nd"))
    assert made.steps == ("a", "Bc", "d")
    assert [thinker.sampler.text(ids) for ids in made.thoughts] == ["a\n\nB", "a\n\nBc\n\n", "a\n\nBc\n\nd"]


def test_a_cut_falls_between_characters(
    make_tokenizer: Callable[..., Any], save_llama: Callable[..., Path], think_templates: dict[str, str]
) -> None:
    tokenizer = make_tokenizer(chat_template=think_templates["opens"])
    tokenizer.add_tokens(["<think>", "</think>"])
    lm = load(str(save_llama(tokenizer, "bytes")), thinking="on")
    text = "é\u2026\n\n\U0001f600\n\n\U0001f600"
    sample = said(lm, text)
    made = thought(lm, REQUEST, sample)
    assert [lm.tokenizer.decode(list(ids)) for ids in made.thoughts] == [text[:n] for n in (4, 7, 8)]
    assert made.thoughts[-1] == sample.ids[:-1]


@pytest.mark.parametrize(
    ("text", "end", "cut_off", "status", "steps"),
    [
        ("a.\n\nb", "</think>", "ok", "ok", 2),
        ("a.\n\nb", "", "truncated", "truncated", 2),
        ("a.\n\nb", "</u>", "ok", "truncated", 2),
        ("a.\n\nb<u>user: c", "</think>", "ok", "truncated", 2),
        ("a.\n\nb<think>c", "</think>", "ok", "truncated", 2),
        ("a", "</think>", "ok", "unsplit", 1),
        ("a", "", "truncated", "truncated", 1),
        ("<think>\n\n", "</think>", "ok", "empty", 0),
        ("", "</think>", "ok", "empty", 0),
    ],
)
def test_a_thought_says_how_it_ended(thinker: Any, text: str, end: str, cut_off: str, status: str, steps: int) -> None:
    made = thought(thinker, REQUEST, said(thinker, text, end, cut_off))
    assert (made.status, len(made.steps), len(made.thoughts), len(made.contexts)) == (status, steps, steps, steps + 1)
    if steps:
        assert made.steps[-1] in ("a", "b")
        assert thinker.sampler.text(made.thoughts[-1]).endswith(made.steps[-1])


def test_thoughts_are_had_under_the_question_until_they_are_closed(thinker: Any) -> None:
    law = Sampling(max_new_tokens=100)
    other = REQUEST._replace(name="u")
    mine, theirs = thoughts(thinker, thinker, [REQUEST, other], law, draws=6, seed=0)
    assert [continuation.draw for continuation in mine] == list(range(6))
    close = thinker.reader.chat.close
    asked = thinker.reader.chat.render([{"role": "user", "content": "Is it ripe?\n\nYes or no?"}])
    alone = thinker.sample([Request("t", asked, range(6))], law, seed=0, until=[close])
    assert [continuation.samples[0].ids for continuation in mine] == [sample.ids for sample in alone]
    assert {continuation.samples[0].ids[-1] == close for continuation in (*mine, *theirs)} == {True, False}
    assert [continuation.steps for continuation in mine] != [continuation.steps for continuation in theirs]
