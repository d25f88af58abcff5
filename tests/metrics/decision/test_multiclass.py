"""Scores of beliefs over several options, and their calibration: against formulas, scikit-learn, and all outcomes."""

from itertools import product

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import log_loss

from doxascope.metrics import (
    Resampling,
    brier,
    calibration_error,
    cluster_mean,
    option_scores,
    order_effect,
    ratio_of_sums,
)

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(5), 40)
TRUTH = RNG.integers(0, 5, 40)


def test_scores_are_those_of_the_formulas_and_of_scikit_learn() -> None:
    found = option_scores(P, TRUTH)
    one_hot = np.eye(5)[TRUTH]
    np.testing.assert_allclose(found.brier, ((P - one_hot) ** 2).sum(axis=1))
    assert found.log_loss.mean() == pytest.approx(log_loss(TRUTH, P, labels=range(5)))
    assert found.correct.mean() == (P.argmax(axis=1) == TRUTH).mean()


def test_of_two_options_the_brier_score_is_twice_that_of_one() -> None:
    p, y = RNG.random(30), RNG.integers(0, 2, 30)
    both = option_scores(np.column_stack([1 - p, p]), y).brier.mean()
    assert both == pytest.approx(2 * brier(p, y).brier)


def test_ties_share_the_credit_and_what_is_unknown_has_no_score() -> None:
    found = option_scores([[0.4, 0.4, 0.2], [0.4, 0.4, 0.2], [np.nan] * 3, [1, 0, 0]], [1, 2, 0, np.nan])
    np.testing.assert_array_equal(found.correct, [0.5, 0, np.nan, np.nan])
    with pytest.raises(ValueError, match=r"not the index of an option, 0 \.\. 2"):
        option_scores([[0.4, 0.4, 0.2]], [3])


@pytest.mark.parametrize("per_cluster", [1, 2])
def test_the_squared_error_of_a_calibrated_model_is_0_on_average_over_all_outcomes(per_cluster: int) -> None:
    """Exactly, whatever the dependence within clusters: the published ECE of the same outcomes is far from 0."""
    levels, clusters = (0.3, 0.3, 0.3, 0.3, 0.8, 0.8, 0.8, 0.8), np.repeat(np.arange(8), per_cluster)
    squared = ece = chance = 0.0
    for outcome in product((0, 1), repeat=len(levels)):
        weight = np.prod([p if y else 1 - p for p, y in zip(levels, outcome, strict=True)])
        found = calibration_error(np.repeat(levels, per_cluster), np.repeat(outcome, per_cluster), clusters, bins=2)
        squared, ece = squared + weight * found.squared, ece + weight * found.ece
        chance += weight * found.ece_by_chance
    assert squared == pytest.approx(0, abs=1e-12)
    assert ece > 0.1
    assert chance == pytest.approx(ece, rel=0.25)


def test_a_model_that_is_too_sure_has_an_error_of_as_much_as_it_is_too_sure() -> None:
    y = np.tile([1, 1, 1, 0, 0], 200)  # .6 right
    found = calibration_error(np.full(1000, 0.9), y)
    assert found.rms == pytest.approx(0.3, abs=1e-3)
    assert found.ci_lo < 0.3 < found.ci_hi
    (one,) = found.bins
    assert (one.n, one.confidence, one.frequency) == (1000, pytest.approx(0.9), pytest.approx(0.6))
    assert one.lo > one.frequency


def test_the_interval_of_one_bin_is_that_of_a_mean_and_reaches_0_where_its_own_does() -> None:
    """Theorem: the square of a normal mean is a noncentral chi2, so that far from 0 both invert the same test."""
    y = np.tile([1, 1, 1, 0, 0], 40)
    found = calibration_error(np.full(200, 0.9), y, bins=1)
    mean = cluster_mean(y - 0.9, np.arange(200), how=Resampling(draws=1))
    reach = stats.t.ppf(0.975, 199) * mean.se
    assert (found.ci_lo, found.ci_hi) == (pytest.approx(0.3 - reach, rel=0.02), pytest.approx(0.3 + reach, rel=0.02))
    near = calibration_error(np.full(200, 0.6), y, bins=1)
    assert (near.ci_lo, near.rms) == (0, 0)


