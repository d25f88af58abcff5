import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from doxascope.metrics import drift_covariance, drift_variance


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
    still = drift_variance(rng.normal(0, 0.15, (2000, 8)).clip(-1, 1), draws=400)
    assert still.ci_lo < 0 < still.ci_hi
    assert still.p > 0.01
    drifting = drift_variance((rng.normal(0, 0.1, (2000, 1)) + rng.normal(0, 0.15, (2000, 8))).clip(-1, 1))
    assert drifting.drift2 == pytest.approx(0.01, abs=4 * drifting.se)
    assert drifting.p < 1e-6


def test_single_questions_are_tested_by_t_with_holm() -> None:
    deltas = [[0.1, 0.2, 0.15], [0.0, -0.1, 0.2], [0.3, 0.3], [0.1]]
    score = drift_variance(deltas)
    for i in (0, 1):
        reference = stats.ttest_1samp(deltas[i], 0)
        assert (score.t[i], score.p_question[i]) == pytest.approx((reference.statistic, reference.pvalue))
    assert score.p_holm[0] == pytest.approx(2 * score.p_question[0])
    assert np.isnan(score.p_holm[2:]).all()  # no spread; no second chain
    assert (score.n_dropped, score.reasons) == (1, {"too_few_chains": 1})


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
    naive = drift_variance((chains - noise[:, :1]).clip(-1, 1), draws=200)
    assert naive.drift2 == pytest.approx(0.01, rel=0.2)  # all of it reading noise
    clean = drift_covariance(first.clip(-1, 1), second.clip(-1, 1), draws=400)
    assert clean.ci_lo < 0 < clean.ci_hi
    by_hand = np.mean(first.clip(-1, 1).mean(axis=1) * second.clip(-1, 1).mean(axis=1))
    assert clean.drift2 == pytest.approx(by_hand)
    with pytest.raises(ValueError, match="lengths differ: first 1, second 2"):
        drift_covariance([[0.1]], [[0.1], [0.2]])
