"""What a detector of lies reads: rates by hand, slopes by another library, and planted detectors told apart."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

from doxascope.benchmarks.detectors import EXPECTED, HARD, MISREAD, verdict
from doxascope.metrics import (
    Resampling,
    auroc,
    cluster_share,
    detection,
    detection_gain,
    detector_reads,
    mahalanobis_cosine,
)

QUICK = Resampling(draws=199)


def test_rates_are_those_counted_by_hand() -> None:
    """Three of four lies flagged, one of five truths; the last row has no label."""
    flagged = [1, 1, 1, 0, 1, 0, 0, 0, 0, 1]
    lie = [1, 1, 1, 1, 0, 0, 0, 0, 0, np.nan]
    questions = [0, 1, 2, 3, 0, 1, 2, 3, 4, 4]
    found = detection(flagged, lie, questions, how=QUICK)
    assert (found.flagged_lies.mean, found.flagged_truths.mean) == (0.75, 0.2)
    assert found.balanced_accuracy == pytest.approx((0.75 + 0.8) / 2)
    assert (found.n_rows, found.n_dropped, found.n_clusters) == (9, 1, 5)
    assert found.ci_lo < found.balanced_accuracy < found.ci_hi
    gain = detection_gain(flagged, np.zeros(10), lie, questions, how=QUICK)
    assert (gain.first, gain.second) == (pytest.approx(0.775), 0.5)


def test_no_false_alarm_among_few_is_not_a_rate_of_nothing() -> None:
    lie = np.tile([0, 1], 20)
    found = detection(lie, lie, np.repeat(np.arange(20), 2), how=QUICK)
    assert (found.balanced_accuracy, found.flagged_truths.mean) == (1, 0)
    assert found.flagged_truths.ci_hi == cluster_share(np.zeros(20), range(20)).ci_hi > 0.1
    assert found.ci_lo == pytest.approx(1 - np.hypot(1, 1) * found.flagged_truths.ci_hi / 2)
    assert detection([1, 0], [1, 1], [0, 1]).status == "one_label"


def test_slopes_are_those_of_a_regression_with_a_level_for_each_question() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(0)
    questions = np.repeat(np.arange(40), 3)
    belief, asked, words = rng.uniform(size=120), rng.integers(0, 2, 120), rng.normal(size=120)
    score = rng.normal(size=120) - 2 * belief + asked + words / 2 + rng.normal(size=40)[questions]
    found = detector_reads(score, belief, questions, instructed=asked, surface=words, how=QUICK)
    levels = (questions[:, None] == np.arange(40)).astype(float)
    y, *x = [z - levels @ (levels.T @ z) / 3 for z in (rankdata(score), 1 - belief, asked, words)]
    scale = np.std(x, axis=1) / np.std(y)
    fit = sm.OLS(rankdata(score), np.column_stack([1 - belief, asked, words, levels])).fit()
    assert [part.slope for part in found.parts.values()] == pytest.approx((fit.params[:3] * scale).tolist())


@pytest.mark.parametrize("kind", EXPECTED)
def test_planted_detectors_are_told_apart(kind: str) -> None:
    """Of 12 tables each at most one is called otherwise; benchmarks/detectors.py has hundreds."""
    verdicts = [verdict(np.random.default_rng([7, draw]), kind, 100, 1.0) for draw in range(12)]
    assert verdicts.count(EXPECTED[kind]) >= 11


@pytest.mark.parametrize("kind", HARD)
def test_what_is_hard_to_see_is_not_called_the_belief(kind: str) -> None:
    """A mark, a word among many where questions differ most, and what fires only on lies that were asked for."""
    verdicts = [verdict(np.random.default_rng([7, draw]), kind, 100, 1.0) for draw in range(5)]
    assert "reads the belief" not in verdicts
    assert verdicts.count(HARD[kind]) >= 3


@pytest.mark.parametrize("kind", MISREAD)
def test_a_belief_that_is_misread_makes_no_detector_one_of_another_part(kind: str) -> None:
    """Of a belief that is read with errors the instruction would take up a share, since lies go with it."""
    verdicts = [verdict(np.random.default_rng([7, draw]), kind, 100, 1.0) for draw in range(5)]
    if kind.startswith("belief"):
        assert {*verdicts} <= {"reads the belief", "not shown"}
    else:
        assert verdicts.count(MISREAD[kind]) >= 4


def test_what_is_not_the_belief_is_read_only_where_the_lies_are_known() -> None:
    """Lies go with the instruction, and what is held is misread in four of ten rows."""
    rng, questions, asked = np.random.default_rng(5), np.repeat(np.arange(100), 4), np.tile([0, 0, 1, 1], 100)
    lie = np.where(rng.uniform(size=400) < 0.2, 1 - asked, asked)
    held = np.where(rng.uniform(size=400) < 0.4, lie, 1 - lie)

    def reads(score: Any, **given: Any) -> Any:
        return detector_reads(score + rng.normal(size=400) / 2, held, questions, instructed=asked, how=QUICK, **given)

    known, unknown, of_lies = reads(asked, lie=lie), reads(asked), reads(lie, lie=lie)
    verdicts = [each.verdict for each in (known, unknown, of_lies)]
    assert verdicts == ["reads the instruction to lie", "not shown", "not shown"]
    assert "not said which rows are lies" in unknown.why
    assert "not with the label in place of what is held, which may be misread" in of_lies.why


def test_rows_that_do_not_count_are_counted() -> None:
    """Those without a number, and those alone of their question."""
    rng = np.random.default_rng(6)
    questions, belief, score = np.repeat(np.arange(40), 3), rng.uniform(size=120), rng.normal(size=120)
    belief[:11], score[12] = np.nan, np.nan
    found = detector_reads(score, belief, questions, how=QUICK)
    assert (found.n_dropped, found.n_rows, found.n_clusters) == (13, 107, 36)
    assert found.parts["belief"].n_dropped == 13
    nothing = detector_reads(score * np.nan, belief, questions, how=QUICK)
    assert (nothing.n_dropped, nothing.status) == (120, "too_few")
    assert "0 questions hold several complete rows" in nothing.why
    assert detector_reads(score, belief, np.arange(120), how=QUICK).n_dropped == 120


def test_a_question_that_holds_most_rows_is_said_beside_the_verdict() -> None:
    rng = np.random.default_rng(7)
    questions = np.r_[np.zeros(200), np.repeat(np.arange(1, 40), 4)]
    lie = rng.integers(0, 2, len(questions))
    found = detector_reads(lie + rng.normal(size=len(lie)) / 4, 1 - lie, questions, instructed=0 * lie, how=QUICK)
    assert (found.verdict, found.status) == ("reads the belief", "few_effective_clusters")
    assert found.parts["belief"].status == "few_effective_clusters"


def test_the_belief_is_read_only_where_it_is_known_that_no_lie_was_asked_for() -> None:
    rng = np.random.default_rng(3)
    questions, asked = np.repeat(np.arange(60), 4), np.tile([0, 0, 1, 1], 60)
    lie = rng.integers(0, 2, 240)
    score, nowhere = lie + rng.normal(size=240) / 2, np.zeros(240)

    def reads(**given: Any) -> Any:
        return detector_reads(score, 1 - lie, questions, how=QUICK, **given)

    absent, never, always, some = (reads(instructed=each) for each in (None, nowhere, nowhere + 1, asked))
    assert [each.verdict == "reads the belief" for each in (absent, never, always, some)] == [False, True, False, True]
    assert absent.parts["belief"].ci_lo > 0
    assert "not said where a lie was asked for" in absent.why
    assert "asks for a lie in all rows or in none" in never.why
    assert "0 questions hold several complete rows" in always.why
    one_unasked = reads(instructed=np.tile([0, 1, 1, 1], 60))
    assert (one_unasked.verdict, "0 questions hold several complete rows" in one_unasked.why) == ("not shown", True)


def test_a_surface_that_could_not_be_tested_is_named() -> None:
    rng = np.random.default_rng(4)
    questions, lie = np.repeat(np.arange(60), 2), np.tile([0, 1], 60)
    score, nowhere = lie + rng.normal(size=120) / 4, np.zeros(120)
    for surface, why in ((None, "no surface is given"), (nowhere, "foretells nothing"), (-score, "or the opposite")):
        reads = detector_reads(score, 1 - lie, questions, instructed=nowhere, surface=surface, how=QUICK)
        assert "surface" not in reads.parts
        assert why in reads.why


def test_what_cannot_be_told_apart_is_not_shown() -> None:
    rng = np.random.default_rng(1)
    questions, lie = np.repeat(np.arange(60), 2), np.tile([0, 1], 60)
    score = lie + rng.normal(size=120) / 4
    together = detector_reads(score, 1 - lie, questions, instructed=lie, how=QUICK)
    assert (together.verdict, together.status) == ("not shown", "go_together")
    assert detector_reads(-score, 1 - lie, questions, how=QUICK).verdict == "not shown"
    assert detector_reads(score, 1 - lie, np.arange(120), how=QUICK).status == "too_few"
    assert detector_reads(np.ones(120), 1 - lie, questions, how=QUICK).status == "undefined"
    few = detector_reads(score[:58], 1 - lie[:58], questions[:58], how=QUICK)
    assert (few.status, few.verdict) == ("too_few", "not shown")


def test_any_rising_change_of_the_scores_leaves_the_verdict() -> None:
    rng = np.random.default_rng(2)
    questions, belief = np.repeat(np.arange(50), 4), rng.uniform(size=200)
    score = rng.normal(size=200) - 3 * belief
    plain, bent = (detector_reads(z, belief, questions, how=QUICK) for z in (score, np.exp(score)))
    assert {**plain.parts} == {**bent.parts}


def test_the_mahalanobis_cosine_is_that_of_the_covariance() -> None:
    """Reference: the formula, of directions in activations whose entries go together."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6)) @ rng.normal(size=(6, 6)) + 100
    u, v = rng.normal(size=(2, 6))
    s = np.cov(x.T)
    found = mahalanobis_cosine(x @ u + 3, 5 * (x @ v), np.arange(400) // 4)
    assert found.cosine == pytest.approx(u @ s @ v / np.sqrt((u @ s @ u) * (v @ s @ v)))
    assert -1 <= found.ci_lo < found.cosine < found.ci_hi <= 1
    alike = mahalanobis_cosine(x @ u, -2 * (x @ u), np.arange(400) // 4)
    assert (alike.cosine, alike.ci_lo) == (pytest.approx(-1), pytest.approx(-1))
    assert mahalanobis_cosine(x @ u, np.ones(400), np.arange(400)).status == "zero_variance"
    assert mahalanobis_cosine([1.0], [2.0], [0]).status == "too_few"
    assert mahalanobis_cosine([1.0, 2.0, np.nan], [2.0, 3.0, 1.0], [0, 0, 1]).status == "one_cluster"


def test_the_interval_of_a_mahalanobis_cosine_of_few_questions_covers_it() -> None:
    """Of five questions of four rows that are much alike the plain interval missed .10 of 2000 times, and one on
    Fisher's scale that is no shorter than t .05."""
    rng, clusters, missed = np.random.default_rng(1), np.repeat(np.arange(5), 4), 0
    for _ in range(500):
        first, noise = (rng.normal(size=5)[clusters] * 2 + rng.normal(size=20) for _ in range(2))
        found = mahalanobis_cosine(first, 0.5 * first + np.sqrt(0.75) * noise, clusters)
        missed += not found.ci_lo <= 0.5 <= found.ci_hi
    assert missed / 500 < 0.08
    assert found.status == "few_clusters"


def test_few_questions_are_said_of_a_mahalanobis_cosine() -> None:
    x, y = np.random.default_rng(2).normal(size=(2, 400))
    statuses = [mahalanobis_cosine(x[:n], y[:n], np.arange(n) // m, how=QUICK).status for n, m in ((20, 1), (400, 4))]
    assert statuses == ["ok", "ok"]
    assert mahalanobis_cosine(x[:20], y[:20], np.arange(20) // 2, how=QUICK).status == "few_clusters"
    one_large = np.maximum(np.arange(400) - 360, 0)
    assert mahalanobis_cosine(x, y, one_large, how=QUICK).status == "few_effective_clusters"


@pytest.mark.parametrize("unit", [1e160, 1e200, 1e300, 1e-170, 5e-310])
def test_a_mahalanobis_cosine_is_the_same_in_any_unit(unit: float) -> None:
    x, noise = np.random.default_rng(3).normal(size=(2, 80))
    one, other = (mahalanobis_cosine(each, x + noise, np.arange(80) // 2, how=QUICK) for each in (x, x * unit))
    assert (other.cosine, other.ci_lo, other.status) == (pytest.approx(one.cosine), pytest.approx(one.ci_lo), "ok")


def test_rounding_is_no_spread() -> None:
    x = np.full(80, 0.7)
    x[::7] = np.nextafter(0.7, 1)
    assert mahalanobis_cosine(x, x, np.arange(80) // 4).status == "zero_variance"


def test_the_mahalanobis_cosine_with_a_probe_of_the_rows_foretells_the_auroc_on_them() -> None:
    """Of classes whose scores are normal AUROC is nearly linear in it, and not in the plain cosine."""
    rng = np.random.default_rng(1)
    scale = np.array([10.0, 1.0, 1.0, 0.1, 0.1, 0.1, 0.1, 0.1])
    label = np.arange(2000) % 2
    x = scale * rng.normal(size=(2000, 8)) + np.outer(label - 0.5, [0, 2, 1, 0, 0, 0, 0, 0])
    reference = np.linalg.solve(np.cov(x.T), x[label == 1].mean(axis=0) - x[label == 0].mean(axis=0))
    directions = rng.normal(size=(40, 8)) * [0.05, 1, 1, 5, 5, 5, 5, 5]
    cosines = [
        mahalanobis_cosine(x @ reference, x @ each, np.arange(2000), how=Resampling(draws=20)) for each in directions
    ]
    areas = [auroc(x @ each, label, how=Resampling(draws=20)).auroc for each in directions]
    plain = directions @ reference / np.linalg.norm(directions, axis=1)
    assert np.corrcoef([each.cosine for each in cosines], areas)[0, 1] ** 2 > 0.97
    assert np.corrcoef(plain, areas)[0, 1] ** 2 < 0.9
