import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from doxascope.metrics import Resampling, drift_bound, drift_covariance, drift_variance


def test_two_questions_by_hand() -> None:
    # Means .2 and 0, variances of the means .02 / 2 and .08 / 2.
    score = drift_variance([[0.1, 0.3], [-0.2, 0.2]])
    assert score.drift2 == score.estimate == pytest.approx((0.04 - 0.01 + 0 - 0.04) / 2)
    assert (score.n_questions, score.n_chains, score.n_clusters) == (2, 4, 2)
    np.testing.assert_allclose(score.mean_drift, [0.2, 0], atol=1e-12)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(-10, 10), min_size=2, max_size=5), min_size=2, max_size=5))
def test_it_is_the_mean_product_of_distinct_chains(deltas: list[list[int]]) -> None:
    """An independent form of the same estimator: no chain is ever multiplied with itself."""
    arrays = [np.array(d) / 10 for d in deltas]
    pairs = [np.mean([x[i] * x[j] for i in range(len(x)) for j in range(len(x)) if i != j]) for x in arrays]
    score = drift_variance(arrays)
    assert score.drift2 == pytest.approx(np.mean(pairs), abs=1e-12)
    turned = drift_variance([-x for x in arrays])  # complement
    assert (turned.drift2, turned.se) == pytest.approx((score.drift2, score.se))


def test_it_is_unbiased_with_and_without_drift() -> None:
    rng = np.random.default_rng(0)
    still = drift_variance(rng.normal(0, 0.15, (2000, 8)).clip(-1, 1), how=Resampling(draws=400))
    assert still.ci_lo < 0 < still.ci_hi
    assert still.p > 0.01
    drifting = drift_variance((rng.normal(0, 0.1, (2000, 1)) + rng.normal(0, 0.15, (2000, 8))).clip(-1, 1))
    assert drifting.drift2 == pytest.approx(0.01, abs=4 * drifting.se)
    assert drifting.p <= 1 / 2001


def test_a_bound_of_eight_chains_by_hand() -> None:
    bound = drift_bound([1, 1, 1, 0, 1, 1, 1, 1], 0.5)
    assert bound.p == pytest.approx(0.15915623106504462)
    away = 7 / 8 * np.log(7 / 4) + 1 / 8 * np.log(1 / 4)
    assert bound.p == pytest.approx(2 * np.exp(-8 * away))
    assert (bound.smallest_p, bound.status) == (2 / 256, "ok")
    assert drift_bound(np.ones(8), 0.5).p == pytest.approx(bound.smallest_p)
    assert drift_bound([0.3, np.nan], 0.3).p == 1
    sure = drift_bound([0, 0.1], 0)
    assert (sure.p, sure.status) == (0, "prior_at_bound")
    assert drift_bound([np.nan], 0.3).status == drift_bound([0.3], np.nan).status == "too_few"


@settings(deadline=None)
@given(st.integers(1, 30), st.floats(0.01, 0.99), st.floats(0, 1))
def test_the_bound_is_above_the_exact_binomial_tail(n: int, prior: float, share: float) -> None:
    """Of all beliefs in [0, 1] with a mean, coin flips spread the most."""
    hits = round(share * n)
    bound = drift_bound(np.r_[np.ones(hits), np.zeros(n - hits)], prior)
    law = stats.binom(n, prior)
    tail = law.sf(hits - 1) if hits > n * prior else law.cdf(hits)
    assert bound.p >= min(1, 2 * tail) * (1 - 1e-9)
    assert bound.p >= bound.smallest_p * (1 - 1e-9)


