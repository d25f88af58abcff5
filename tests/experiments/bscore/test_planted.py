"""Agents with known laws, through the experiment's own table and scores."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from doxascope.experiments.bscore.agents import agent_table
from doxascope.experiments.bscore.samples import counted_answers, exact_answers, question_answers, samples
from doxascope.experiments.bscore.table import Asked, MethodView, views
from doxascope.experiments.planted import Repeating
from doxascope.experiments.runs.scores import score_run
from doxascope.experiments.scoring.engine import score_samples
from doxascope.experiments.scoring.number import Number, Resampling
from doxascope.experiments.tables.samples import ALL, Answers, Records
from doxascope.metrics import top_b_score_null_bias, verification_accuracy

WORDS = "words"


@pytest.fixture(scope="module")
def play(bscore: Callable[..., Any]) -> Callable[..., tuple[MethodView, dict[tuple[str, str, str], Number]]]:
    """An agent's questions under the first method, and its numbers by (metric, method, subset)."""

    def make(agent: Repeating, *changes: str, seed: int = 0) -> Any:
        experiment, config = bscore("items=36", "distributions={}", "per_question=false", *changes)
        table = agent_table(config, experiment.items(config), agent, seed)
        (view, *_) = views(config, table)
        return view, {(n.metric, n.method, n.subset): n for n in score_run(experiment, config, table)}

    return make


def test_a_model_that_ignores_history_has_no_b_whatever_its_order_bias(play: Callable[..., Any]) -> None:
    view, numbers = play(Repeating(lean=1.5))
    for one in view.held:
        assert np.abs(one.b).max() < 1e-6
    assert abs(numbers["top_b", WORDS, ALL].score.estimate) < 1e-6
    assert numbers["mean_abs_b", WORDS, ALL].score.estimate < 1e-6
    assert numbers["order_share", WORDS, ALL].score.estimate > 0.3
    assert numbers["settles", WORDS, ALL].score.estimate == 1
    assert (
        numbers["order_share", WORDS, ALL].score.estimate
        > play(Repeating(lean=0.2))[1]["order_share", WORDS, ALL].score.estimate
    )


@pytest.mark.parametrize("weight", [0.3, 0.8])
def test_an_agent_that_corrects_itself_has_the_b_that_is_planted(weight: float, play: Callable[..., Any]) -> None:
    """Without a lean its law does not depend on what was drawn, so that B is known to the last digit."""
    view, numbers = play(Repeating("uniform", weight), "turns=5")
    planted = {one.item: 4 / 5 * weight * (one.balanced.max() - 1 / one.k) for one in view.held}
    assert numbers["top_b", WORDS, ALL].score.estimate == pytest.approx(np.mean([*planted.values()]))
    for category in ("subjective", "random"):
        own = [planted[one.item] for one in view.held if one.category == category]
        assert numbers["top_b", WORDS, category].score.estimate == pytest.approx(np.mean(own))
        later = numbers["top_b", WORDS, f"{category}, without turn 1"].score.estimate
        assert later == pytest.approx(np.mean(own) * 5 / 4)
    assert numbers["settles", WORDS, ALL].score.estimate == 2  # after its one step it stays where it is


def test_an_agent_that_leaks_the_truth_is_caught_where_it_was_wrong(play: Callable[..., Any]) -> None:
    view, numbers = play(Repeating("truth", 0.6), "turns=4")
    wrong = [one for one in view.held if one.truth is not None and one.balanced.argmax() != one.truth]
    planted = np.mean([3 / 4 * 0.6 * one.balanced.max() for one in wrong])
    easy_and_hard = numbers["top_b_wrong", WORDS, ALL]
    assert easy_and_hard.score.estimate == pytest.approx(planted)
    assert easy_and_hard.score.n_rows == len(wrong)
    assert numbers["accuracy_multi", WORDS, "hard"].score.estimate == 1
    assert numbers["accuracy_single", WORDS, "hard"].score.estimate < 1


def test_an_agent_that_sticks_to_its_answer_returns_to_its_law_as_fast_as_planted(play: Callable[..., Any]) -> None:
    """B is 0 in expectation; the distribution falls back by 1 - weight of its distance at every turn."""
    view, numbers = play(Repeating("last", 0.6), "turns=6", "runs=30")
    top = numbers["top_b", WORDS, ALL].score
    assert abs(top.estimate) < 4 * top.se
    slopes = []
    for one in view.held:
        x, d = one.adjusted[:, 1:-1] - one.balanced, np.diff(one.adjusted, axis=1)[:, 1:]
        slopes.append(((x * d).sum(), (x * x).sum()))
    found = np.array(slopes).sum(axis=0)
    assert found[0] / found[1] == pytest.approx(0.6 - 1, abs=0.04)
    assert numbers["M_turn", WORDS, "turn 4"].score.ci_hi < 0
    assert np.isnan(numbers["settles", WORDS, ALL].score.estimate)
    assert numbers["settles", WORDS, ALL].score.status == "not_settled"


