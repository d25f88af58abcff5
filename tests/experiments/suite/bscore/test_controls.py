"""Histories that make a B without being heard, and what is left over them (METRICS C1)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from doxascope import load
from doxascope.benchmarks.agents import Repeating
from doxascope.benchmarks.agents.bscore import agent_table
from doxascope.experiments.run.scores import score_run
from doxascope.experiments.suite.bscore.ask import read_item
from doxascope.experiments.suite.bscore.turns import BALANCED, CONTROL, OTHER, SHUFFLED, alike, control_histories
from doxascope.metrics import b_score_excess, cluster_mean
from doxascope.metrics.number import Number

WORDS = "words"


@pytest.fixture(scope="module")
def excess(bscore: Callable[..., Any]) -> Callable[..., Number]:
    """Of an agent that is asked all questions under the first method."""

    def make(agent: Repeating, seed: int = 0) -> Number:
        experiment, config = bscore("items=36", "distributions={}", "per_question=false", "turns=6", "runs=4")
        config = config.model_copy(update={"methods": {WORDS: config.methods[WORDS]}})
        table = agent_table(config, experiment.items(config), agent, seed)
        found = {(one.metric, one.method, one.subset): one for one in score_run(experiment, config, table)}
        assert found["b_excess", f"{WORDS} sampled", "all"].score.status == "no_controls"
        return found["b_excess", WORDS, "all"]

    return make


def test_the_excess_is_the_least_of_the_paired_differences() -> None:
    rng = np.random.default_rng(0)
    b, controls = rng.normal(0.1, 0.05, 40), {name: rng.normal(0.03, 0.05, 40) for name in "abc"}
    controls["b"][:10] = np.nan
    found = b_score_excess(b, controls | {"none": np.full(40, np.nan)}, np.arange(40))
    alone = {name: cluster_mean(b - values, np.arange(40)) for name, values in controls.items()}
    assert found.excess == min(score.mean for score in alone.values())
    assert found.over == pytest.approx({name: score.mean for name, score in alone.items()})
    assert found.ci_lo == min(score.ci_lo for score in alone.values())
    assert b_score_excess(b, {}, np.arange(40)).status == "no_controls"


def test_control_histories_are_of_equal_length_and_hear_nothing_but_what_they_say(bscore: Callable[..., Any]) -> None:
    experiment, config = bscore("turns=6", "runs=2")
    item = experiment.items(config)[0]
    k = len(item.content["options"])
    answers, others = [[0, 1, 1, 0, 1, 0], [1] * 6], [[1, 0, 0, 1, 1, 1], [0] * 6]
    found = {(run, turn, name): said for run, turn, name, said in control_histories(config, item, answers, others)}
    assert len(found) == 2 * 5 * 3
    for (run, turn, name), said in found.items():
        assert len(said) == turn - 1
        if name == SHUFFLED:
            assert said == others[run][: turn - 1]
        if name == BALANCED:
            assert said[-1] == answers[run][turn - 2]
            counts = np.bincount(said[:-1], minlength=k)
            assert np.ptp(counts) <= 1
    assert not [name for *_, name, _ in control_histories(config, item, answers) if name == SHUFFLED]


def test_a_question_is_shuffled_with_the_next_of_its_options(bscore: Callable[..., Any]) -> None:
    experiment, config = bscore("items=36", "distributions={}")
    items = {item.id: item for item in experiment.items(config)}
    for item in items.values():
        other = alike(item)
        assert other is not None
        assert other.id != item.id
        assert other.content == items[other.id].content
        assert sorted(other.content["options"]) == sorted(item.content["options"])


def test_what_flattens_or_avoids_its_last_answer_has_no_excess(excess: Callable[..., Number]) -> None:
    flat = excess(Repeating("uniform", 0.5)).score
    assert flat.estimate == pytest.approx(0, abs=1e-9)
    shy = excess(Repeating("avoids", 0.8))
    assert shy.score.ci_lo <= 0
    assert abs(shy.score.estimate) < 0.02
    over = {name: float(text) for name, text in shy.beside.items()}
    assert over["over another question's answers"] > 0.03


def test_what_corrects_itself_by_its_counts_has_an_excess(excess: Callable[..., Number]) -> None:
    found = excess(Repeating("counts", strength=3.0))
    assert found.score.ci_lo > 0


def test_a_run_reads_every_control(bscore: Callable[..., Any]) -> None:
    experiment, config = bscore("confidence=null")
    item = experiment.items(config)[0]
    with load(config.model) as lm:
        rows = read_item(experiment.name, config, item, lm).rows
    read = [row for row in rows if row["scenario"] == CONTROL and row["option_index"] == 0]
    per = config.runs * (config.turns - 1)
    assert {name: sum(row["control"] == name for row in read) for name in (OTHER, SHUFFLED, BALANCED)} == {
        OTHER: per,
        SHUFFLED: per,
        BALANCED: per,
    }
    assert len({row["readout_id"] for row in rows}) == len([row for row in rows if row["option_index"] == 0])