def test_questions_are_counted_by_the_bound_with_holm() -> None:
    deltas = [[0.5] * 12, [-0.5, 0.5] * 4, [0.1], [0.5] * 3]
    score = drift_variance(deltas, [0.5] * 4)
    each = [drift_bound(0.5 + np.array(d), 0.5).p for d in deltas]
    assert score.p_question[[0, 1, 3]] == pytest.approx([each[0], each[1], each[3]])
    assert np.isnan([score.p_question[2], score.p_holm[2]]).all()
    assert score.p_holm[0] == pytest.approx(3 * each[0])
    assert (score.n_drifting, score.n_attainable) == (1, 2)  # three chains at .5 cannot go below .25
    assert drift_variance(deltas).n_drifting is None
    sure = drift_variance([[0.1, 0.2], [0.1, 0.2]], [0.0, 0.5])
    assert (sure.n_at_bound, np.isnan(sure.p_question).tolist()) == (1, [True, False])
    with pytest.raises(ValueError, match=r"prior \+ deltas: 1\.2\d* is not a probability"):
        drift_variance([[0.5, 0.1]], [0.7])
    with pytest.raises(ValueError, match=r"prior: shape \(2,\) for 1 questions"):
        drift_variance([[0.1, 0.1]], [0.7, 0.5])


def test_chains_that_settle_near_the_ends_do_not_drift() -> None:
    """A fair coin that has fallen: a t test would find a drift in most samples of sixty questions."""
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        b0 = rng.uniform(0.02, 0.98, 60)
        last = np.abs((rng.random((60, 8)) >= b0[:, None]) - rng.uniform(0, 1e-3, (60, 8)))
        found.append(drift_variance(1 - last - b0[:, None], b0, how=Resampling(draws=20)).n_drifting)
    assert np.mean(np.array(found) > 0) < 0.05


def test_questions_of_one_cluster_are_drawn_together() -> None:
    rng = np.random.default_rng(3)
    own = rng.normal(0, 0.15, 40).repeat(3)[:, None]
    deltas = np.clip(own + rng.normal(0, 0.05, (120, 8)), -1, 1)
    together = drift_variance(deltas, clusters=np.arange(120) // 3)
    apart = drift_variance(deltas)
    assert (together.drift2, together.n_clusters, together.n_questions) == (apart.drift2, 40, 120)
    assert together.se > 1.4 * apart.se
    by_cluster = (deltas.mean(axis=1) ** 2 - deltas.var(axis=1, ddof=1) / 8).reshape(40, 3).mean(axis=1)
    assert together.se == pytest.approx(by_cluster.std(ddof=1) / np.sqrt(40))


def test_missing_chains_and_too_little() -> None:
    score = drift_variance([[0.1, np.nan, 0.3], [np.nan, 0.2]])
    assert (score.n_questions, score.n_chains, score.status) == (1, 2, "one_cluster")
    assert score.drift2 == pytest.approx(0.04 - 0.01)
    for nothing in ([], [[0.1]]):
        empty = drift_variance(nothing)
        assert (empty.status, empty.n_questions) == ("too_few", 0)
        assert np.isnan(empty.drift2)
    with pytest.raises(ValueError, match=r"deltas\[0\]: 1\.5 is no difference"):
        drift_variance([[1.5]])


def test_disjoint_halves_forgive_a_noisy_prior_and_one_half_does_not() -> None:
    rng = np.random.default_rng(1)
    questions = 1500
    chains = rng.normal(0, 0.1, (questions, 8))
    noise = rng.normal(0, 0.1, (questions, 2))  # of two readings of b_0
    first, second = chains[:, :4] - noise[:, :1], chains[:, 4:] - noise[:, 1:]
    naive = drift_variance((chains - noise[:, :1]).clip(-1, 1), how=Resampling(draws=200))
    assert naive.drift2 == pytest.approx(0.01, rel=0.2)  # all of it reading noise
    clean = drift_covariance(first.clip(-1, 1), second.clip(-1, 1), how=Resampling(draws=400))
    assert clean.ci_lo < 0 < clean.ci_hi
    by_hand = np.mean(first.clip(-1, 1).mean(axis=1) * second.clip(-1, 1).mean(axis=1))
    assert clean.drift2 == pytest.approx(by_hand)
    assert clean.status == "no_prior"
    halves = first.clip(-1, 1), second.clip(-1, 1)
    for prior, status in ((0.5, "ok"), (0.01, "few_surprises"), (0.99, "few_surprises")):
        assert drift_covariance(*halves, prior=np.full(len(first), prior), how=Resampling(draws=99)).status == status
    with pytest.raises(ValueError, match="lengths differ: first 1, second 2"):
        drift_covariance([[0.1]], [[0.1], [0.2]])
