"""Agents with known laws, through the experiment's own table and scores."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doxascope.benchmarks.agents import Repeating
from doxascope.benchmarks.agents.bscore import agent_table, agent_views
from doxascope.experiments.materials.choices.sources import CATEGORIES, HARD
from doxascope.experiments.run.scores import score_run
from doxascope.experiments.suite.bscore.samples import counted_answers, exact_answers, records, samples
from doxascope.experiments.suite.bscore.views import NUMBERS, Asked, MethodView, views
from doxascope.metrics import top_b_score_null_bias, verification_accuracy
from doxascope.metrics.bscore import HeldOutVerification
from doxascope.metrics.contract import Resampling
from doxascope.metrics.number import Number
from doxascope.metrics.scoring.engine import score_samples
from doxascope.metrics.tables.samples import ALL, Answers

WORDS = "words"


@pytest.fixture(scope="module")
def play(bscore: Callable[..., Any]) -> Callable[..., tuple[MethodView, dict[tuple[str, str, str], Number]]]:
    """An agent's questions of some categories under the first method, and its numbers by (metric, method, subset)."""

    def make(agent: Repeating, *changes: str, of: Sequence[str] = CATEGORIES, seed: int = 0) -> Any:
        experiment, config = bscore("items=36", "distributions={}", "per_question=false", *changes)
        config = config.model_copy(update={"methods": {WORDS: config.methods[WORDS]}})
        items = [item for item in experiment.items(config) if item.content["category"] in of]
        table = agent_table(config, items, agent, seed)
        (view, *_) = views(config, table)
        return view, {(n.metric, n.method, n.subset): n for n in score_run(experiment, config, table)}

    return make


def test_a_model_that_ignores_history_has_no_b_whatever_its_order_bias(play: Callable[..., Any]) -> None:
    view, numbers = play(Repeating(lean=1.5), of=(HARD,))
    for question in view.held:
        assert np.abs(question.b).max() < 1e-6
    assert abs(numbers["top_b", WORDS, ALL].score.estimate) < 1e-6
    assert numbers["mean_abs_b", WORDS, ALL].score.estimate < 1e-6
    assert numbers["order_share", WORDS, ALL].score.estimate > 0.3
    assert numbers["settles", WORDS, ALL].score.estimate == 1
    assert (
        numbers["order_share", WORDS, ALL].score.estimate
        > play(Repeating(lean=0.2), of=(HARD,))[1]["order_share", WORDS, ALL].score.estimate
    )


@pytest.mark.parametrize("weight", [0.3, 0.8])
def test_an_agent_that_corrects_itself_has_the_b_that_is_planted(weight: float, play: Callable[..., Any]) -> None:
    """Without a lean its law does not depend on what was drawn, so that B is known to the last digit."""
    view, numbers = play(Repeating("uniform", weight), "turns=5", of=("subjective", "random"))
    planted = {question.item: 4 / 5 * weight * (question.balanced.max() - 1 / question.k) for question in view.held}
    assert numbers["top_b", WORDS, ALL].score.estimate == pytest.approx(np.mean([*planted.values()]))
    for category in ("subjective", "random"):
        of_category = [planted[question.item] for question in view.held if question.category == category]
        assert numbers["top_b", WORDS, category].score.estimate == pytest.approx(np.mean(of_category))
        later = numbers["top_b", WORDS, f"{category}, without turn 1"].score.estimate
        assert later == pytest.approx(np.mean(of_category) * 5 / 4)
    assert numbers["settles", WORDS, ALL].score.estimate == 2  # after its one step it stays where it is


