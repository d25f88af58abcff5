from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logit

from doxascope.metrics import (
    Resampling,
    brier_vs_bayes_correlation,
    paired_significance,
    sycophancy_change,
    sycophancy_error,
)
from doxascope.metrics.inference.intervals import correlation_of_sums

BASE = np.array([0.1, 0.2, 0.05, 0.3, 0.25, 0.15, 0.12, 0.08])
SYC = np.array([0.15, 0.22, 0.11, 0.28, 0.33, 0.21, 0.1, 0.16])
belief = st.floats(0.05, 0.95)


def test_change_four_ways() -> None:
    score = sycophancy_change(base=[0.5, 0.8, 0.4, 0.0], syc=[0.6, 0.84, 0.3, 0.2])
    assert score.mean_relative == pytest.approx((0.2 + 0.05 - 0.25) / 3, abs=1e-12)
    assert score.ratio_of_means == pytest.approx(0.24 / 1.7)
    assert score.mean_abs_change == pytest.approx(0.06)
    expected = np.mean(logit([0.6, 0.84, 0.3, 0.2]) - logit([0.5, 0.8, 0.4, 1e-6]))
    assert score.mean_logit_change == pytest.approx(expected)
    assert (score.n_zero_base, score.n_clipped) == (1, 1)
    assert score.ci_method == "t over 4 clusters"


def test_the_few_who_cave_are_counted_by_scenario() -> None:
    base, scenario = np.full(60, 0.2), np.repeat(np.arange(20), 3)
    syc = np.where(scenario < 3, 0.6, base)
    score = sycophancy_change(base, syc, scenario)
    assert score.share_moved == 3 / 20
    assert score.status == "few_clusters"  # a sample may hold none of those who cave
    assert sycophancy_change(np.full(30, 0.2), np.full(30, 0.3)).status == "ok"
    assert score.mean_logit_change == pytest.approx(0.15 * (logit(0.6) - logit(0.2)))
    assert score.p_method == score.ci_method == "studentised cluster bootstrap, at least as wide as the t interval"
    assert (score.p < 0.05) == (score.ci_lo > 0 or score.ci_hi < 0)


def test_only_the_log_odds_change_ignores_the_label() -> None:
    up, down = sycophancy_change([0.1], [0.2]), sycophancy_change([0.9], [0.8])
    assert (up.mean_relative, down.mean_relative) == (pytest.approx(1.0), pytest.approx(-1 / 9))
    assert up.mean_logit_change == pytest.approx(-down.mean_logit_change)


def test_change_of_degenerate_beliefs() -> None:
    zero = sycophancy_change([0.0, 0.0], [0.1, 0.2])
    assert (zero.status, zero.n_zero_base) == ("zero_base", 2)
    assert np.isnan([zero.mean_relative, zero.ratio_of_means]).all()
    assert np.isfinite(zero.mean_logit_change)
    empty = sycophancy_change([np.nan], [0.5])
    assert (empty.status, empty.n_dropped) == ("too_few", 1)
    assert np.isnan(empty.mean_abs_change)
    with pytest.raises(ValueError, match="lengths differ"):
        sycophancy_change([0.5], [0.5, 0.6])


def test_error_against_one_posterior_in_both_arms() -> None:
    score = sycophancy_error(base=[0.5, 0.7, 0.6], syc=[0.6, 0.9, 0.5], bayes=[0.55, 0.6, 0.7])
    assert score.rmse_base == pytest.approx(np.sqrt(0.0225 / 3))
    assert score.rmse_syc == pytest.approx(np.sqrt(0.1325 / 3))
    assert score.sycophancy_error == pytest.approx(score.rmse_syc - score.rmse_base)
    assert score.mae_diff == pytest.approx(0.1)


@given(st.lists(st.tuples(belief, belief, belief), min_size=1, max_size=9))
def test_error_change_is_movement_plus_alignment_and_ignores_the_label(rows: list) -> None:
    base, syc, bayes = np.array(rows).T
    score = sycophancy_error(base, syc, bayes)
    assert score.mse_diff == pytest.approx(score.movement + score.alignment, abs=1e-12)
    assert score.mse_diff == pytest.approx(score.rmse_syc**2 - score.rmse_base**2, abs=1e-12)
    other = sycophancy_error(1 - base[::-1], 1 - syc[::-1], 1 - bayes[::-1])
    assert other.sycophancy_error == pytest.approx(score.sycophancy_error, abs=1e-9)
    assert other.alignment == pytest.approx(score.alignment, abs=1e-9)


def test_a_uniform_shift_improves_a_model_that_predicts_too_little() -> None:
    base = np.linspace(0.2, 0.6, 20)
    score = sycophancy_error(base, base + 0.1, base + 0.2)
    assert score.sycophancy_error == pytest.approx(-0.1)
    assert score.movement > 0 > score.alignment
    assert score.ci_method == "expanded percentile cluster bootstrap"


def test_error_of_missing_rows() -> None:
    score = sycophancy_error([0.5, np.nan], [0.6, 0.5], [0.5, 0.5])
    assert (score.n_rows, score.n_dropped, score.ci_method) == (1, 1, "none: one cluster")
    empty = sycophancy_error([0.5], [0.5], [np.nan])
    assert empty.status == "too_few"
    assert np.isnan([empty.sycophancy_error, empty.movement]).all()


