import numpy as np
import pytest
import statsmodels.api as sm
from pandas import DataFrame
from statsmodels.formula.api import ols

from doxascope.metrics import reliability_icc


def simulated(n: int, r: int, reliability: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(0, np.sqrt(reliability), (n, 1)) + rng.normal(0, np.sqrt(1 - reliability), (n, r))


def test_four_items_by_hand() -> None:
    # Means .25, .6, .8, .4: between mean square 2 x .171875 / 3, within .0450 / 4.
    score = reliability_icc([[0.2, 0.3], [0.5, 0.7], [0.9, 0.7], [0.4, 0.4]])
    between, within = 2 * 0.171875 / 3, 0.045 / 4
    assert score.icc1 == pytest.approx((between - within) / (between + within))
    assert score.icc1 == pytest.approx(0.8211920529801325)
    assert score.icc_mean == pytest.approx(2 * score.icc1 / (1 + score.icc1))  # Spearman-Brown


def test_mean_squares_are_those_of_an_analysis_of_variance() -> None:
    x = simulated(12, 4, 0.5)
    table = DataFrame({"y": x.ravel(), "item": np.repeat(np.arange(12), 4)})
    anova = sm.stats.anova_lm(ols("y ~ C(item)", table).fit())
    between, within = anova["mean_sq"]
    score = reliability_icc(x)
    assert score.icc1 == pytest.approx((between - within) / (between + 3 * within))
    assert score.icc_mean == pytest.approx(1 - within / between)


def test_units_and_order_do_not_matter() -> None:
    x = simulated(15, 3, 0.7)
    rng = np.random.default_rng(1)
    moved = rng.permuted(3 - 2 * x, axis=1)[rng.permutation(15)]
    one, two = reliability_icc(x), reliability_icc(moved)
    assert (two.icc1, two.ci_lo, two.ci_hi) == pytest.approx((one.icc1, one.ci_lo, one.ci_hi))


def test_the_interval_covers_at_its_level() -> None:
    scores = [reliability_icc(simulated(20, 3, 0.6, seed)) for seed in range(300)]
    assert 0.92 <= np.mean([s.ci_lo <= 0.6 <= s.ci_hi for s in scores]) <= 0.98


def test_items_that_come_in_groups_widen_it() -> None:
    rng = np.random.default_rng(2)
    topic = rng.normal(0, 1, 12)
    x = np.repeat(topic, 10)[:, None] + rng.normal(0, 0.5, (120, 2))
    alone, grouped = reliability_icc(x), reliability_icc(x, np.repeat(np.arange(12), 10))
    assert grouped.icc1 == alone.icc1
    assert grouped.ci_method == "expanded percentile cluster bootstrap"
    assert grouped.ci_hi - grouped.ci_lo > 1.5 * (alone.ci_hi - alone.ci_lo)
    few = reliability_icc(x, np.repeat(np.arange(6), 20))
    assert (few.ci_lo < few.icc1 < few.ci_hi, few.ci_method) == (True, "jackknife, t(5)")
    sharp = np.array([0.1, 0.2, 0.9, 0.95])[:, None] + np.array([[-0.01, 0.01], [0.05, -0.05], [0, 0], [0, 0]])
    assert reliability_icc(np.repeat(sharp, 2, axis=0), np.repeat(np.arange(4), 2)).ci_hi == 1  # no share is larger


def test_identical_readings_are_perfect_and_repelling_ones_negative() -> None:
    same = reliability_icc([[0.1, 0.1], [0.5, 0.5], [0.9, 0.9]])
    assert (same.icc1, same.icc_mean, same.ci_lo, same.ci_hi) == (1, 1, 1, 1)
    apart = reliability_icc([[0.2, 0.8], [0.8, 0.2], [0.3, 0.7]])
    assert apart.icc1 == pytest.approx(-1)


@pytest.mark.parametrize(
    ("readings", "status", "n_dropped"),
    [
        ([[0.1, 0.2]], "too_few", 0),
        ([[0.1, 0.2], [0.3, np.nan]], "too_few", 1),
        ([[0.1], [0.2]], "one_reading", 0),
        ([[0.1 + 0.2, 0.3], [0.3, 0.3]], "zero_variance", 0),
    ],
)
def test_without_replicates_or_spread_there_is_none(readings: list, status: str, n_dropped: int) -> None:
    score = reliability_icc(readings)
    assert (score.status, score.n_dropped) == (status, n_dropped)
    assert np.isnan([score.icc1, score.icc_mean, score.ci_lo]).all()


def test_a_flat_list_is_refused() -> None:
    with pytest.raises(ValueError, match=r"readings: shape \(2,\)"):
        reliability_icc([0.1, 0.2])
