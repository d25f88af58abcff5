import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss

from doxascope.metrics import Resampling, brier, brier_on_abs_martingale, brier_update, cluster_mean

belief = st.integers(0, 20).map(lambda k: k / 20)
rows = st.lists(st.tuples(belief, belief, st.integers(0, 1)), min_size=1, max_size=12)


def test_brier_by_hand_and_by_sklearn() -> None:
    p, y = [0.9, 0.2, 0.5, 1.0, 0.0], [1, 0, 1, 1, 1]
    assert brier(p, y).brier == pytest.approx((0.01 + 0.04 + 0.25 + 0 + 1) / 5)
    assert brier(p, y).brier == pytest.approx(brier_score_loss(y, p))
    assert brier([0.5] * 4, [0, 1, 1, 1]).estimate == 0.25


def test_brier_has_the_interval_of_a_mean_over_clusters() -> None:
    rng = np.random.default_rng(0)
    p, y, groups = rng.random(60), rng.integers(0, 2, 60), np.repeat(np.arange(15), 4)
    ours, mean = brier(p, y, groups, how=Resampling(seed=3)), cluster_mean((p - y) ** 2, groups, how=Resampling(seed=3))
    assert (ours.se, ours.ci_lo, ours.ci_hi) == (mean.se, mean.ci_lo, mean.ci_hi)
    assert (ours.n_clusters, ours.ci_method) == (
        15,
        "expanded percentile cluster bootstrap, at least as wide as the t interval",
    )


def test_unknown_outcomes_are_dropped_and_others_refused() -> None:
    score = brier([0.9, 0.2, np.nan], [1, np.nan, 0])
    assert (score.brier, score.n_rows, score.n_dropped) == (pytest.approx(0.01), 1, 2)
    empty = brier([np.nan], [1])
    assert (empty.status, np.isnan(empty.brier)) == ("too_few", True)
    with pytest.raises(ValueError, match=r"y: 0\.7 is not an outcome"):
        brier([0.9], [0.7])
    with pytest.raises(ValueError, match="lengths differ"):
        brier([0.9, 0.8], [1])


def test_update_by_hand() -> None:
    score = brier_update(prior=[0.6, 0.4, 0.8, 0.3], post=[0.7, 0.3, 0.9, 0.5], y=[1, 0, 0, 1])
    assert score.brier_prior == pytest.approx((0.16 + 0.16 + 0.64 + 0.49) / 4)
    assert score.brier_post == pytest.approx((0.09 + 0.09 + 0.81 + 0.25) / 4)
    assert score.mean_sq_update == pytest.approx(0.07 / 4)
    assert score.cross == pytest.approx(-0.07)
    assert score.delta_abs_err == pytest.approx((-0.1 - 0.1 + 0.1 - 0.2) / 4)


@settings(deadline=None)
@given(rows)
def test_change_is_size_plus_direction_and_does_not_know_the_label(
    data: list[tuple[float, float, int]],
) -> None:
    prior, post, y = (np.array(x) for x in zip(*data, strict=True))
    score = brier_update(prior, post, y)
    assert score.change == pytest.approx(score.brier_post - score.brier_prior, abs=1e-12)
    assert score.change == pytest.approx(score.mean_sq_update + score.cross, abs=1e-12)
    turned = brier_update(1 - prior, 1 - post, 1 - y)
    for name in ("change", "brier_prior", "mean_sq_update", "cross", "delta_abs_err"):
        assert getattr(turned, name) == pytest.approx(getattr(score, name), abs=1e-12)


def test_random_updates_alone_raise_the_brier_score_by_their_size() -> None:
    rng = np.random.default_rng(1)
    b = rng.uniform(0.3, 0.7, 20000)
    y = rng.random(20000) < b
    score = brier_update(b, b + rng.uniform(-0.3, 0.3, 20000), y, np.arange(20000) // 200)
    assert score.mean_sq_update == pytest.approx(0.03, abs=0.001)
    assert score.cross == pytest.approx(0, abs=0.01)
    assert score.ci_lo > 0
    empty = brier_update([np.nan], [0.5], [1])
    assert (empty.status, np.isnan(empty.change), np.isnan(empty.cross)) == ("too_few", True, True)


M = np.array([0.01, -0.03, 0.05, 0.09, -0.12, 0.07, 0.02, 0.15])
SCORE = np.array([0.22, 0.24, 0.23, 0.27, 0.26, 0.25, 0.21, 0.30])
DOMAIN = [0, 0, 0, 0, 1, 1, 1, 1]


def test_cells_are_regressed_on_the_absolute_slope() -> None:
    x = np.column_stack([np.ones(8), np.abs(M), DOMAIN])
    reference = sm.OLS(SCORE, x).fit()
    ours = brier_on_abs_martingale(M, SCORE, [DOMAIN])
    assert (ours.coef, ours.se, ours.t, ours.p) == pytest.approx(
        (reference.params[1], reference.bse[1], reference.tvalues[1], reference.pvalues[1])
    )
    assert (ours.r2, ours.df) == pytest.approx((reference.rsquared, 5))
    assert ours.coef == pytest.approx(0.6090225563909779)
    assert brier_on_abs_martingale(-M, SCORE, [DOMAIN]) == ours
    robust = brier_on_abs_martingale(M, SCORE, [DOMAIN], se="HC3")
    assert robust.se == pytest.approx(sm.OLS(SCORE, x).fit(cov_type="HC3").bse[1])


def test_cells_without_a_slope_are_dropped_and_constant_slopes_have_no_regression() -> None:
    dropped = brier_on_abs_martingale([*M, np.nan], [*SCORE, 0.2])
    assert (dropped.n_rows, dropped.n_dropped) == (8, 1)
    assert dropped.coef == brier_on_abs_martingale(M, SCORE).coef
    constant = brier_on_abs_martingale([0.1, -0.1, 0.1], [0.2, 0.3, 0.25])
    assert (constant.status, np.isnan(constant.coef)) == ("rank_deficient", True)
    with pytest.raises(ValueError, match=r"controls\[0\]"):
        brier_on_abs_martingale(M, SCORE, [[DOMAIN]])
    with pytest.raises(ValueError, match="'CR1' is unknown"):
        brier_on_abs_martingale(M, SCORE, se="CR1")