def test_where_errors_are_rare_those_that_were_seen_do_not_make_the_interval() -> None:
    """A calibrated model that is sure of itself: without a single error its residuals hardly vary."""
    s = np.linspace(0.98, 0.995, 60)
    rare = calibration_error(s, np.ones(60))
    assert rare.status == "few_surprises"
    assert rare.ci_lo == 0
    often = calibration_error(np.tile(np.linspace(0.6, 0.95, 60), 3), np.tile([1, 1, 1, 0], 45))
    assert often.status == "ok"


def test_bins_hold_as_many_and_the_band_widens_with_clusters() -> None:
    s = RNG.random(300)
    y = (RNG.random(300) < s).astype(float)
    alone = calibration_error(s, y)
    assert [one.n for one in alone.bins] == [30] * 10
    twice = calibration_error(np.repeat(s, 2), np.repeat(y, 2), np.repeat(np.arange(300), 2))
    for one, two in zip(alone.bins, twice.bins, strict=True):
        assert two.hi - two.lo == pytest.approx(one.hi - one.lo, rel=1e-6)


def test_what_cannot_be_told_is_a_status() -> None:
    assert calibration_error([], []).status == "too_few"
    alone = calibration_error([0.5, 0.6], [1, 0], ["a", "a"], bins=1)
    assert (alone.status, np.isnan(alone.rms)) == ("one_cluster", True)
    with pytest.raises(ValueError, match="is not an outcome"):
        calibration_error([0.5], [0.5])


def test_an_order_that_does_nothing_has_no_effect_and_one_that_decides_has_all() -> None:
    assert order_effect([[0.7, 0.3], [0.7, 0.3]]).moved == 0
    decides = order_effect(np.eye(3))
    assert decides.moved == pytest.approx(2 / 3)
    assert decides.of_order == pytest.approx(decides.of_options)
    assert np.isnan([*order_effect([[0.7, 0.3]]), order_effect([[0.7, 0.3]]).follows_place]).all()


@pytest.mark.parametrize(
    ("content", "place", "follows"), [(3, 0.3, 0), (0.3, 3, 1), (0, 0.05, 0), (0, 0.5, 1), (0, 0, 0)]
)
def test_a_belief_follows_the_place_where_that_moves_it_and_makes_most_of_it(
    content: float, place: float, follows: float
) -> None:
    """Who is undecided but for a hair does not answer by place; which option is called first changes nothing."""
    orders = [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]
    for favoured in range(4):
        odds = content * np.eye(4)[favoured] + place * (np.argsort(orders, axis=1) == 0)
        belief = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
        assert order_effect(belief).follows_place == follows


def test_a_ratio_of_sums_is_no_mean_of_ratios() -> None:
    columns = np.column_stack([[1.0, 9.0], [1.0, 3.0]])
    assert ratio_of_sums(columns, [0, 1]).ratio == 2.5
    assert ratio_of_sums(np.zeros((3, 2)), [0, 1, 2]).status == "undefined"


def test_one_bin_is_no_calibration() -> None:
    """An error of 0 over one bin would only say that the mean confidence is the accuracy."""
    s, y = np.tile([0.2, 0.8], 15), np.tile([1.0, 0.0], 15)  # as wrong as can be, and right on average
    few = calibration_error(s[:29], y[:29])
    assert (few.status, few.bins) == ("too_few", ())
    assert np.isnan([few.rms, few.ece]).all()
    assert len(calibration_error(s, y).bins) == 2
    assert calibration_error(s, y).ece == pytest.approx(0.8)
