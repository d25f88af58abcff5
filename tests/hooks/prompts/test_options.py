from typing import Any

import pytest

from doxascope.base.errors import UserError
from doxascope.hooks.prompts.options import END, Option, PathFinder, Terminators, make_options

QUESTION = [{"role": "user", "content": "How many?"}]


def paths(lm: Any, *options: Option, terminators: tuple[str, ...] = (END, "\n", ".", ",")) -> Any:
    reader = lm.reader
    ends = Terminators(lm.tokenizer, terminators, [lm.tokenizer.eos_token_id])
    return PathFinder(reader.chat, ends).find(reader.chat.render(QUESTION).boundary, options)


def test_forms_are_written_from_templates() -> None:
    apple, pear = make_options(["apple", "pear"], ["{option}", "{Option}", 'I chose "{option}'])
    assert apple == Option("apple", ("apple", "Apple", 'I chose "apple'))
    assert pear.name == "pear"
    labelled = make_options(["apple", "pear"], ["({option}"], labels=["A", "B"])
    assert [(o.name, o.forms) for o in labelled] == [("apple", ("(A",)), ("pear", ("(B",))]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["yes"], "at least two"),
        ([], "at least two"),
        (["yes", " "], "one is empty"),
        (["yes", "Yes "], "'yes' and 'Yes ' are the same"),
        (["a  b", "A B", "c"], "are the same"),
    ],
)
def test_options_that_are_no_choice_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_options(names)


def test_a_template_without_placeholder_and_wrong_labels_are_refused() -> None:
    with pytest.raises(UserError, match="has no"):
        make_options(["a", "b"], ["I chose it"])
    with pytest.raises(UserError, match="1 for 2 options"):
        make_options(["a", "b"], labels=["A"])


def test_a_form_shared_by_two_options_is_refused_naming_both(smollm: Any) -> None:
    with pytest.raises(UserError, match=r"'us' \(as 'US'\) and 'america' \(as 'US'\) collide"):
        paths(smollm, Option("us", ("US",)), Option("america", ("America", "US")))


def test_a_terminator_keeps_1_and_10_apart_but_not_1_and_1_dot_5(smollm: Any) -> None:
    found = paths(smollm, Option("one", ("1",)), Option("ten", ("10",)))
    assert found.paths[1][0][: len(found.paths[0][0])] == found.paths[0][0]
    with pytest.raises(UserError, match=r"'one'.*'one and a half'.*collide"):
        paths(smollm, Option("one", ("1",)), Option("one and a half", ("1.5",)))


def test_a_form_that_lies_in_another_of_the_same_option_counts_once(smollm: Any) -> None:
    found = paths(smollm, Option("yes", ("Yes", "Yes, indeed")), Option("no", ("No",)))
    assert len(found.paths[0]) == 1


def test_a_form_whose_tokens_depend_on_what_follows_is_refused(smollm: Any) -> None:
    with pytest.raises(UserError, match=r"surface form 'Yes\.': its tokens change when"):
        paths(smollm, Option("yes", ("Yes.",)), Option("no", ("No",)), terminators=(".", "\n"))


def test_terminators_are_the_tokens_that_begin_with_one_and_the_end(smollm: Any) -> None:
    tokenizer = smollm.tokenizer
    ends = Terminators(tokenizer, (END, "."), [tokenizer.eos_token_id])
    assert tokenizer.eos_token_id in ends.id_set
    texts = {tokenizer.decode([i]) for i in ends.ids if i != tokenizer.eos_token_id}
    assert {".", "..."} <= texts
    assert all(text.startswith(".") for text in texts)
    everything = {i for i in range(len(tokenizer)) if tokenizer.decode([i]).startswith(".")}
    assert everything == ends.id_set - {tokenizer.eos_token_id}
    assert tokenizer.eos_token_id not in Terminators(tokenizer, (".",), [tokenizer.eos_token_id]).id_set
    for wrong in ((), ("",)):
        with pytest.raises(UserError, match="terminators"):
            Terminators(tokenizer, wrong, [0])
    with pytest.raises(UserError, match="no token"):
        Terminators(tokenizer, ("\u2603\u2603\u2603",), [0])
