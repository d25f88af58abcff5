import numpy as np
import pytest

from doxascope.metrics import Resampling, cluster_mean, martingale_score, moment_interval, sign_flip_test
from doxascope.metrics.inference.intervals import Tails


def mean(sums: np.ndarray) -> np.ndarray:
    return sums[:, 0] / sums[:, 1]


def test_few_clusters_get_a_jackknife_that_is_exact_for_a_mean() -> None:
    values = np.array([0.1, 0.4, 0.2, 0.9])
    made = moment_interval(np.column_stack([values, np.ones(4)]), np.arange(4), mean)
    assert made.se == pytest.approx(values.std(ddof=1) / 2)
    assert made.method == "jackknife, t(3)"
    assert (made.lo + made.hi) / 2 == pytest.approx(values.mean())


def test_many_clusters_get_a_bootstrap_and_one_gets_nothing() -> None:
    values = np.random.default_rng(0).normal(size=200)
    moments = np.column_stack([values, np.ones(200)])
    made = moment_interval(moments, np.arange(200), mean)
    assert made.se == pytest.approx(values.std() / np.sqrt(200), rel=0.1)
    assert made.params == {"level": 0.95, "draws": 2000, "seed": 0}
    one = moment_interval(moments, np.zeros(200), mean)
    assert (one.method, np.isnan(one.lo)) == ("none: one cluster", True)


def test_a_statistic_that_hangs_on_one_cluster_has_no_interval() -> None:
    moments = np.array([[0.2, 1.0], [0.0, 0.0], [0.0, 0.0]])
    made = moment_interval(moments, np.arange(3), mean)
    assert (made.method, np.isnan(made.se)) == ("none: it hangs on one cluster", True)
    assert made.test_of_zero(0.2) == {}


def test_a_statistic_that_no_single_cluster_can_vary_has_no_interval_of_two() -> None:
    """Of one row, mean ab / (mean a mean b) is 1 whatever the row: leaving out either of two says nothing."""
    moments = np.array([[0.2 * 0.3, 0.2, 0.3, 1.0], [0.8 * 0.4, 0.8, 0.4, 1.0]])
    made = moment_interval(moments, np.arange(2), lambda s: s[:, 0] * s[:, 3] / (s[:, 1] * s[:, 2]))
    assert (made.method, np.isnan(made.lo)) == ("none: 2 clusters do not tell how it varies", True)
    still = moment_interval(np.array([[0.3, 1.0], [0.3, 1.0]]), np.arange(2), mean)
    assert (still.lo, still.hi) == (0.3, 0.3)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, float("nan")])
def test_a_level_outside_its_range_is_refused(level: float) -> None:
    values = np.random.default_rng(0).random(30)
    with pytest.raises(ValueError, match=r"level: .* between 0 and 1"):
        cluster_mean(values, np.arange(30), how=Resampling(level=level))
    with pytest.raises(ValueError, match="level"):
        martingale_score(values, values[::-1], how=Resampling(level=level))


def test_no_draws_are_refused() -> None:
    values = np.random.default_rng(0).random(30)
    with pytest.raises(ValueError, match="draws: 0; give one"):
        cluster_mean(values, np.arange(30), how=Resampling(draws=0))
    with pytest.raises(ValueError, match="draws: -1"):
        sign_flip_test(values, how=Resampling(draws=-1))


def test_clusters_that_weigh_alike_hold_strata_that_weigh_alike() -> None:
    values, clusters, strata = [1, 2, 3, 10, 20], [0, 0, 0, 1, 1], ["a", "a", "b", "a", "b"]
    mean = cluster_mean(values, clusters, strata=strata)
    assert mean.equal_weight_mean == pytest.approx(((1.5 + 3) / 2 + 15) / 2)
    lacking = cluster_mean(values[:4], clusters[:4], strata=strata[:4])  # cluster 1 has no b
    assert lacking.equal_weight_mean == pytest.approx(((1.5 + 3) / 2 + 10) / 2)
    assert cluster_mean(values, clusters).equal_weight_mean == pytest.approx((2 + 15) / 2)


@pytest.mark.parametrize(("bias", "skew"), [(0.0, 0.0), (0.2, 0.1), (-0.3, -0.08), (0.1, -0.1)])
def test_p_of_zero_is_below_what_a_level_leaves_where_its_interval_leaves_zero_out(bias: float, skew: float) -> None:
    tails = Tails(n_clusters=14, bias=bias, skew=skew)
    for shift in (-1.5, -0.5, 0.4, 2.0):
        draws = np.random.default_rng(0).gumbel(size=4001) + shift
        p = tails.p_of_zero(draws)
        for level in (1 - p * 1.05, 1 - p * 0.95):
            lo, hi = tails.ends(draws, level)
            assert (p < 1 - level) == (not lo <= 0 <= hi)
