"""What no test of coherence may depend on: the order of the rows, which side is called X, copies within a cluster."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from doxascope.metrics import cluster_mean, invalid_association, martingale_tests, sign_flip_test, trajectory_pairs

seeds = st.integers(0, 10_000)


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_the_battery_knows_neither_the_order_of_rows_nor_the_side(seed: int) -> None:
    rng = np.random.default_rng(seed)
    prior, post = rng.uniform(size=(2, 24))
    groups, order = np.repeat(np.arange(8), 3), rng.permutation(24)
    plain = martingale_tests(prior, post, groups).p_tests
    shuffled = martingale_tests(prior[order], post[order], groups[order]).p_tests
    turned = martingale_tests(1 - prior, 1 - post, groups).p_tests
    assert shuffled == pytest.approx(plain)
    for test in ("slope", "joint"):
        assert turned[test] == pytest.approx(plain[test])


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(2, 4))
def test_copies_within_clusters_are_no_evidence(seed: int, copies: int) -> None:
    rng = np.random.default_rng(seed)
    values, groups = rng.normal(0.3, 1, 9), np.arange(9)
    again = np.repeat(values, copies), np.repeat(groups, copies)
    assert sign_flip_test(*again).p == pytest.approx(sign_flip_test(values, groups).p)
    one, many = cluster_mean(values, groups, seed=0), cluster_mean(*again, seed=0)
    assert (many.mean, many.se, many.ci_lo) == pytest.approx((one.mean, one.se, one.ci_lo))
    assert sign_flip_test(-values, groups).p == pytest.approx(sign_flip_test(values, groups).p)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=5), min_size=1, max_size=5))
def test_pairs_of_complements_are_complements_of_pairs(chains: list[list[float]]) -> None:
    plain = trajectory_pairs(chains, "per_step", np.arange(len(chains)))
    turned = trajectory_pairs([[1 - b for b in chain] for chain in chains], "per_step", np.arange(len(chains)))
    np.testing.assert_allclose(turned.prior, 1 - plain.prior)
    np.testing.assert_allclose(turned.post, 1 - plain.post)
    assert len(plain.prior) == sum(len(chain) - 1 for chain in chains)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_association_is_that_of_scipy(seed: int) -> None:
    prior, post = np.random.default_rng(seed).uniform(0.05, 0.95, (2, 20))
    score = invalid_association(prior_norm=prior, post_norm=post)
    assert score.pearson == pytest.approx(stats.pearsonr(prior, post).statistic)
    assert score.spearman == pytest.approx(stats.spearmanr(prior, post).statistic)
    covariance = np.cov(prior, post, ddof=0)[0, 1]
    assert score.increase_rate == pytest.approx(1 + covariance / (prior.mean() * post.mean()))
