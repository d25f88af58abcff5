"""How the library meets a user at the prompt: names, signatures, one-line results, and one line for a wrong input."""

import inspect
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import doxascope
from doxascope import UserError, load
from doxascope.experiments.materials.choices.tables import asked_choices
from doxascope.experiments.run.folder import RunFolder
from doxascope.hooks.prompts.options import MOST
from doxascope.metrics import option_scores
from doxascope.metrics.contract import Score

ASKED = [{"qid": 7, "question": "Is it?", "options": ["yes", "no"], "truth": "yes"}]


def test_completion_shows_the_public_names_and_what_load_takes() -> None:
    assert set(dir(doxascope)) == {*doxascope.__all__, "__version__"}
    settings = set(doxascope.ModelSpec.model_fields) - {"name", "packaged", "path", "hub"}
    assert settings <= set(inspect.signature(load).parameters)
    sampling = set(doxascope.Sampling.model_fields)
    assert sampling <= set(inspect.signature(doxascope.LanguageModel.generate).parameters)
    for shown in (load, doxascope.LanguageModel.beliefs, doxascope.AskableModel.ask):
        assert all(len(str(parameter)) < 120 for parameter in inspect.signature(shown).parameters.values())


def test_whatever_is_returned_prints_in_a_line_or_two(tiny: Any, tmp_path: Path) -> None:
    found = tiny.beliefs(["which?", "what?"], ["apple", "stone"], capture="prompt")
    asked = tiny.ask(ASKED * 1)
    table = tmp_path / "t.csv"
    pd.DataFrame({"belief": [0.2, 0.7, 0.9], "outcome": [0, 1, 1]}).to_csv(table, index=False)
    scored = doxascope.score(table)
    made: list[Any] = [tiny, found, found.captured, asked, scored, scored.numbers[0], scored.numbers[0].score]
    for one in made:
        assert len(repr(one)) < 300, repr(one)
        assert "\n" not in repr(one)
    for one in (found, asked, scored):
        assert "<table" in one._repr_html_()
    assert "tiny-llama" in repr(tiny)


def test_every_score_prints_its_estimate() -> None:
    belief = np.array([[0.2, 0.8], [0.6, 0.4]])
    result: Any = option_scores(belief, np.array([1, 1]))
    for kind in Score.__subclasses__():
        assert kind.__repr__ is Score.__repr__
    assert "\n" not in repr(result)


@pytest.mark.parametrize(
    ("messages", "options", "told"),
    [
        ("Is it?", "Yes", "options 'Yes': is str; give a list of texts"),
        ("Is it?", {"yes": 1, "no": 2}, "is dict; give a list of texts"),
        ("Is it?", ["yes", 2], "options: 2 is int; give each as text"),
        ("Is it?", [f"w{i}" for i in range(MOST + 1)], "options: 2,001 are given; at most 2,000"),
        ({"role": "user", "content": "Is it?"}, ["yes", "no"], "messages: dict is given; give a question"),
        ([], ["yes", "no"], "messages: nothing is given"),
        (3, ["yes", "no"], "messages: int is given"),
        ([{"role": "usr", "content": "Is it?"}], ["yes", "no"], "message 0: role 'usr'; did you mean 'user'?"),
        ([{"role": "user"}], ["yes", "no"], "message 0: 'content' is None; give a text"),
        ([{"role": "user", "content": 5}], ["yes", "no"], "message 0: 'content' is 5; give a text"),
        ([{"role": "user", "content": "x", "tool_calls": [1]}], ["yes", "no"], "'tool_calls' is not read"),
    ],
)
def test_beliefs_refuses_inputs_of_the_wrong_kind(tiny: Any, messages: Any, options: Any, told: str) -> None:
    with pytest.raises(UserError) as error:
        tiny.beliefs(messages, options)
    assert told in str(error.value)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "a", True, None])
def test_a_seed_is_the_same_thing_everywhere(tiny: Any, seed: Any) -> None:
    for call in (
        lambda: tiny.generate("Is it?", seed=seed, max_new_tokens=1),
        lambda: tiny.ask(ASKED, seed=seed),
        *([lambda: doxascope.score("none.csv", seed=seed)] if seed is not None else []),
    ):
        with pytest.raises(UserError, match=r"seed .*: give a whole number from 0 to 2\*\*32 - 1"):
            call()