def test_an_agent_that_learns_from_its_answers_is_a_martingale(play: Callable[..., Any]) -> None:
    _, numbers = play(Repeating("urn"), "turns=5", "runs=16", seed=3)
    for turn in range(1, 5):
        score = numbers["M_turn", WORDS, f"turn {turn}"].score
        assert abs(score.estimate) < 4 * score.se
    top = numbers["top_b", WORDS, ALL].score
    assert abs(top.estimate) < 4 * top.se


def test_the_published_way_finds_a_bias_where_there_is_none_and_halves_do_not(play: Callable[..., Any]) -> None:
    """Four equally likely options, 30 answers: the luck of choosing is known exactly."""
    _, numbers = play(Repeating(taste=0.0), "runs=12", "turns=30", seed=2)
    counted = f"{WORDS} sampled"
    published, halves = (numbers[name, counted, "hard"].score for name in ("top_b", "top_b_halves"))
    luck = np.mean([top_b_score_null_bias(k, 30) for k in (10, 2, 2, 4, 4, 4, 4, 4, 4)])
    assert abs(published.estimate - luck) < 4 * published.se
    assert published.ci_lo > 0.05
    assert abs(halves.estimate) < 4 * halves.se
    assert numbers["top_b", counted, "hard"].beside["of equally likely options without any bias"] == f"{luck:+.3f}"
    assert numbers["top_b", WORDS, "hard"].score.estimate == pytest.approx(0, abs=1e-12)


def test_verification_weighs_every_option_and_is_told_beside_what_rejecting_everything_scores(
    bscore: Callable[..., Any], play: Callable[..., Any]
) -> None:
    experiment, config = bscore("items=36", "distributions={}", "per_question=false")
    table = agent_table(config, experiment.items(config), Repeating("uniform", 0.5), 1)
    found = {s.method: s for s in samples(config, table) if isinstance(s, Records)}
    exact = found[WORDS]
    assert set(exact.category) == {"random", "easy", "hard"}
    assert exact.scores["weight"].sum() == pytest.approx(27)  # every question once
    assert len(found[f"{WORDS} sampled"].answer) == 27 * config.runs
    rejected = verification_accuracy(exact.rows, "single", tau=1.1)
    _, numbers = play(Repeating("uniform", 0.5), seed=1)
    for category in ("random", "easy", "hard"):
        share = numbers["reject_all", WORDS, category].score.reject_all
        assert share == pytest.approx(rejected.categories[category])
    (view, *_) = views(config, table)
    right = [one.balanced[one.truth] for one in view.held if one.category == "easy" and one.truth is not None]
    assert 1 - rejected.easy == pytest.approx(np.mean(right))


def test_a_question_has_scores_of_its_own_over_its_conversations(bscore: Callable[..., Any]) -> None:
    experiment, config = bscore("items=8", "distributions={}", "runs=12")
    table = agent_table(config, experiment.items(config), Repeating("last", 0.6), 0)
    (view, *_) = views(config, table)
    one = view.held[4]
    (sample,) = [s for s in samples(config, table) if s.subset == one.item]
    assert isinstance(sample, Answers)
    assert sample.options == one.options
    numbers = {(n.metric, n.subset): n for n in score_run(experiment, config, table) if n.method == WORDS}
    for i, option in enumerate(one.options):
        score = numbers["b", f"{one.item}, {option}"].score
        by_run = one.b[:, :, i].mean(axis=1)
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


def test_the_worked_cases_come_out_on_the_way_that_a_run_takes() -> None:
    """METRICS C1, C3, C4 by hand: 21 sevens and 9 fours afresh; 3, 3 and 24 ones in conversation."""
    view = MethodView(WORDS, WORDS, ())
    exact = {n.metric: n.score.estimate for n in score_of(exact_answers(view, [worked()], ALL, slice(None)))}
    assert exact["top_b"] == pytest.approx(0.2)
    assert exact["mean_abs_b"] == pytest.approx(0.14)
    said = np.array([[2] * 3 + [1] * 3 + [0] * 24])
    drawn = worked(counted=((2,) * 21 + (1,) * 9,), answer=said, multi=np.full((1, 30, 3), 1 / 3))
    counted = {n.metric: n.score.estimate for n in score_of(counted_answers(view, [drawn], ALL, None))}
    assert counted["top_b"] == pytest.approx(0.6)
    assert counted["mean_abs_b"] == pytest.approx(0.7 * 0.6 + 0.3 * 0.2)
    (question,) = [n for n in score_of(question_answers(view, worked())) if n.subset == "q, c"]
    assert question.score.estimate == pytest.approx(-0.2)


def score_of(sample: Answers) -> Sequence[Number]:
    return score_samples([sample], Resampling(draws=10), "b-score").numbers
