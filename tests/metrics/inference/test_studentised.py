import numpy as np
import pytest
from scipy import stats

from doxascope.benchmarks.agents.updates import log_odds, signalled
from doxascope.metrics import Resampling, cluster_mean, studentised_bounds, studentised_mean


def test_it_is_the_plain_loop_over_resamples() -> None:
    values = np.random.default_rng(0).exponential(size=25)
    made = studentised_mean(values, how=Resampling(seed=3, draws=400))
    picked = values[np.random.default_rng(3).integers(0, 25, size=(400, 25))]
    t = (picked.mean(axis=1) - values.mean()) / (picked.std(axis=1, ddof=1) / 5)
    se = values.std(ddof=1) / 5
    high, low = values.mean() - se * np.quantile(t, [0.025, 0.975])
    assert (made.lo, made.hi, made.se) == pytest.approx((low, high, se))
    assert made.method == "studentised cluster bootstrap"


def test_it_misses_squares_no_more_often_than_it_says_where_t_does() -> None:
    missed = np.zeros(2)
    for seed in range(600):
        squares = np.random.default_rng(seed).normal(size=60) ** 2
        made = studentised_mean(squares, how=Resampling(seed=seed, draws=400))
        reach = 2.001 * made.se
        missed += [not made.lo <= 1 <= made.hi, abs(squares.mean() - 1) > reach]
    assert missed[0] / 600 < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 600) < missed[1] / 600


def test_few_clusters_get_t_one_gets_nothing_and_equal_values_a_point() -> None:
    few = studentised_mean(np.array([1.0, 2.0, 4.0]))
    assert (few.method, (few.lo + few.hi) / 2) == ("t over 3 clusters", pytest.approx(7 / 3))
    one = studentised_mean(np.ones(1))
    assert (one.method, np.isnan(one.se)) == ("none: one cluster", True)
    same = studentised_mean(np.full(20, 0.3), how=Resampling(draws=50))
    assert (same.lo, same.hi) == pytest.approx((0.3, 0.3))


def test_a_resample_without_spread_is_left_out() -> None:
    lumpy = np.r_[np.zeros(11), 1.0]
    made = studentised_mean(lumpy, how=Resampling(draws=500))
    assert np.isfinite([made.lo, made.hi]).all()
    assert made.lo < 1 / 12 < made.hi


def test_clusters_of_many_rows_are_the_plain_loop_over_resamples() -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 8, 20)
    clusters = np.repeat(np.arange(20), sizes)
    values = rng.exponential(size=len(clusters)) + rng.normal(size=20)[clusters]
    made = studentised_mean(values, clusters, how=Resampling(seed=5, draws=300))
    rows_of = [np.flatnonzero(clusters == g) for g in range(20)]

    def mean_and_error(groups: list[np.ndarray]) -> tuple[float, float]:
        sums, n = np.array([values[r].sum() for r in groups]), np.array([len(r) for r in groups])
        mean = sums.sum() / n.sum()
        return mean, np.sqrt(20 / 19 * np.square(sums - mean * n).sum()) / n.sum()

    mean, se = mean_and_error(rows_of)
    t = []
    for pick in np.random.default_rng(5).integers(0, 20, size=(300, 20)):
        drawn = mean_and_error([rows_of[g] for g in pick])
        t.append((drawn[0] - mean) / drawn[1])
    high, low = mean - se * np.quantile(t, [0.025, 0.975])
    assert (made.lo, made.hi, made.se) == pytest.approx((low, high, se))
    assert made.se == pytest.approx(cluster_mean(values, clusters).se)
    lower, upper, _ = studentised_bounds(values, clusters, how=Resampling(seed=5, draws=300))
    k = int(0.05 * 301)
    assert (lower, upper) == pytest.approx((mean - se * np.sort(t)[-k], mean - se * np.sort(t)[k - 1]))


def test_p_is_of_the_same_draws_as_the_interval() -> None:
    for seed in range(40):
        values = np.random.default_rng(seed).normal(0.35, 1, 30)
        made = studentised_mean(values, how=Resampling(seed=seed, draws=999))
        p = made.test_of_zero(float(values.mean()))["p"]
        assert (p < 0.05) == (made.lo > 0 or made.hi < 0) or abs(p - 0.05) < 0.003
        above = made.test_above_zero(float(values.mean()))["p"]
        assert p == pytest.approx(min(1, 2 * min(above, 1 - above + 1 / 1000)), abs=0.003)


def test_a_bound_that_resamples_can_miss_is_infinite() -> None:
    lumpy = np.r_[np.zeros(29), 1.0]
    lower, upper, _ = studentised_bounds(lumpy)
    assert (lower < 1 / 30, upper) == (True, np.inf)
    assert studentised_bounds(np.zeros(30))[:2] == (0, 0)
    assert studentised_bounds(np.zeros(1))[:2] == (-np.inf, np.inf)


def test_the_longer_interval_holds_the_mean_update_of_bayesians_near_zero_where_the_bootstrap_does_not() -> None:
    missed = np.zeros(2)
    for seed in range(300):
        rng = np.random.default_rng(seed)
        prior, post, _ = signalled(rng, log_odds(rng, 20))
        for i, longer in enumerate((False, True)):
            made = studentised_mean(post - prior, longer=longer, how=Resampling(seed=seed, draws=199))
            missed[i] += not made.lo <= 0 <= made.hi
            p = made.test_of_zero(float((post - prior).mean()))["p"]
            assert (p < 0.05) == (not made.lo <= 0 <= made.hi) or abs(p - 0.05) < 0.02
    assert missed[1] / 300 < 0.05
    assert missed[0] / 300 > 0.1


def test_the_longer_interval_ends_where_the_further_of_both_does() -> None:
    values = np.random.default_rng(0).exponential(size=25)
    plain, longer = (studentised_mean(values, longer=one, how=Resampling(seed=3, draws=400)) for one in (False, True))
    reach = stats.t.ppf(0.975, 24) * plain.se
    assert plain.lo > values.mean() - reach == pytest.approx(longer.lo)  # skewed to the right
    assert longer.hi == plain.hi > values.mean() + reach
