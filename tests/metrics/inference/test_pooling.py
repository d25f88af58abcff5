from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.meta_analysis import combine_effects

from doxascope.metrics import mean_over_seeds, random_effects_pool

EST, SE = np.array([0.02, 0.08, 0.05, -0.01]), np.array([0.01, 0.02, 0.015, 0.02])


def test_it_is_dersimonian_and_laird() -> None:
    pooled = random_effects_pool(EST, SE)
    reference: Any = combine_effects(EST, SE**2, method_re="dl")
    assert pooled.tau2 == pytest.approx(reference.tau2)
    assert pytest.approx(reference.q) == pooled.Q
    assert pooled.pooled == pytest.approx(reference.mean_effect_re)
    assert pooled.se == pytest.approx(reference.sd_eff_w_re)
    assert pooled.i2 == pytest.approx(reference.i2)
    assert pooled.se_hksj == pytest.approx(max(reference.sd_eff_w_re_hksj, pooled.se))
    assert (pooled.tau2, pooled.pooled) == pytest.approx((0.0007923728813559322, 0.034453759062560464))


def test_agreeing_cells_are_pooled_by_precision_alone() -> None:
    """Here the moment estimate of tau2 is negative; statsmodels would use it so."""
    est, se = [0.050, 0.051, 0.049], np.array([0.01, 0.02, 0.03])
    reference: Any = combine_effects(np.array(est), se**2, method_re="dl")
    assert reference.tau2 < 0
    pooled = random_effects_pool(est, se)
    assert (pooled.tau2, pooled.i2) == (0, 0)
    assert pooled.pooled == pytest.approx(np.average(est, weights=1 / se**2))
    assert pooled.se == pytest.approx(1 / np.sqrt((1 / se**2).sum()))
    assert pooled.se_hksj == pooled.se


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0.01, 1)), min_size=3, max_size=8), st.floats(0.1, 10))
def test_units_and_order_do_not_matter(cells: list[tuple[float, float]], unit: float) -> None:
    est, se = np.array(cells).T
    one, two = random_effects_pool(est, se), random_effects_pool(unit * est[::-1], unit * se[::-1])
    for name in ("pooled", "se", "ci_lo", "pi_hi"):
        assert getattr(two, name) == pytest.approx(unit * getattr(one, name), rel=1e-6, abs=1e-9)
    assert min(est) - 1e-9 <= one.pooled <= max(est) + 1e-9
    assert one.pi_lo <= one.ci_lo + 1e-9


def test_its_interval_covers_where_the_wald_interval_does_not() -> None:
    rng = np.random.default_rng(0)
    covered = np.zeros(2)
    for _ in range(500):
        se = rng.uniform(0.01, 0.03, 5)
        pooled = random_effects_pool(rng.normal(0, 0.04, 5) + rng.normal(0, se), se)
        covered += [pooled.ci_lo <= 0 <= pooled.ci_hi, abs(pooled.pooled) <= 1.96 * pooled.se]
    assert covered[0] / 500 > 0.93
    assert covered[1] / 500 < 0.92


def test_cells_without_an_error_are_dropped_and_two_are_needed() -> None:
    pooled = random_effects_pool([*EST, 0.5, np.nan], [*SE, 0.0, 0.1])
    assert pooled.pooled == random_effects_pool(EST, SE).pooled
    assert (pooled.n_rows, pooled.n_dropped) == (4, 2)
    one = random_effects_pool([0.1], [0.1])
    assert (one.status, np.isnan(one.pooled)) == ("too_few", True)
    two = random_effects_pool([0.1, 0.2], [0.1, 0.1])
    assert np.isfinite(two.ci_lo)
    assert np.isnan(two.pi_lo)
    with pytest.raises(ValueError, match=r"se: -0\.1 is negative"):
        random_effects_pool([0.1, 0.2], [-0.1, 0.1])
    with pytest.raises(ValueError, match="lengths differ"):
        random_effects_pool([0.1, 0.2], [0.1])


def seeds(shared: float, k: int, rng: np.random.Generator, n: int = 60, luck: float = 0.1) -> tuple[np.ndarray, ...]:
    """Estimates and errors of k seeds, each a mean of n items of which a share is the same, with luck of the draw."""
    common, own = rng.normal(size=n), rng.normal(size=(k, n))
    same = np.arange(n) < shared * n
    values = np.where(same, common, own)
    return values.mean(axis=1) + luck * rng.normal(size=k), values.std(axis=1, ddof=1) / np.sqrt(n)


@pytest.mark.parametrize(("shared", "k"), [(1, 3), (0.5, 3), (0, 3), (1, 10)])
def test_the_mean_over_seeds_covers_whatever_items_the_seeds_share(shared: float, k: int) -> None:
    rng = np.random.default_rng(1)
    drawn = (seeds(shared, k, rng) for _ in range(600))
    found = [mean_over_seeds(est, se, np.full(k, 60)) for est, se in drawn]
    covered = np.mean([one.ci_lo <= 0 <= one.ci_hi for one in found])
    assert covered > 0.93
    assert covered < 0.97 or shared < 1  # exact where the items are the same
    if (shared, k) == (1, 10):  # taken for ten samples of items
        apart = [random_effects_pool(*seeds(shared, k, rng)) for _ in range(600)]
        assert np.mean([one.ci_lo <= 0 <= one.ci_hi for one in apart]) < 0.85


def test_the_mean_over_seeds_is_its_formula_and_says_where_there_is_no_error() -> None:
    est, se = [0.1, 0.2, 0.6], [0.1, 0.2, 0.2]
    one = mean_over_seeds([*est, np.nan], [*se, 0.1], [30, 20, 40, 50], 90)
    within, between = 0.03, 0.07
    assert (one.mean, one.within, one.between) == pytest.approx((0.3, within, between))
    assert one.sd == pytest.approx(np.std(est, ddof=1))
    assert one.se**2 == pytest.approx(within + between / 3)
    assert one.df == pytest.approx(one.se**4 / (within**2 / 19 + (between / 3) ** 2 / 2))
    assert (one.n_seeds, one.n_dropped, one.n_rows, one.n_clusters) == (3, 1, 270, 40)
    for given_, status in (([0.1], "one_seed"), ([np.nan, np.nan], "undefined"), ([1.0, 1.0], "no_error")):
        made = mean_over_seeds(given_, np.zeros(len(given_)), np.full(len(given_), 9))
        assert made.status == status
        assert np.isnan(made.ci_lo)
    with pytest.raises(ValueError, match=r"se: -1\.0 is negative"):
        mean_over_seeds([1, 2], [1, -1], [9, 9])
