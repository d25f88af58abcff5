import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from doxascope import UserError
from doxascope.experiments.suite.locate.pairs import MinimalPair, align, endless
from doxascope.hooks.prompts.chat import Conversation
from doxascope.hooks.prompts.options import make_options
from doxascope.hooks.prompts.places import Span


def talk(word: str, after: str = "No.") -> Conversation:
    return [
        {"role": "user", "content": f"Is it {word}?"},
        {"role": "assistant", "content": after},
        {"role": "user", "content": "What is it then?"},
    ]


PAIR = MinimalPair(
    id="p",
    cluster="c",
    base=talk("water"),
    donor=talk("house"),
    options=make_options(["house", "water"]),
    spans={"word": Span(0, "water"), "question": Span(0), "answer": Span(1)},
    prefill="It is",
    controls={"another": (talk("table"), talk("river"))},
)


def test_spans_begin_with_the_first_difference_and_stand_in_their_order(smollm: Any) -> None:
    ids = smollm.reader.chat.render(PAIR.base, PAIR.prefill).ids
    spans = align(PAIR, smollm.reader)
    said = {name: smollm.tokenizer.decode([ids[token] for token in tokens]) for name, tokens in spans.items()}
    assert list(said) == ["word", "question", "template", "answer", "prefill", "last token"]
    assert (said["word"], said["question"], said["answer"]) == (" water", "?", "No.")
    tokens = sorted(token for tokens in spans.values() for token in tokens)
    assert tokens == list(range(min(spans["word"]), len(ids)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"donor": talk("antimony")},
            "base and donor have 54 and 55 tokens: [' water'] against [' antim', 'ony']",
        ),
        ({"donor": talk("house", "No, no.")}, "[' water', '?', '<|im_end|>'"),
        (
            {"controls": {"another": (talk("water"), talk("antimony"))}},
            "base and another for donor have 54 and 55 tokens",
        ),
        ({"donor": talk("water")}, "the donor is the same as its base"),
        ({"spans": {"word": Span(0, "wine")}}, "span 'word': message 0 has no 'wine' in it: 'Is it water?'"),
        ({"spans": {"start": Span(0, "Is")}}, "span 'start' ends before base and donor differ"),
    ],
)
def test_what_cannot_be_interchanged_is_refused(smollm: Any, change: Mapping[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as refused:
        align(replace(PAIR, **change), smollm.reader)
    assert str(refused.value).startswith("pair p: ")
    assert "\n" not in str(refused.value)


def test_messages_of_other_lengths_do_not_make_up_for_each_other(smollm: Any) -> None:
    shifted = replace(PAIR, base=talk("water", "No, no."), donor=talk("red water", "No no."), controls={})
    with pytest.raises(UserError, match=r"a message begins or ends at another token in base and donor: \[' water',"):
        align(shifted, smollm.reader)


def test_a_pair_comes_back_from_its_content() -> None:
    assert MinimalPair.from_content(PAIR.as_content()) == PAIR


def test_endless_goes_on_where_it_was() -> None:
    asked = []

    def draw(n: int) -> range:
        asked.append(n)
        return range(n)

    assert list(islice(endless(draw), 40)) == list(range(40))
    assert asked == [8, 16, 32, 64]
