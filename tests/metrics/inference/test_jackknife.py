import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from doxascope.metrics import (
    Resampling,
    effective_clusters,
    martingale_iv,
    martingale_joint_test,
    martingale_score,
    martingale_within,
)
from doxascope.metrics.inference.regression import few_effective

seeds = st.integers(0, 10_000)
PRIOR = [
    *(0.343276, 0.484905, 0.03947, 0.06349, 0.07724, 0.064667, 0.001526, 0.00118),
    *(0.67081, 0.623986, 0.510957, 0.522632, 0.242146, 0.150744, 0.022451, 0.023156),
]
POST = [
    *(0.374326, 0.814651, 0.059577, 0.192878, 0.050559, 0.163476, 0.000927, 0.003145),
    *(0.63113, 0.808096, 0.941914, 0.734963, 0.065959, 0.106632, 0.085475, 0.033877),
]


def test_eight_questions_as_worked() -> None:
    groups = np.repeat(np.arange(8), 2)
    score = martingale_score(PRIOR, POST, groups)
    assert (score.M, score.se, score.df) == pytest.approx((0.28996085849104, 0.25777005280676, 3.79630893293029))
    assert (score.p, score.ci_lo) == pytest.approx((0.32668841740729, -0.44112514104360))
    assert (effective_clusters(PRIOR, groups), score.effective_clusters) == pytest.approx((4.79630893293029,) * 2)
    assert (score.status, score.ci_method) == ("few_effective_clusters", "t(3.8), CR3 over 8 clusters")