def flips_by_enumeration(sums: np.ndarray) -> float:
    totals = [abs(np.dot(signs, sums)) for signs in product([1, -1], repeat=len(sums))]
    return float(np.mean([t >= abs(sums.sum()) - 1e-12 for t in totals]))


def test_paired_test_by_flips_and_by_t() -> None:
    score = paired_significance(base=BASE, syc=SYC)
    t = stats.ttest_rel(SYC, BASE)
    assert (score.mean, score.t, score.p_t) == pytest.approx((0.03875, t.statistic, t.pvalue))
    assert score.p_signflip == flips_by_enumeration(SYC - BASE) == 14 / 256
    library = stats.permutation_test((SYC, BASE), lambda x, y, axis: np.mean(x - y, axis=axis),
                                     permutation_type="samples", vectorized=True)  # fmt: skip
    assert score.p_signflip == pytest.approx(library.pvalue)
    assert (score.p, score.ci_method) == (pytest.approx(t.pvalue), "t over 8 clusters")


def test_flips_take_whole_scenarios() -> None:
    scenario = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    score = paired_significance(BASE, SYC, scenario)
    sums = np.bincount(scenario, SYC - BASE)
    assert score.p_signflip == flips_by_enumeration(sums)
    assert (score.n_clusters, score.n_rows) == (4, 8)


def test_many_scenarios_are_drawn_and_close_to_the_exact_law() -> None:
    rng = np.random.default_rng(0)
    difference = rng.normal(0.2, 1, 14)
    drawn = paired_significance(np.zeros(14), difference, how=Resampling(seed=1, draws=20000))
    assert drawn.p_method == drawn.ci_method == "studentised cluster bootstrap, at least as wide as the t interval"
    assert (drawn.p < 0.05) == (drawn.ci_lo > 0 or drawn.ci_hi < 0)
    assert drawn.p_signflip == pytest.approx(flips_by_enumeration(difference), abs=0.015)
    assert drawn == paired_significance(np.zeros(14), difference, how=Resampling(seed=1, draws=20000))


def test_pairs_without_variance_or_without_pairs() -> None:
    same = paired_significance([0.1, 0.2, 0.3], [0.2, 0.3, 0.4])
    assert (same.status, same.p_signflip) == ("zero_variance", 0.25)
    assert np.isnan([same.t, same.p_t]).all()
    one = paired_significance([0.1], [0.2])
    assert (one.status, one.p_signflip) == ("too_few", 1.0)
    empty = paired_significance([np.nan], [0.2])
    assert np.isnan([empty.mean, empty.p_signflip, empty.t]).all()
    assert paired_significance(BASE, BASE).p_signflip == 1.0


@given(st.lists(st.tuples(belief, belief), min_size=2, max_size=7))
def test_swapping_the_arms_turns_the_sign_and_keeps_the_p(rows: list) -> None:
    base, syc = np.array(rows).T
    one, other = paired_significance(base, syc), paired_significance(syc[::-1], base[::-1])
    assert one.mean == pytest.approx(-other.mean)
    assert one.p_signflip == pytest.approx(other.p_signflip)


def test_correlation_of_changes() -> None:
    d_brier, d_bayes = [0.02, -0.01, 0.05, 0.0, 0.03, -0.02], [0.1, 0.02, 0.04, 0.05, 0.12, -0.03]
    score = brier_vs_bayes_correlation(d_brier=d_brier, d_bayes=d_bayes)
    assert score.pearson == pytest.approx(np.corrcoef(d_brier, d_bayes)[0, 1])
    ranks = np.corrcoef(stats.rankdata(d_brier), stats.rankdata(d_bayes))
    assert score.spearman == pytest.approx(ranks[0, 1])
    assert score.ci_lo < score.pearson < score.ci_hi


def test_correlation_intervals_resample_scenarios() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=40)
    y = x + rng.normal(size=40)
    rows = np.arange(40).repeat(5)
    clustered = brier_vs_bayes_correlation(x[rows], y[rows], rows, how=Resampling(draws=400))
    alone = brier_vs_bayes_correlation(x[rows], y[rows], how=Resampling(draws=400))
    assert clustered.pearson == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert clustered.se > 1.7 * alone.se
    low, high = clustered.spearman_ci
    assert low < clustered.spearman < high


def test_a_resample_in_which_nothing_but_rounding_varies_has_no_correlation() -> None:
    x, y = np.full(9, 0.1) / 3, np.random.default_rng(0).normal(size=9)
    for first, second in ((x, y), (y, x), (x, x), (y, y)):
        rows = np.column_stack([np.ones(9), first, second, first**2, second**2, first * second])
        value = correlation_of_sums(rows.sum(axis=0))
        assert value == pytest.approx(1) if first is second is y else np.isnan(value)


def test_correlation_of_degenerate_changes() -> None:
    constant = brier_vs_bayes_correlation([0.1, 0.1, 0.1], [0.1, 0.2, 0.3])
    assert constant.status == "constant"
    assert np.isnan([constant.pearson, constant.spearman]).all()
    assert brier_vs_bayes_correlation([0.1, np.nan], [0.1, 0.2]).status == "too_few"


def test_two_rows_that_change_alike_have_no_variance() -> None:
    assert paired_significance([0.2, 0.2], [0.3, 0.3]).status == "zero_variance"
    assert paired_significance([0.2], [0.3]).status == "too_few"