def test_an_agent_that_leaks_the_truth_is_caught_where_it_was_wrong(play: Callable[..., Any]) -> None:
    view, numbers = play(Repeating("truth", 0.6), "turns=4", of=("easy", HARD))
    wrong = [
        question
        for question in view.held
        if question.truth is not None and question.balanced.argmax() != question.truth
    ]
    planted = np.mean([3 / 4 * 0.6 * question.balanced.max() for question in wrong])
    easy_and_hard = numbers["top_b_wrong", WORDS, ALL]
    assert easy_and_hard.score.estimate == pytest.approx(planted)
    assert easy_and_hard.score.n_rows == len(wrong)
    assert numbers["accuracy_multi", WORDS, "hard"].score.estimate == 1
    assert numbers["accuracy_single", WORDS, "hard"].score.estimate < 1


def test_an_agent_that_sticks_to_its_answer_returns_to_its_law_as_fast_as_planted(play: Callable[..., Any]) -> None:
    """B is 0 in expectation; the distribution falls back by 1 - weight of its distance at every turn."""
    view, numbers = play(Repeating("last", 0.6), "turns=6", "runs=30", of=("random", HARD))
    top = numbers["top_b", WORDS, ALL].score
    assert abs(top.estimate) < 4 * top.se
    slopes = []
    for question in view.held:
        x, d = question.adjusted[:, 1:-1] - question.balanced, np.diff(question.adjusted, axis=1)[:, 1:]
        slopes.append(((x * d).sum(), (x * x).sum()))
    sums = np.array(slopes).sum(axis=0)
    assert sums[0] / sums[1] == pytest.approx(0.6 - 1, abs=0.04)
    assert numbers["M_turn", WORDS, "turn 4"].score.ci_hi < 0
    assert np.isnan(numbers["settles", WORDS, ALL].score.estimate)
    assert numbers["settles", WORDS, ALL].score.status == "not_settled"


def test_an_agent_that_learns_from_its_answers_is_a_martingale(play: Callable[..., Any]) -> None:
    _, numbers = play(Repeating("urn"), "turns=5", "runs=16", of=("random", HARD), seed=3)
    for turn in range(1, 5):
        score = numbers["M_turn", WORDS, f"turn {turn}"].score
        assert abs(score.estimate) < 4 * score.se
    top = numbers["top_b", WORDS, ALL].score
    assert abs(top.estimate) < 4 * top.se


def test_the_published_way_finds_a_bias_where_there_is_none_and_other_answers_do_not(play: Callable[..., Any]) -> None:
    """Four equally likely options, 30 answers: the luck of choosing is known exactly."""
    _, numbers = play(Repeating(taste=0.0), "runs=12", "turns=30", of=(HARD,), seed=2)
    counted = f"{WORDS} sampled"
    published, held_out = (numbers[name, counted, "hard"].score for name in ("top_b", "top_b_held_out"))
    luck = np.mean([top_b_score_null_bias(k, 30) for k in (10, 2, 2, 4, 4, 4, 4, 4, 4)])
    assert abs(published.estimate - luck) < 4 * published.se
    assert published.ci_lo > 0.05
    assert abs(held_out.estimate) < 4 * held_out.se
    assert numbers["top_b", counted, "hard"].beside["of equally likely options without any bias"] == f"{luck:+.3f}"
    assert numbers["top_b", WORDS, "hard"].score.estimate == pytest.approx(0, abs=1e-12)


def test_verification_weighs_every_option_and_is_told_beside_what_rejecting_everything_scores(
    play: Callable[..., Any],
) -> None:
    view, numbers = play(Repeating("uniform", 0.5), seed=1)
    by_method = {sample.method: sample for sample in records(view, view.held)}
    exact = by_method[WORDS]
    assert set(exact.category) == {"random", "easy", "hard"}
    assert exact.scores["weight"].sum() == pytest.approx(27)  # every question once
    assert len(by_method[f"{WORDS} sampled"].answer) == 27 * len(view.held[0].multi)
    rejected = verification_accuracy(exact.rows, "single", tau=1.1)
    for category in ("random", "easy", "hard"):
        share = numbers["reject_all", WORDS, category].score.reject_all
        assert share == pytest.approx(rejected.categories[category])
    right = [
        question.balanced[question.truth]
        for question in view.held
        if question.category == "easy" and question.truth is not None
    ]
    assert 1 - rejected.easy == pytest.approx(np.mean(right))


