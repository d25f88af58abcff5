from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import mutual_info_score

from doxascope.metrics import (
    Resampling,
    cmh_test,
    gcm_test,
    plugin_cmi,
    quantile_bins,
    rao_blackwell_cmi,
    stratified_permutation,
    sufficiency_r2,
)

ACTION, THETA = [1, 1, 0, 0, 1, 1, 0, 0], [1, 1, 0, 0, 1, 0, 1, 0]
STRATUM = [0, 0, 0, 0, 1, 1, 1, 1]
labelled = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=20)


def by_stratum(action: np.ndarray, theta: np.ndarray, stratum: np.ndarray) -> float:
    """Weighted mean of sklearn's mutual information."""
    return sum(
        np.mean(stratum == s) * float(mutual_info_score(action[stratum == s], theta[stratum == s]))
        for s in np.unique(stratum)
    )


def test_half_of_the_rows_dependent_is_half_a_bit() -> None:
    assert plugin_cmi(action=ACTION, theta=THETA, stratum=STRATUM).cmi == pytest.approx(np.log(2) / 2)


@given(labelled)
def test_plugin_equals_the_weighted_mutual_information(rows: list) -> None:
    action, theta, stratum = np.array(rows).T
    cmi = plugin_cmi(action, theta, stratum).cmi
    assert cmi == pytest.approx(by_stratum(action, theta, stratum), abs=1e-10)
    assert cmi >= 0
    assert plugin_cmi(2 - action[::-1], theta[::-1], stratum[::-1]).cmi == pytest.approx(cmi, abs=1e-10)
    assert plugin_cmi(theta, action, stratum).cmi == pytest.approx(cmi, abs=1e-10)


def test_exact_permutation_law_equals_the_enumeration_of_all_orders() -> None:
    score = stratified_permutation(action=ACTION, theta=THETA, stratum=STRATUM)
    action, theta = np.array(ACTION), np.array(THETA)
    null = [
        by_stratum(action, np.concatenate(orders), np.array(STRATUM))
        for orders in product(permutations(theta[:4]), permutations(theta[4:]))
    ]
    assert score.p == pytest.approx(np.mean(np.array(null) >= score.cmi - 1e-9)) == pytest.approx(5 / 9)
    assert score.null_mean == pytest.approx(np.mean(null))
    assert score.debiased == pytest.approx(score.cmi - score.null_mean)
    assert "exact" in score.p_method


def test_drawn_law_agrees_with_the_exact_one() -> None:
    rng = np.random.default_rng(0)
    stratum = np.repeat([0, 1, 2], 12)
    theta = rng.integers(0, 2, 36)
    action = np.where(rng.random(36) < 0.4, theta, rng.integers(0, 2, 36))
    exact = stratified_permutation(action, theta, stratum)
    # A third action that is never taken within the test rows but exists elsewhere forces the draws.
    spare = [np.r_[x, y] for x, y in ((action, 2), (theta, 1), (stratum, 9))]
    drawn = stratified_permutation(*spare, how=Resampling(seed=1, draws=8000))
    assert "8000 draws" in drawn.p_method
    assert drawn.p == pytest.approx(exact.p, abs=0.02)
    assert drawn.null_mean * 37 / 36 == pytest.approx(exact.null_mean, rel=0.02)
    assert drawn == stratified_permutation(*spare, how=Resampling(seed=1, draws=8000))


def test_interval_of_the_debiased_effect_leaves_out_each_context_in_turn() -> None:
    rng = np.random.default_rng(7)
    stratum = np.repeat([0, 1, 2], [9, 8, 7])
    theta = rng.integers(0, 2, 24)
    action = np.where(rng.random(24) < 0.6, theta, rng.integers(0, 2, 24))
    score = stratified_permutation(action, theta, stratum)
    left_out = []
    for i in range(24):
        rest = np.arange(24) != i
        left_out.append(stratified_permutation(action[rest], theta[rest], stratum[rest]).debiased)
    se = np.sqrt(23 / 24 * np.sum((np.array(left_out) - np.mean(left_out)) ** 2))
    assert score.se == pytest.approx(se)
    half = stats.t.ppf(0.975, 23) * se
    assert (score.ci_lo, score.ci_hi) == pytest.approx((score.debiased - half, score.debiased + half))


