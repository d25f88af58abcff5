from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logit
from scipy.stats import binomtest

from doxascope.metrics import Resampling, lie, median_ci
from doxascope.metrics.scoring.engine import score_samples
from doxascope.metrics.tables.samples import Cases

belief = st.floats(0, 1)
X = [0.02, 0.1, 0.05, 0.4, 0.31, 0.08, 0.22, 0.15, 0.6, 0.12]


def test_a_belief_below_the_mean_of_its_cases() -> None:
    score = lie(p=0.5, cond=[0.4, 0.8], weights=[0.7, 0.3])
    assert (score.implied, score.weight_sum) == pytest.approx((0.52, 1))
    assert (score.signed, score.delta, score.ratio) == pytest.approx((-0.02, 0.02, 0.04))
    assert score.outside_hull == 0
    assert score.logit_difference == pytest.approx(logit(0.5) - logit(0.52))


def test_weights_are_renormalised_unless_asked() -> None:
    cases: dict[str, Any] = {"p": 0.9, "cond": [0.4, 0.8], "weights": [0.6, 0.6]}
    fair = lie(**cases)
    assert (fair.implied, fair.implied_raw, fair.weight_sum) == pytest.approx((0.6, 0.72, 1.2))
    assert lie(**cases, renormalise=False).signed == pytest.approx(0.18)
    assert fair.outside_hull == pytest.approx(0.1)
    assert lie(p=0.9, cond=[0.4, 0.95], weights=[1.0, 0.0]).outside_hull == pytest.approx(0.5)


def test_relative_error_at_zero() -> None:
    assert lie(0.0, [0.0, 0.0], [0.5, 0.5]).ratio == 0
    assert lie(0.0, [0.2, 0.0], [0.5, 0.5]).ratio == np.inf


def test_undefined_beliefs_and_refused_weights() -> None:
    for p, cond, weights in (
        (np.nan, [0.5], [1.0]),
        (0.5, [np.nan], [1.0]),
        (0.5, [0.5], [0.0]),
        (0.5, [0.5], [np.nan]),
    ):
        score = lie(p, cond, weights)
        assert np.isnan([score.implied, score.delta, score.ratio, score.outside_hull, score.signed]).all()
        assert score.status == "undefined"
    with pytest.raises(ValueError, match="weights"):
        lie(0.5, [0.5], [-0.1])
    with pytest.raises(ValueError, match=r"\[n, m\]"):
        lie(0.5, [0.5, 0.6], [1.0])


@given(belief, st.lists(st.tuples(belief, st.floats(0.01, 1)), min_size=1, max_size=5))
def test_error_ignores_the_label_the_order_and_the_scale_of_weights(p: float, cases: list) -> None:
    cond, weights = np.array(cases).T
    plain = lie(p, cond, weights)
    turned = lie(1 - p, 1 - cond[::-1], 3 * weights[::-1])
    for name, sign in (("delta", 1), ("outside_hull", 1), ("signed", -1)):
        assert getattr(turned, name) == pytest.approx(sign * getattr(plain, name), abs=1e-12)
    assert plain.outside_hull <= plain.delta + 1e-12
    assert lie(float(plain.implied), cond, weights).delta == pytest.approx(0, abs=1e-12)


def test_a_batch_scores_as_its_beliefs() -> None:
    p, cond, weights = (
        [0.5, 0.9, np.nan],
        [[0.4, 0.8], [0.4, 0.8], [0.1, 0.2]],
        [[0.7, 0.3], [0.6, 0.6], [1, 1]],
    )
    batch = lie(p, cond, weights)
    singles = [lie(*row).delta for row in zip(p, cond, weights, strict=True)]
    np.testing.assert_allclose(batch.delta, singles)
    assert (batch.n_rows, batch.n_dropped) == (2, 1)


def test_order_statistics_and_their_exact_coverage() -> None:
    score = median_ci(x=X)
    assert (score.median, score.lo, score.hi) == (pytest.approx(0.135), 0.05, 0.4)
    assert score.coverage == 0.978515625


@pytest.mark.parametrize("n", [6, 9, 17, 40])
def test_the_interval_holds_the_medians_that_a_sign_test_keeps(n: int) -> None:
    x = np.arange(n, dtype=float)
    score = median_ci(x)
    for value in np.arange(n - 1) + 0.5:
        kept = binomtest(int((x > value).sum()), n).pvalue > 0.05
        assert (score.lo < value < score.hi) == kept


def test_few_values_have_a_median_and_no_interval() -> None:
    score = median_ci([0.1, 0.2, 0.3, 0.4, np.nan, 0.5])
    assert (score.median, score.n_rows, score.n_dropped, score.status) == (0.3, 5, 1, "too_few")
    assert np.isnan([score.lo, score.hi, score.coverage]).all()
    assert np.isnan(median_ci([]).median)
    with pytest.raises(ValueError, match="level"):
        median_ci(X, how=Resampling(level=1))


def test_an_infinite_ratio_is_a_value() -> None:
    score = median_ci([0.1, 0.2, 0.3, 0.4, 0.5, np.inf])
    assert (score.median, score.hi) == (pytest.approx(0.35), np.inf)
    assert median_ci([np.inf] * 3).median == np.inf


def test_repeated_contexts_are_resampled_whole() -> None:
    x = np.random.default_rng(0).exponential(size=40)
    rows = np.arange(40).repeat(10)
    clustered, alone = median_ci(x[rows], groups=rows, how=Resampling(draws=500)), median_ci(x[rows])
    assert (clustered.ci_method, clustered.n_clusters) == ("expanded percentile cluster bootstrap", 40)
    assert clustered.hi - clustered.lo > 2 * (alone.hi - alone.lo)
    few = median_ci([1.0, 1.0, 2.0], groups=["a", "a", "b"])
    assert (few.median, few.ci_method) == (1.0, "none: 2 clusters")


@pytest.mark.parametrize(("case", "extreme"), [(0.002, True), (0.5, False), (0.998, True)])
def test_log_odds_are_judged_where_belief_and_implied_belief_are_both_extreme(case: float, extreme: bool) -> None:
    p = np.full(12, 0.001) + np.arange(12) / 1e5
    cases = Cases(p=p, conditional=np.full((12, 2), case), weights=np.full((12, 2), 0.5))
    found = {number.metric: number.score for number in score_samples([cases], Resampling(draws=50), "lie").numbers}
    assert ("lie_logodds" in found) == extreme
    if extreme:
        assert found["lie_logodds"].estimate == pytest.approx((logit(p) - logit(case)).mean())
