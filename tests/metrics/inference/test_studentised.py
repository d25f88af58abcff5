import numpy as np
import pytest

from doxascope.metrics import studentised_mean


def test_it_is_the_plain_loop_over_resamples() -> None:
    values = np.random.default_rng(0).exponential(size=25)
    made = studentised_mean(values, seed=3, draws=400)
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
        made = studentised_mean(squares, seed=seed, draws=400)
        reach = 2.001 * made.se
        missed += [not made.lo <= 1 <= made.hi, abs(squares.mean() - 1) > reach]
    assert missed[0] / 600 < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 600) < missed[1] / 600


def test_few_clusters_get_t_one_gets_nothing_and_equal_values_a_point() -> None:
    few = studentised_mean(np.array([1.0, 2.0, 4.0]), seed=0)
    assert (few.method, (few.lo + few.hi) / 2) == ("t over 3 clusters", pytest.approx(7 / 3))
    one = studentised_mean(np.ones(1), seed=0)
    assert (one.method, np.isnan(one.se)) == ("none: one cluster", True)
    same = studentised_mean(np.full(20, 0.3), seed=0, draws=50)
    assert (same.lo, same.hi) == pytest.approx((0.3, 0.3))


def test_a_resample_without_spread_is_left_out() -> None:
    lumpy = np.r_[np.zeros(11), 1.0]
    made = studentised_mean(lumpy, seed=0, draws=500)
    assert np.isfinite([made.lo, made.hi]).all()
    assert made.lo < 1 / 12 < made.hi