def test_permutation_test_holds_its_level_and_finds_dependence() -> None:
    rng = np.random.default_rng(2)
    p_null, p_planted = [], []
    for _ in range(150):
        belief = rng.random(60)
        stratum = quantile_bins(belief, 4)
        theta = (rng.random(60) < belief).astype(int)
        action = (rng.random(60) < belief).astype(int)
        p_null.append(stratified_permutation(action, theta, stratum, how=Resampling(draws=199)).p)
        copied = np.where(rng.random(60) < 0.6, theta, action)
        p_planted.append(stratified_permutation(copied, theta, stratum, how=Resampling(draws=199)).p)
    assert np.mean(np.array(p_null) <= 0.05) <= 0.1
    assert np.mean(np.array(p_planted) <= 0.05) > 0.9


def test_strata_without_freedom_reject_nothing() -> None:
    fixed = stratified_permutation([1, 1, 0], [1, 0, 1], [0, 0, 1])
    assert (fixed.p, fixed.status) == (1.0, "no_freedom")
    assert fixed.debiased == pytest.approx(0)
    empty = stratified_permutation([np.nan], [1], [0])
    assert empty.status == "too_few"
    assert np.isnan([empty.cmi, empty.p]).all()


def test_cmh_equals_its_closed_form() -> None:
    action = np.array([1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 0])
    theta = np.array([1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 1, 1, 0, 1, 0])
    stratum = np.array([0] * 6 + [1] * 5 + [2] * 5)
    gap = variance = 0.0
    for s in range(3):
        a, t = action[stratum == s], theta[stratum == s]
        n, row, column = len(a), a.sum(), t.sum()
        gap += (a * t).sum() - row * column / n
        variance += row * (n - row) * column * (n - column) / (n**2 * (n - 1))
    score = cmh_test(action=action, theta=theta, stratum=stratum)
    assert score.chi2 == pytest.approx(gap**2 / variance)
    assert score.p == pytest.approx(stats.chi2.sf(gap**2 / variance, 1))
    alone = cmh_test(np.r_[action, 1], np.r_[theta, 1], np.r_[stratum, 9])
    assert alone.chi2 == pytest.approx(score.chi2)
    assert cmh_test(1 - action[::-1], theta[::-1], stratum[::-1]).chi2 == pytest.approx(score.chi2)


def test_cmh_without_variation_is_undefined() -> None:
    for action, theta, stratum in (
        ([1, 1], [0, 1], [0, 0]),
        ([0, 1], [0, 1], [0, 1]),
        ([0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1, 1]),
    ):
        score = cmh_test(action, theta, stratum)
        assert score.status == "no_variation"
        assert np.isnan([score.chi2, score.p]).all()
    with pytest.raises(ValueError, match="two of each"):
        cmh_test([0, 1, 2], [0, 1, 1], [0, 0, 0])


def test_rao_blackwell_is_what_the_plugin_tends_to() -> None:
    rng = np.random.default_rng(3)
    stratum = rng.integers(0, 2, 40)
    p_star, pi = rng.random(40), rng.random(40)
    exact = rao_blackwell_cmi(pi, p_star, stratum)
    times = 4000
    rows = np.repeat(np.arange(40), times)
    action, theta = rng.random(len(rows)) < pi[rows], rng.random(len(rows)) < p_star[rows]
    assert plugin_cmi(action, theta, stratum[rows]).cmi == pytest.approx(exact.cmi, abs=5e-4)
    both = rao_blackwell_cmi(np.column_stack([pi, 1 - pi]), 1 - p_star, stratum)
    assert both.cmi == pytest.approx(exact.cmi)


def test_rao_blackwell_limits() -> None:
    certain = rao_blackwell_cmi([0.0, 1.0], [0.0, 1.0], [0, 0])
    assert certain.cmi == pytest.approx(np.log(2))
    assert rao_blackwell_cmi([0.3, 0.3], [0.1, 0.9], [0, 0]).cmi == pytest.approx(0, abs=1e-15)
    assert np.isnan(rao_blackwell_cmi([np.nan], [0.5], [0]).cmi)
    with pytest.raises(ValueError, match="sums to"):
        rao_blackwell_cmi([[0.5, 0.4]], [0.5], [0])