def test_an_answer_table_has_the_user_s_own_name_and_type_of_ids(tiny: Any) -> None:
    asked = tiny.ask(ASKED, orders="none")
    assert asked.table["qid"].tolist() == [7]
    assert "id" not in asked.table
    assert len(pd.DataFrame(ASKED).merge(asked.table, on="qid")) == 1


def test_the_row_of_the_gate_says_what_it_judged(tiny: Any) -> None:
    asked = tiny.ask(ASKED)
    scores = asked.scores().set_index("metric")
    assert scores.loc["gate", "status"].startswith(
        "not shown to be readable (ratio of rare answers: median coverage"
    )  # of one question
    assert asked.beliefs["coverage"].max() < 0.5  # no reading reaches the threshold, and that share is judged
    assert scores.loc["gate", "estimate"] == 0


def test_questions_that_cannot_be_asked_are_named_by_row() -> None:
    for change, told in (
        ({"id": ["a", "b"]}, "row 1: id ['a', 'b']: is list; give a text or a number"),
        ({"truth": ["yes"]}, "row 1: truth ['yes']: is list"),
        ({"options": [f"w{i}" for i in range(MOST + 1)]}, "row 1: has 2,001 options; at most 2,000"),
    ):
        with pytest.raises(UserError) as error:
            asked_choices([{"question": "Is it?", "options": ["yes", "no"], **change}], "q.jsonl")
        assert told in str(error.value)


def test_near_misses_on_the_command_line_are_told_what_to_do(command_line: Any, tmp_path: Path) -> None:
    for args, told in (
        (("run", "q.csv"), "doxascope run ask q.csv"),
        (("run", "ask", "q.csv", "-o", "items", "4"), "-o items: give key=value without blanks"),
        (("run", "consistency", "-o", "items", "4"), "-o items: give key=value without blanks"),
    ):
        said = command_line(*args, cwd=tmp_path)
        assert said.returncode == 2
        assert told in said.stderr


def test_the_page_of_the_library_has_every_public_signature_as_it_is() -> None:
    from doxascope.benchmarks import python_page

    assert python_page.PAGE.read_text(encoding="utf-8") == python_page.whole(), "run python benchmarks/python_page.py"
    text = python_page.reference()
    assert all(f"`{name}`" in text for name in doxascope.__all__)
    assert python_page.signature("run", doxascope.run).startswith("run(\n    target: str,")


def test_a_mistake_in_python_is_a_line_and_a_fault_keeps_its_traceback(tmp_path: Path) -> None:
    def frames(error: BaseException) -> list[str]:
        return [frame.name for frame in traceback.extract_tb(error.__traceback__)]

    with pytest.raises(UserError) as told:
        doxascope.run("consistencyy")
    assert "load_config" not in frames(told.value)
    assert told.value._render_traceback_() == [f"doxascope: {told.value}"]
    with pytest.raises(UserError, match="say by `at` which tokens are edited") as untold:
        doxascope.Steer([1.0, 2.0], layers=3)  # type: ignore
    assert "__post_init__" not in frames(untold.value)
    record = RunFolder.create(tmp_path / "run").path / "manifest.json"
    record.write_text("nothing")
    with pytest.raises(UserError) as caused:
        doxascope.collect(record.parent)
    assert caused.value.__cause__ is not None
    assert "_opened" in frames(caused.value)
    assert "manifest" in frames(caused.value)
    assert "direct cause" in "".join(caused.value._render_traceback_())
    with pytest.raises(AttributeError) as fault:
        doxascope.collect(3)  # type: ignore
    assert "collect" in frames(fault.value)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"items": 6, "model.dtype": "bfloat16", "orders": None}, ["items=6", 'model.dtype="bfloat16"', "orders=null"]),
        (["items=6"], ["items=6"]),
        ((), []),
    ],
)
def test_settings_are_given_as_a_mapping_or_as_on_the_command_line(given: Any, wanted: list[str]) -> None:
    from doxascope.experiments.run.config import as_overrides, load_config

    assert as_overrides(given) == wanted
    load_config("consistency", as_overrides({"items": 6, "wording.reveal": "Well: a, 'b'?"}))
    for wrong in ("items=6", {"items": object()}):
        with pytest.raises(UserError, match="overrides"):
            as_overrides(wrong)
