"""Stated beliefs at places of any experiment, on a tiny random model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from doxascope import load
from doxascope.experiments.run.experiment import RunConfig
from doxascope.experiments.run.stated_beliefs import BeliefPlace, Shown, judge_rows, stated_rows
from doxascope.hooks.backends.captures import CapturePlan
from doxascope.hooks.prompts.chat import Message
from doxascope.hooks.verbal.number_distributions import read_numbers
from doxascope.hooks.verbal.number_formats import FORMATS, JSON, UNIT
from doxascope.hooks.verbal.stated_beliefs import Judge, StatedPlan, ask_number
from doxascope.metrics.beliefs import belief_table

PLACES = [
    BeliefPlace("a", "fruit", 0, [{"role": "user", "content": "Is it ripe?"}], ("Yes", "No")),
    BeliefPlace("b", "coin", 2, [{"role": "user", "content": "Which side?"}], ("heads", "tails"), {"draw": 1}),
]


class Asking(RunConfig):
    """Settings of an experiment that has only places."""

    reads_stated: ClassVar[bool] = True
    reads_judges: ClassVar[bool] = True


@pytest.fixture(scope="module")
def lm(save_llama: Callable[..., Path], make_tokenizer: Callable[..., Any]) -> Iterator[Any]:
    with load(str(save_llama(make_tokenizer(), "asked", max_position_embeddings=4096))) as lm:
        yield lm


def settings(lm: Any, **stated: Any) -> Asking:
    return Asking(experiment="mine", model=lm.spec, items=1, stated=StatedPlan(**stated))


def table(rows: Sequence[Any]) -> pd.DataFrame:
    return pd.DataFrame(rows).sort_values(["readout_id", "option_index"], ignore_index=True)


def test_places_are_read_as_each_would_be_alone(lm: Any) -> None:
    config = settings(lm, numbers=("unit", "json"), greedy=("unit",), sampled=("of 10", "unit"), draws=2)
    rows, said, *_ = stated_rows(config, PLACES, lm)
    alone = [stated_rows(config, [place], lm) for place in PLACES]
    pd.testing.assert_frame_equal(
        table(rows), table([row for own, *_ in alone for row in own]), atol=1e-6, check_like=True
    )
    assert sorted(map(str, said)) == sorted(str(line) for _, own, *_ in alone for line in own)
    of_a = [row for row in rows if row["readout_id"] == "a/json/numbers"]
    assert [row["option"] for row in of_a] == ["Yes", "No"]
    asked = ask_number(lm.reader, "r", PLACES[0].context, JSON.worded("Yes", "No"))
    assert of_a[0]["prob"] == pytest.approx(read_numbers(lm, [asked])[0].belief.mean)
    halves = {row["readout_id"] for row in rows if row["method"] == "unit sampled"}
    assert halves == {f"{place}/unit/sampled.{half}" for place in "ab" for half in (0, 1)}


@pytest.mark.parametrize("name", ["unit", "points", "of 10", "json", "lines"])
def test_three_options_are_each_given_a_number_and_their_sum_is_kept(lm: Any, name: str) -> None:
    words = ("apple", "stone", "river")
    context: list[Message] = [{"role": "user", "content": "Which word?"}]
    place = BeliefPlace("p", "game", 1, context, words, {"named": "0"}, readings=1)
    config = settings(lm, numbers=(name,), greedy=(name,)).model_copy(update={"low_coverage": 0.0})
    config = config.model_copy(update={"capture": CapturePlan(layers=(0,))})
    rows, said, captured, _ = stated_rows(config, [place], lm)
    beliefs = belief_table({"item": "i"} | row for row in rows)
    exact = beliefs[beliefs["method"] == f"{name} numbers"]
    assert list(exact["option"]) == list(words)
    assert exact["prob"].sum() == pytest.approx(1)
    assert abs(exact["stated"].sum() - 1) > 0.01
    np.testing.assert_allclose(exact["prob"], exact["stated"] / exact["stated"].sum())
    asked = FORMATS[name].over(words)
    assert len(asked) == len(said) == (1 if name in ("json", "lines") else 3)
    alone = [read_numbers(lm, [ask_number(lm.reader, "r", context, form)], beam=8)[0].lines[0].mean for form in asked]
    np.testing.assert_allclose(exact["stated"][: len(alone)], alone, atol=1e-6)
    (kept,) = captured
    assert set(kept.rows["position"]) == {"before-question", "number"}
    assert set(kept.rows["readout_id"]) == {line["readout_id"] for line in said}
    greedy = beliefs[beliefs["method"] == f"{name} greedy"]
    assert (greedy["prob"].isna() == ~greedy["status"].isin(("ok", "low_coverage"))).all()


def test_judges_are_asked_apart_and_each_under_its_own_name(lm: Any) -> None:
    itself = Judge(model=lm.spec)
    late = itself.model_copy(update={"sees": "whole"})
    steps = ("It fell.", "It lies still.", "It is heads.")

    def show(judge: Judge) -> list[Shown]:
        return [Shown(one, "Well?", steps if judge.sees == "whole" else steps[: one.step]) for one in PLACES]

    rows, said = judge_rows(settings(lm, judges={"early": itself, "late": late}), show, lm)
    first, _ = judge_rows(settings(lm, judges={"early": itself}), show, lm)
    assert rows[: len(first)] == first
    assert {row["kind"] for row in rows} == {"judge"}
    named = {row["readout_id"]: row["method"] for row in rows}
    assert named == {
        **{f"{place}/judge/numbers": "judge early" for place in "ab"},
        **{f"{place}/judge late/numbers": "judge late" for place in "ab"},
    }
    shown = {line["readout_id"]: line["messages"][0]["content"] for line in said}
    assert "(none yet)" in shown["a/judge"]
    assert "It is heads." not in shown["b/judge"]
    assert all(f"[{i}] {step}" in shown["b/judge late"] for i, step in enumerate(steps, 1))
    by_hand = Judge(model=lm.spec).prompt.format(question="Well?", steps="(none yet)", step=0)
    asked = ask_number(lm.reader, "r", [{"role": "user", "content": by_hand}], UNIT.worded("Yes", "No"))
    np.testing.assert_allclose(rows[0]["prob"], read_numbers(lm, [asked])[0].belief.mean, atol=1e-6)


def test_a_judge_of_whole_trajectories_is_asked_once_for_all_their_places(lm: Any) -> None:
    """A line for the start and each step, read after the lines before it."""
    steps = ("It fell.", "It lies still.")
    places = [
        replace(PLACES[0], name=f"t/{draw}.{step}", step=step, conditions={"draw": draw})
        for draw in (0, 1)
        for step in range(3)
    ]
    judge = Judge(model=lm.spec, query="trajectory")
    assert judge.sees_all
    rows, said = judge_rows(
        settings(lm, judges={"once": judge}), lambda _: [Shown(place, "Well?", steps) for place in places], lm
    )
    assert len(said) == 2
    assert [row["readout_id"] for row in rows[::2]] == [f"{place.name}/judge/numbers" for place in places]
    assert {(row["kind"], row["method"]) for row in rows} == {("judge", "judge once")}
    text = said[0]["messages"][0]["content"]
    assert "[2] It lies still." in text
    assert '"Belief 0:", "Belief 1:", "Belief 2:"' in text
    by_hand = judge.trajectory.format(question="Well?", steps="[1] It fell.\n\n[2] It lies still.")
    asked = ask_number(lm.reader, "r", [{"role": "user", "content": by_hand}], judge.line_format(2, "Yes", "No"))
    (read,) = read_numbers(lm, [asked])
    np.testing.assert_allclose([row["prob"] for row in rows[:6:2]], [line.mean for line in read.lines], atol=1e-6)


def test_a_judge_without_a_model_is_the_model_of_its_name() -> None:
    plan = StatedPlan.model_validate(
        {"judges": {"smollm2-135m": {}, "late": {"model": "smollm2-135m", "sees": "whole"}}}
    )
    assert plan.judges["smollm2-135m"].model == plan.judges["late"].model
    assert [judge.sees for judge in plan.judges.values()] == ["prefix", "whole"]
