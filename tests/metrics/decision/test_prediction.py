import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss

from doxascope.metrics import isotonic_calibration, logloss_improvement

P1 = [[0.5, 0.5], [0.6, 0.4], [0.3, 0.7], [0.5, 0.5]]
P2 = [[0.7, 0.3], [0.8, 0.2], [0.2, 0.8], [0.4, 0.6]]
Y = [0, 0, 1, 1]


def test_gain_in_nats_and_percent() -> None:
    score = logloss_improvement(p1=P1, p2=P2, y=Y)
    assert (score.ll1, score.ll2) == pytest.approx((log_loss(Y, P1), log_loss(Y, P2)))
    assert score.nats == pytest.approx(score.ll1 - score.ll2)
    assert score.pct == pytest.approx(41.70775461730666)
    assert score.ll_marginal == pytest.approx(np.log(2))
    assert logloss_improvement([0.5, 0.4, 0.7, 0.5], [0.3, 0.2, 0.8, 0.6], Y).pct == pytest.approx(score.pct)


def test_certainty_that_is_wrong_costs_the_clip_and_a_perfect_base_has_no_ratio() -> None:
    wrong = logloss_improvement([0.0], [0.5], [1])
    assert wrong.ll1 == pytest.approx(-np.log(1e-15))
    assert wrong.status == "base_worse_than_marginal"
    perfect = logloss_improvement([1.0, 0.0], [0.9, 0.1], [1, 0])
    assert (perfect.status, np.isnan(perfect.pct)) == ("perfect_base", True)
    assert perfect.nats == pytest.approx(np.log(0.9))
    empty = logloss_improvement([np.nan], [0.5], [1])
    assert empty.status == "too_few"
    assert np.isnan([empty.nats, empty.pct]).all()


def test_the_interval_of_the_gain_is_over_contexts() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 30)
    p2 = np.clip(0.5 + (2 * y - 1) * rng.normal(0.1, 0.2, 30), 0.05, 0.95)
    rows = np.arange(30).repeat(4)
    clustered = logloss_improvement(np.full(120, 0.5), p2[rows], y[rows], groups=rows)
    alone = logloss_improvement(np.full(120, 0.5), p2[rows], y[rows])
    assert clustered.se == pytest.approx(2 * alone.se, rel=0.15)
    assert clustered.ci_lo < clustered.nats < clustered.ci_hi


def test_malformed_predictions_are_refused() -> None:
    with pytest.raises(ValueError, match="class number"):
        logloss_improvement([0.5], [0.5], [2])
    with pytest.raises(ValueError, match="shapes differ"):
        logloss_improvement([0.5], P1, [1])
    with pytest.raises(ValueError, match="eps"):
        logloss_improvement([0.5], [0.5], [1], eps=0)
    with pytest.raises(ValueError, match="sums to"):
        logloss_improvement([[0.5, 0.4]], [[0.5, 0.5]], [1])


def minimax_isotonic(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The max-min formula, on means of tied beliefs."""
    values = np.unique(p)
    weight = np.array([(p == v).sum() for v in values])
    total = np.array([y[p == v].sum() for v in values])
    n = len(values)
    fitted = [
        max(min(total[a : b + 1].sum() / weight[a : b + 1].sum() for b in range(i, n)) for a in range(i + 1))
        for i in range(n)
    ]
    return np.array(fitted)[np.searchsorted(values, p)]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 1)), min_size=1, max_size=15))
def test_fit_equals_the_max_min_formula_with_ties_pooled(rows: list) -> None:
    p, y = np.array(rows).T
    fit = isotonic_calibration(p / 8, y)
    np.testing.assert_allclose(fit, minimax_isotonic(p / 8, y), atol=1e-10)
    assert fit.mean() == pytest.approx(y.mean())
    np.testing.assert_allclose(isotonic_calibration((p / 8)[::-1], y[::-1])[::-1], fit, atol=1e-10)
    np.testing.assert_allclose(1 - isotonic_calibration(1 - p / 8, 1 - y), fit, atol=1e-10)


def test_pooled_adjacent_violators() -> None:
    fit = isotonic_calibration(p=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], y=[0, 1, 0, 1, 1, 0, 1])
    np.testing.assert_allclose(fit, [0, 0.5, 0.5, 2 / 3, 2 / 3, 2 / 3, 1])


def test_cross_fit_never_sees_its_own_context() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(60)
    y = rng.integers(0, 2, 60)
    groups = np.arange(60) // 3
    fit = isotonic_calibration(p, y, groups, folds=20)
    turned = y.copy()
    turned[groups == 7] = 1 - turned[groups == 7]
    again = isotonic_calibration(p, turned, groups, folds=20)
    np.testing.assert_array_equal(fit[groups == 7], again[groups == 7])
    assert not np.allclose(fit[groups != 7], again[groups != 7])


def test_missing_rows_stay_missing() -> None:
    fit = isotonic_calibration([0.2, np.nan, 0.8], [0, 1, 1])
    np.testing.assert_array_equal(fit, [0, np.nan, 1])
    assert np.isnan(isotonic_calibration([np.nan], [1])).all()
    assert np.isnan(isotonic_calibration([0.2, 0.8], [0, 1], ["one", "one"])).all()