def test_the_table_of_an_agent_is_read_as_what_it_answered(bscore: Callable[..., Any]) -> None:
    experiment, config = bscore("items=3", "runs=3", "distributions={one: {law: uniform}}")
    given = (config, experiment.items(config), Repeating("last", lean=0.5), 4)
    for planted, read in zip(agent_views(*given), views(config, agent_table(*given)), strict=True):
        assert (planted.method, planted.base) == (read.method, read.base)
        for expected, actual in zip(planted.asked, read.asked, strict=True):
            for field in fields(Asked):
                np.testing.assert_equal(getattr(actual, field.name), getattr(expected, field.name))


def test_a_question_has_scores_of_its_own_over_its_conversations(bscore: Callable[..., Any]) -> None:
    experiment, config = bscore("items=8", "distributions={}", "runs=12")
    table = agent_table(config, experiment.items(config), Repeating("last", 0.6), 0)
    (view, *_) = views(config, table)
    question = view.held[4]
    (sample,) = [s for s in samples(config, table) if s.subset == question.item]
    assert isinstance(sample, Answers)
    assert sample.options == question.options
    numbers = {(n.metric, n.subset): n for n in score_run(experiment, config, table) if n.method == WORDS}
    for i, option in enumerate(question.options):
        score = numbers["b", f"{question.item}, {option}"].score
        by_run = question.b[:, :, i].mean(axis=1)
        assert score.estimate == pytest.approx(by_run.mean())
        assert score.n_clusters == 12
        assert score.se == pytest.approx(by_run.std(ddof=1) / np.sqrt(12))


def worked(**changes: Any) -> Asked:
    """A question of three options, in one order."""
    given: dict[str, Any] = {
        **{"item": "q", "cluster": "q", "category": "random", "topic": "", "options": ("a", "b", "c"), "truth": None},
        **{"target": None, "orders": np.array([[0.5, 0.3, 0.2]]), "multi": np.array([[[0.3, 0.3, 0.4]]])},
        **{"order": np.zeros((1, 1), dtype=int), "answer": np.zeros((1, 1), dtype=int), "coverage": np.ones(1)},
        **{"coverage_multi": np.ones((1, 1)), "counted": ((0, 1),), "confidence": {}},
    }
    return Asked(**given | changes)


def answering(number: int, record: dict[str, Any]) -> Asked:
    """A question of which ten answers afresh, the first of them that of the record, and ten turns are counted."""
    options = (record["answer"], *(f"other {i}" for i in range(record["k"] - 2)), record["truth"] or "last")
    if record["answer"] == record["truth"]:
        options = (*options[:-1], "last")
    afresh, said = ([0] * round(10 * record[arm]) + [1] * round(10 * (1 - record[arm])) for arm in ("single", "multi"))
    return worked(
        **{"item": str(number), "category": record["category"], "options": options},
        truth=None if record["truth"] is None else options.index(record["truth"]),
        orders=np.full((1, len(options)), 1 / len(options)),
        multi=np.full((1, 10, len(options)), 1 / len(options)),
        order=np.zeros((1, 10), dtype=int),
        answer=np.array([said]),
        counted=(tuple(afresh),),
        confidence={NUMBERS: np.full(len(options), record["conf"])},
    )


@pytest.fixture(scope="module")
def cases() -> dict[str, dict[str, Any]]:
    """The worked cases of METRICS C, by other hands."""
    data = Path(os.environ.get("DOXASCOPE_DATA", Path(__file__).parents[4] / "../shared/data"))
    path = data.parent / "cases" / "metrics.json"
    if not path.is_file():
        pytest.skip("the worked cases are not beside the data (DOXASCOPE_DATA)")
    return {case["id"]: case for case in json.loads(path.read_text())["cases"] if case["spec"].startswith("C")}


