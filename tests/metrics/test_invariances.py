"""What no test of coherence may depend on: the order of the rows, which side is called X, copies within a cluster."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import log_softmax

from doxascope.metrics import (
    BeliefGate,
    PairedDifference,
    Resampling,
    belief_gate,
    bootstrap_moments,
    brier_on_split_martingale,
    cluster_mean,
    factor_regression,
    invalid_association,
    martingale_score,
    martingale_tests,
    paired_difference,
    paired_difference_moments,
    paired_family,
    quantile_bins,
    readout_gate,
    sign_flip_test,
    tost,
    trajectory_pairs,
    wild_cluster_test,
    word_identity_null,
)
from doxascope.metrics.inference.intervals import bca_tails

seeds = st.integers(0, 10_000)


@settings(max_examples=10, deadline=None)
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


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(2, 4))
def test_copies_within_clusters_are_no_evidence(seed: int, copies: int) -> None:
    rng = np.random.default_rng(seed)
    values, groups = rng.normal(0.3, 1, 9), np.arange(9)
    again = np.repeat(values, copies), np.repeat(groups, copies)
    assert sign_flip_test(*again).p == pytest.approx(sign_flip_test(values, groups).p)
    one, many = cluster_mean(values, groups), cluster_mean(*again)
    assert (many.mean, many.se, many.ci_lo) == pytest.approx((one.mean, one.se, one.ci_lo))
    assert sign_flip_test(-values, groups).p == pytest.approx(sign_flip_test(values, groups).p)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=5), min_size=1, max_size=5))
def test_pairs_of_complements_are_complements_of_pairs(chains: list[list[float]]) -> None:
    plain = trajectory_pairs(chains, "per_step", np.arange(len(chains)))
    turned = trajectory_pairs([[1 - b for b in chain] for chain in chains], "per_step", np.arange(len(chains)))
    np.testing.assert_allclose(turned.prior, 1 - plain.prior)
    np.testing.assert_allclose(turned.post, 1 - plain.post)
    assert len(plain.prior) == sum(len(chain) - 1 for chain in chains)


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_association_is_that_of_scipy(seed: int) -> None:
    prior, post = np.random.default_rng(seed).uniform(0.05, 0.95, (2, 20))
    score = invalid_association(prior_norm=prior, post_norm=post)
    assert score.pearson == pytest.approx(stats.pearsonr(prior, post).statistic)
    assert score.spearman == pytest.approx(stats.spearmanr(prior, post).statistic)
    covariance = np.cov(prior, post, ddof=0)[0, 1]
    assert score.increase_rate == pytest.approx(1 + covariance / (prior.mean() * post.mean()))


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_factors_know_neither_the_order_of_rows_nor_the_side(seed: int) -> None:
    rng = np.random.default_rng(seed)
    b, q = rng.uniform(size=(2, 40))
    arm, groups, order = rng.permutation(np.tile(["x", "y"], 20)), np.tile(np.arange(8), 5), rng.permutation(40)
    plain = factor_regression(q - b, b, {"arm": arm}, {"arm": "x"}, groups)
    moved = factor_regression((q - b)[order], b[order], {"arm": arm[order]}, {"arm": "x"}, groups[order])
    turned = factor_regression(b - q, 1 - b, {"arm": arm}, {"arm": "x"}, groups)
    assert moved.coefficients == pytest.approx(plain.coefficients)
    for name in ("b", "b:arm[y]"):
        for other in (moved, turned):
            assert (other[name], other.terms[name].se) == pytest.approx((plain[name], plain.terms[name].se))
    # The intercept is read at the other end: beta0 becomes -(beta0 + slope).
    assert turned["const"] == pytest.approx(-(plain["const"] + plain["b"]))


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_split_regression_does_not_know_the_side_or_the_names_of_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    b, y = rng.uniform(0.2, 0.8, 160), rng.integers(0, 2, 160)
    q = np.clip(b + rng.normal(0, 0.1, 160), 0, 1)
    question, cell = np.tile(np.arange(20), 8), np.repeat(np.arange(8), 20)
    plain = brier_on_split_martingale(b, q, y, question, cell, splits=2, how=Resampling(draws=20))
    turned = brier_on_split_martingale(1 - b, 1 - q, 1 - y, question, cell, splits=2, how=Resampling(draws=20))
    named = brier_on_split_martingale(
        b, q, y, question, np.array(list("hgfedcba"))[cell], splits=2, how=Resampling(draws=20)
    )
    for other in (turned, named):
        assert (other.coef, other.se) == pytest.approx((plain.coef, plain.se))


@settings(deadline=None)
@given(st.floats(-1, 1), st.floats(0.01, 1), st.floats(1, 50), st.floats(-5, 5), st.floats(0.1, 10))
def test_equivalence_knows_neither_units_nor_side(est: float, se: float, df: float, shift: float, unit: float) -> None:
    plain = tost(est, se, df, -0.3, 0.5)
    moved = tost(unit * est + shift, unit * se, df, shift - 0.3 * unit, shift + 0.5 * unit)
    assert moved.p == pytest.approx(plain.p, abs=1e-9)
    turned = tost(-est, se, df, -0.5, 0.3)
    assert (turned.p_lower, turned.p_upper) == pytest.approx((plain.p_upper, plain.p_lower))


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(2, 3))
def test_wild_p_knows_neither_units_nor_order_nor_copies(seed: int, copies: int) -> None:
    rng = np.random.default_rng(seed)
    y, b = rng.normal(size=(2, 21))
    x, groups, order = np.column_stack([np.ones(21), b]), np.arange(21) % 7, rng.permutation(21)
    plain = wild_cluster_test(y, x, groups, 1)
    for other in (
        wild_cluster_test(-3 * y, x, groups, 1),
        wild_cluster_test(y[order], x[order], groups[order], 1),
        wild_cluster_test(np.repeat(y, copies), np.repeat(x, copies, axis=0), np.repeat(groups, copies), 1),
    ):
        assert other.p == pytest.approx(plain.p)
    assert wild_cluster_test(5 + y, x, groups, 1).t == pytest.approx(plain.t)


def _means(sums: np.ndarray) -> np.ndarray:
    return sums[:, 0] / sums[:, 1]


@settings(max_examples=10, deadline=None)
@given(seeds, st.sampled_from([6, 24]))
def test_paired_differences_turn_with_the_kinds_and_keep_their_p(seed: int, n: int) -> None:
    one, two = np.random.default_rng(seed).uniform(size=(2, n))
    groups = np.arange(n) // 2
    plain = paired_difference([one], [two], lambda x: float(np.mean(x)), groups, how=Resampling(draws=200))
    turned = paired_difference([two], [one], lambda x: float(np.mean(x)), groups, how=Resampling(draws=200))
    assert (turned.difference, turned.ci_lo, turned.ci_hi) == pytest.approx(
        (-plain.difference, -plain.ci_hi, -plain.ci_lo)
    )
    assert turned.p == pytest.approx(plain.p)
    ones = np.ones(n)
    sums = paired_difference_moments(
        np.column_stack([one, ones]), np.column_stack([two, ones]), _means, groups, how=Resampling(draws=200)
    )
    assert (sums.difference, sums.ci_lo, sums.p) == pytest.approx((plain.difference, plain.ci_lo, plain.p))
    shifted = paired_difference([one + 7], [two + 7], lambda x: float(np.mean(x)), groups, how=Resampling(draws=200))
    assert (shifted.difference, shifted.ci_lo) == pytest.approx((plain.difference, plain.ci_lo))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=6))
def test_a_family_does_not_know_the_order_of_its_comparisons(p: list[float]) -> None:
    family = {str(i): PairedDifference(p=value) for i, value in enumerate(p)}
    plain = paired_family(family)
    turned = paired_family(dict(reversed(family.items())))
    assert {name: x.p_adjusted for name, x in turned.items()} == {name: x.p_adjusted for name, x in plain.items()}
    assert all(x.p <= x.p_adjusted <= 1 for x in plain.values())


def bca_ends(draws: np.ndarray, estimate: float, left_out: np.ndarray, level: float) -> tuple[float, float]:
    tails = bca_tails(draws, estimate, left_out)
    assert tails is not None
    return tails.ends(draws, level)


@settings(max_examples=20, deadline=None)
@given(seeds, st.floats(0.1, 10), st.floats(-5, 5))
def test_bca_moves_with_the_units_and_turns_with_the_sign(seed: int, unit: float, shift: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.lognormal(size=40)
    draws, left_out = x[rng.integers(0, 40, (999, 40))].mean(axis=1), (x.sum() - x) / 39
    lo, hi = bca_ends(draws, x.mean(), left_out, 0.95)
    moved = bca_ends(unit * draws + shift, unit * x.mean() + shift, unit * left_out + shift, 0.95)
    assert moved == pytest.approx((unit * lo + shift, unit * hi + shift))
    turned = bca_ends(-draws, -x.mean(), -left_out, 0.95)
    assert turned == pytest.approx((-hi, -lo))
    wider = bca_ends(draws, x.mean(), left_out, 0.99)
    assert wider[0] <= lo <= hi <= wider[1]


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_resampled_sums_know_rows_only_through_their_clusters(seed: int) -> None:
    rng = np.random.default_rng(seed)
    moments, groups = rng.normal(size=(12, 2)), np.arange(12) // 3
    plain = bootstrap_moments(moments, groups, lambda s: s, how=Resampling(seed=1, draws=20))
    halves = bootstrap_moments(
        np.repeat(moments, 2, axis=0) / 2, np.repeat(groups, 2), lambda s: s, how=Resampling(seed=1, draws=20)
    )
    within = (np.arange(12).reshape(4, 3)[:, rng.permutation(3)]).ravel()
    named = bootstrap_moments(
        moments[within], np.array(list("wxyz"))[groups], lambda s: s, how=Resampling(seed=1, draws=20)
    )
    np.testing.assert_allclose(halves, plain)
    np.testing.assert_allclose(named, plain)
    doubled = bootstrap_moments(2 * moments, groups, lambda s: s, how=Resampling(seed=1, draws=20))
    np.testing.assert_allclose(doubled, 2 * plain)


def _readouts(rng: np.random.Generator) -> dict[str, Any]:
    """Of eight items, each a prior and two posteriors over three shared words."""
    exact = log_softmax(rng.normal(0, 1, (24, 4)), axis=1)[:, :3]
    return {
        "inner_logp": exact + rng.normal(0, 0.3, exact.shape) - 4,
        "exact_logp": exact,
        "option": np.array(["cat", "dog", "owl"]),
        "item": np.repeat(np.arange(8), 3),
        "rejected": np.tile([-1, 0, 1], 8),
    }


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_the_gate_does_not_know_constants_of_words_and_levels_of_contexts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = _readouts(rng)
    plain = readout_gate(**data)
    level = data["inner_logp"] - rng.uniform(0, 2, (24, 1))
    same = readout_gate(**data | {"inner_logp": level})
    for name in ("partial_corr", "evidence_response", "ci_lo"):
        assert getattr(same, name) == pytest.approx(getattr(plain, name), abs=1e-6)
    words = readout_gate(**data | {"inner_logp": data["inner_logp"] - rng.uniform(0, 2, 3)})
    assert words.partial_corr == pytest.approx(plain.partial_corr, abs=1e-6)
    order = rng.permutation(24)
    moved = readout_gate(**{name: x if name == "option" else x[order] for name, x in data.items()})
    assert (moved.partial_corr, moved.evidence_response) == pytest.approx(
        (plain.partial_corr, plain.evidence_response), abs=1e-6
    )


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_words_alone_are_their_own_null(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = _readouts(rng)
    plain = word_identity_null(data["inner_logp"], data["option"], data["item"])
    again = word_identity_null(np.log(plain.null_prob), data["option"], data["item"])
    np.testing.assert_allclose(again.null_prob, plain.null_prob)
    np.testing.assert_allclose(plain.null_prob.sum(axis=1), 1)
    order, columns = rng.permutation(24), rng.permutation(3)
    moved = word_identity_null(data["inner_logp"][order][:, columns], data["option"][columns], data["item"][order])
    np.testing.assert_allclose(moved.null_prob, plain.null_prob[:, columns])


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(2, 3))
def test_whether_it_responds_knows_neither_order_nor_copies_nor_size(seed: int, copies: int) -> None:
    rng = np.random.default_rng(seed)
    before, after = rng.uniform(size=(2, 9))
    items, order = np.arange(9), rng.permutation(9)

    def judged(before: np.ndarray, after: np.ndarray, items: np.ndarray) -> BeliefGate:
        return belief_gate(
            template=np.full(len(items), "t"),
            prior_rejected=before,
            post_rejected=after,
            groups=items,
            how=Resampling(draws=200),
        )

    plain = judged(before, after, items)
    for other in (
        judged(before[order], after[order], items[order]),
        judged(np.repeat(before, copies), np.repeat(after, copies), np.repeat(items, copies)),
    ):
        assert (other.share, other.ci_lo, other.ci_hi, other.responds) == pytest.approx(
            (plain.share, plain.ci_lo, plain.ci_hi, plain.responds)
        )
    scaled = judged(before / 2, after / 2, items)  # halving is of shares, whatever their size
    assert (scaled.share, scaled.ci_lo) == pytest.approx((plain.share, plain.ci_lo))


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(1, 6))
def test_a_rising_map_of_beliefs_leaves_their_strata(seed: int, bins: int) -> None:
    """METRICS E6: what is conditioned on is the order, so that information beyond the belief stays the same."""
    p = np.random.default_rng(seed).uniform(size=30)
    np.testing.assert_array_equal(quantile_bins(p**3, bins), quantile_bins(p, bins))


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_permuting_posteriors_within_equal_priors_keeps_the_slope(seed: int) -> None:
    rng = np.random.default_rng(seed)
    prior, post = np.repeat(rng.uniform(size=6), 4), rng.uniform(size=24)
    shuffled = rng.permuted(post.reshape(6, 4), axis=1).ravel()
    assert pytest.approx(martingale_score(prior, post).M) == martingale_score(prior, shuffled).M