def test_gcm_is_a_root_n_mean_of_residual_products() -> None:
    action, theta = np.array([1, 0, 1, 1, 0]), np.array([1, 0, 0, 1, 1])
    m_hat, e_hat = np.full(5, 0.6), np.array([0.7, 0.2, 0.5, 0.6, 0.4])
    r = (action - m_hat) * (theta - e_hat)
    score = gcm_test(action=action, theta=theta, m_hat=m_hat, e_hat=e_hat)
    assert pytest.approx(np.sqrt(5) * r.mean() / np.sqrt((r**2).mean() - r.mean() ** 2)) == score.T
    assert score.p == pytest.approx(2 * stats.norm.sf(abs(score.T)))
    grouped = gcm_test(action, theta, m_hat, e_hat, groups=["a", "a", "b", "b", "c"])
    sums = np.array([r[:2].sum(), r[2:4].sum(), r[4]])
    assert pytest.approx(np.sqrt(3) * sums.mean() / sums.std()) == grouped.T
    assert grouped.n_clusters == 3


def test_gcm_holds_its_level() -> None:
    rng = np.random.default_rng(4)
    belief = rng.random((400, 100))
    action, theta = rng.random(belief.shape) < belief, rng.random(belief.shape) < belief
    p = [gcm_test(a, t, b, b).p for a, t, b in zip(action, theta, belief, strict=True)]
    assert 0.02 <= np.mean(np.array(p) < 0.05) <= 0.09


def test_gcm_of_few_contexts_says_so() -> None:
    action, theta = np.random.default_rng(2).integers(0, 2, (2, 100))
    half = np.full(100, 0.5)
    assert [gcm_test(action[:n], theta[:n], half[:n], half[:n]).status for n in (99, 100)] == ["few_contexts", "ok"]


def test_gcm_without_variance_is_undefined() -> None:
    flat = gcm_test([1, 1], [1, 1], [0.5, 0.5], [0.5, 0.5])
    assert (flat.status, np.isnan(flat.T)) == ("zero_variance", True)
    assert gcm_test([1], [1], [0.5], [0.5]).status == "too_few"
    with pytest.raises(ValueError, match="lengths differ"):
        gcm_test([1, 0], [1, 0], [0.5], [0.5, 0.5])


def test_sufficiency_is_the_r2_of_a_regression_on_strata() -> None:
    rng = np.random.default_rng(5)
    stratum = rng.integers(0, 4, 50)
    pi = rng.random(50) * 0.3 + stratum * 0.2
    pi = np.clip(pi, 0, 1)
    score = sufficiency_r2(pi, stratum)
    within = pd.Series(pi).groupby(stratum).transform(lambda x: x - x.mean())
    assert score.r2 == pytest.approx(1 - within.var() / pi.var(ddof=1))
    assert score.r2_adjusted == pytest.approx(1 - (1 - score.r2) * 49 / 46)
    assert sufficiency_r2(np.column_stack([pi, 1 - pi]), stratum).r2 == pytest.approx(score.r2)
    assert sufficiency_r2(1 - pi[::-1], stratum[::-1]).r2 == pytest.approx(score.r2)


def test_sufficiency_of_strata_that_say_nothing_is_adjusted_to_zero() -> None:
    rng = np.random.default_rng(6)
    scores = [sufficiency_r2(rng.random(40), np.arange(40) // 4) for _ in range(300)]
    assert np.mean([s.r2 for s in scores]) > 0.15
    assert np.mean([s.r2_adjusted for s in scores]) == pytest.approx(0, abs=0.03)
    assert sufficiency_r2([0.3, 0.3], [0, 1]).status == "constant"
    assert np.isnan(sufficiency_r2([0.3], [0]).r2)
    assert sufficiency_r2([np.nan], [0]).status == "too_few"
    assert np.isnan(sufficiency_r2([0.3, 0.4], [0, 1]).r2_adjusted)


@settings(max_examples=50)
@given(st.lists(st.sampled_from([0.1, 0.5, 0.7, 0.85, 0.9]) | st.floats(0, 1), min_size=2, max_size=30))
def test_bins_follow_qcut_and_never_cut_a_tie(p: list[float]) -> None:
    bins = quantile_bins(p)
    if np.ptp(p) > 1e-9:
        np.testing.assert_array_equal(bins, pd.qcut(np.array(p), 5, labels=False, duplicates="drop"))
    order = np.argsort(p, kind="stable")
    assert (np.diff(bins[order]) >= 0).all()
    assert all(len({int(b) for b, v in zip(bins, p, strict=True) if v == value}) == 1 for value in p)


def test_a_constant_belief_has_one_bin_and_a_missing_one_none() -> None:
    assert quantile_bins([0.5, 0.5, np.nan]).tolist() == [0, 0, -1]
    assert quantile_bins([np.nan]).tolist() == [-1]
    with pytest.raises(ValueError, match="bins"):
        quantile_bins([0.5], 0)