def test_the_worked_cases_come_out_on_the_way_that_a_run_takes(cases: dict[str, dict[str, Any]]) -> None:
    assert set(cases) == {"C1-001", "C3-001", "C4-001", "C6-001", "C6-005"}
    given, expected = cases["C1-001"]["inputs"], cases["C1-001"]["expected"]["b"]
    afresh, said = ([given["options"].index(option) for option in given[arm]] for arm in ("single", "multi"))
    drawn = worked(counted=(tuple(afresh),), answer=np.array([said]), multi=np.full((1, 30, 3), 1 / 3))
    sample = counted_answers(MethodView(WORDS, WORDS, ()), [drawn], ALL, None)
    for i, option in enumerate(given["options"]):
        assert sample.single[0, i] - sample.multi[0, i] == pytest.approx(expected[option], abs=1e-10)
    estimates = {n.metric: n.score.estimate for n in score_of(sample)}
    assert estimates["top_b"] == pytest.approx(max(expected.values()), abs=1e-10)
    for name, metric, key in (("C3-001", "top_b", "b"), ("C4-001", "mean_abs_b", "v")):
        single, multi = (np.array(list(cases[name]["inputs"][arm].values())) for arm in ("p_single", "p_multi"))
        question = worked(orders=single[None], multi=multi[None, None])
        exact = {
            n.metric: n.score.estimate
            for n in score_of(exact_answers(MethodView(WORDS, WORDS, ()), [question], ALL, slice(None)))
        }
        assert exact[metric] == pytest.approx(cases[name]["expected"][key], abs=1e-10)


def test_the_worked_cases_of_verification_do_so_too(cases: dict[str, dict[str, Any]]) -> None:
    given, expected = cases["C6-001"]["inputs"], cases["C6-001"]["expected"]
    asked = [answering(number, record) for number, record in enumerate(given["records"])]
    (counted,) = [sample for sample in records(MethodView(WORDS, WORDS, asked), asked) if sample.kind == "verbal"]
    accuracy = verification_accuracy(counted.rows, given["rule"], given["tau"])
    for name, value in expected.items():
        assert getattr(accuracy, name) == pytest.approx(value, abs=1e-10)
    searched = cases["C6-005"]["expected"]
    (number,) = [n for n in score_of(counted, "verification") if (n.metric, n.subset) == ("accept_accuracy", "single")]
    assert isinstance(number.score, HeldOutVerification)
    assert number.score.tuned == pytest.approx(searched["macro"], abs=1e-10)
    assert number.beside[f"tuned on the same answers, at {searched['tau']:.2f},"] == f"{searched['macro']:.3f}"


def test_what_is_chosen_in_one_conversation_is_scored_in_another() -> None:
    """Two conversations: a is likeliest in the answers that go with the first, b in those that go with the second."""
    asked = worked(
        **{"options": ("a", "b"), "orders": np.array([[0.5, 0.5]]), "multi": np.full((2, 4, 2), 0.5)},
        **{"order": np.zeros((2, 4), dtype=int), "answer": np.array([[0, 0, 0, 1], [1, 1, 1, 1]])},
        counted=((0, 0, 0, 1), (1, 1, 1, 0)),
    )
    view = MethodView(WORDS, WORDS, ())
    (held_out,) = [n for n in score_of(counted_answers(view, [asked], ALL, None)) if n.metric == "top_b_held_out"]
    assert held_out.score.estimate == pytest.approx(
        ((1 / 4 - 1 / 4) + (1 / 4 - 0)) / 2
    )  # b in the first, a in the second
    assert held_out.beside["chosen on"] == "the question's other answers, and scored on the rest"


def score_of(sample: Any, metric: str = "b-score") -> Sequence[Number]:
    return score_samples([sample], Resampling(draws=10), metric).numbers