@settings(max_examples=25, deadline=None)
@given(seeds, st.booleans())
def test_leaving_out_by_moments_is_refitting(seed: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    g = int(rng.integers(3, 9))
    question = rng.permutation(np.concatenate([np.arange(g), np.arange(g), rng.integers(0, g, 20)]))
    b, q = rng.beta(0.4, 0.4, (2, len(question)))
    w = rng.uniform(0.2, 3, len(question)) if weighted else np.ones(len(question))
    score = martingale_score(b, q, question, weights=w)

    def slope(rows: np.ndarray) -> float:
        return float(np.polyfit(b[rows], (q - b)[rows], 1, w=np.sqrt(w[rows]))[0])

    moves = np.array([slope(question != i) for i in range(g)]) - slope(question >= 0)
    assert score.se == pytest.approx(np.sqrt((g - 1) / g * (moves**2).sum()), rel=1e-6)
    spread = w * (b - np.average(b, weights=w)) ** 2
    share = np.array([spread[question == i].sum() for i in range(g)]) / spread.sum()
    assert score.effective_clusters == pytest.approx(1 / (share**2).sum())
    assert effective_clusters(b, question, weights=w) == pytest.approx(score.effective_clusters)
    assert score.p == pytest.approx(2 * stats.t.sf(abs(score.M / score.se), max(score.effective_clusters - 1, 1)))


@settings(max_examples=25, deadline=None)
@given(seeds, st.booleans())
def test_cells_are_a_regression_on_dummies_and_their_mixture_is_exact(seed: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    n, g, c = 60, 8, 4
    question, cell = rng.permutation(np.arange(n) % g), rng.permutation(np.arange(n) % c)
    b = np.clip(rng.beta(2, 2, n) * 0.5 + 0.12 * cell, 0, 1)
    q = np.clip(0.3 * b + 0.1 * cell + rng.uniform(0, 0.3, n), 0, 1)
    w = rng.uniform(0.2, 3, n) if weighted else np.ones(n)
    score = martingale_within(b, q, question, cell, weights=w)
    dummies = (cell[:, None] == np.arange(c)).astype(float)

    def slope(rows: np.ndarray) -> float:
        x, root = np.column_stack([b, dummies])[rows], np.sqrt(w[rows])
        return float(np.linalg.lstsq(x * root[:, None], (q - b)[rows] * root, rcond=None)[0][0])

    everything = np.ones(n, dtype=bool)
    moves = np.array([slope(question != i) for i in range(g)]) - slope(everything)
    assert score.M_within == pytest.approx(slope(everything))
    assert score.se == pytest.approx(np.sqrt((g - 1) / g * (moves**2).sum()), rel=1e-6)
    assert pytest.approx(score.M_pooled) == martingale_score(b, q, weights=w).M
    mixture = score.between_share * score.M_between + (1 - score.between_share) * score.M_within
    assert mixture == pytest.approx(score.M_pooled, abs=1e-12)
    alone = martingale_within(b, q, question)
    whole = martingale_score(b, q, question)
    assert (alone.M_within, alone.se, alone.p) == pytest.approx((whole.M, whole.se, whole.p))


def test_a_cell_held_by_one_question_goes_with_it() -> None:
    rng = np.random.default_rng(0)
    b, q = rng.random((2, 24))
    question = np.repeat(np.arange(6), 4)
    cell = np.where(question == 5, 1, 0)
    score = martingale_within(b, q, question, cell)
    dummies = np.column_stack([b, cell == 0, cell == 1]).astype(float)
    full = np.linalg.lstsq(dummies, q - b, rcond=None)[0][0]
    moves = [np.linalg.lstsq(dummies[question != g], (q - b)[question != g], rcond=None)[0][0] - full for g in range(6)]
    assert score.se == pytest.approx(np.sqrt(5 / 6 * np.square(moves).sum()))


def test_degenerate_cells() -> None:
    constant = martingale_within([0.2, 0.2, 0.6, 0.6], [0.1, 0.3, 0.5, 0.8], [0, 1, 2, 3], [0, 0, 1, 1])
    assert (constant.status, constant.between_share) == ("zero_variance_prior", 1)
    assert np.isnan([constant.M_within, constant.p]).all()
    assert constant.M_between == pytest.approx(constant.M_pooled)
    # Only one question has priors that vary within its cell.
    carried = martingale_within([0.2, 0.3, 0.6, 0.6], [0.1, 0.4, 0.5, 0.8], [0, 0, 2, 3], [0, 0, 1, 1])
    assert (carried.status, np.isnan(carried.p)) == ("leverage_one", True)
    exact = martingale_within([0.2, 0.3, 0.6, 0.7], [0.3, 0.35, 0.6, 0.65], [0, 1, 2, 3], [0, 0, 1, 1])
    assert (exact.status, exact.M_within, exact.se) == ("perfect_fit", pytest.approx(-0.5), 0)
    assert martingale_within([0.5], [0.5]).status == "too_few"


def test_effective_clusters_run_from_one_to_all() -> None:
    assert effective_clusters([0.2, 0.8] * 6, np.repeat(np.arange(6), 2)) == pytest.approx(6)
    assert effective_clusters([0.2, 0.8, 0.5, 0.5], [0, 0, 1, 2]) == pytest.approx(1)
    assert np.isnan(effective_clusters([0.5, 0.5]))
    assert np.isnan(effective_clusters([0.5, np.nan]))


def test_joint_flips_are_exact_over_all_signs_and_ignore_scale_and_side() -> None:
    rng = np.random.default_rng(1)
    b, groups = rng.random(27), np.repeat(np.arange(9), 3)
    q = np.clip(b + rng.normal(0.03, 0.1, 27), 0, 1)
    test = martingale_joint_test(b, q, groups)
    d, x = q - b, np.column_stack([np.ones(27), b])
    scores = np.array([(x * d[:, None])[groups == g].sum(axis=0) for g in range(9)])
    signs = 1 - 2 * ((np.arange(512)[:, None] >> np.arange(9)) & 1)
    inverse = np.linalg.inv(scores.T @ scores)
    null = np.einsum("di,ij,dj->d", signs @ scores, inverse, signs @ scores)
    assert test.p == np.mean(null >= null[0] * (1 - 1e-9))
    t2 = 9 * scores.mean(axis=0) @ np.linalg.solve(np.cov(scores.T), scores.mean(axis=0))
    assert pytest.approx(7 / (2 * 8) * t2) == test.F
    assert (test.df2, test.p_F) == (7, pytest.approx(stats.f.sf(test.F, 2, 7)))
    assert martingale_joint_test(1 - b, 1 - q, groups).p == test.p


def test_the_slope_holds_its_level_where_a_few_questions_carry_it_and_cr1_does_not() -> None:
    """Exact Bayesian updates of priors near 0."""
    rejected = np.zeros(2)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        prior = rng.normal(-6, 3, 30)
        true = rng.random(30) < 1 / (1 + np.exp(-prior))
        post = prior + rng.normal(np.where(true, 0.25, -0.25), np.sqrt(0.5))
        b, q = 1 / (1 + np.exp(-np.array([prior, post])))
        rejected += [
            martingale_score(b, q, np.arange(30), se=se, how=Resampling(draws=1)).p <= 0.05 for se in ("CR3", "CR1")
        ]
    assert rejected[0] / 200 < 0.08
    assert rejected[1] / 200 > 0.2


def test_clusters_that_were_not_counted_are_not_few_and_those_that_carry_nothing_are() -> None:
    assert [few_effective(x) for x in (np.nan, 10 - 1e-12, 9.9, 0.0)] == [False, False, True, True]
    b = np.tile([0.2, 0.8], 50)
    q = np.clip(b + np.random.default_rng(0).normal(0, 0.05, 100), 0, 1)
    assert martingale_joint_test(b, q, np.arange(100) // 2).status == "ok"  # fifty that carry it alike are fifty
    opposed = martingale_iv(b, 1 - b, q, np.arange(100) // 2)
    assert opposed.status == "few_effective_clusters"  # the mean of both readings is the same everywhere
