from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doxascope.metrics import (
    Resampling,
    binned_updates,
    cluster_mean,
    martingale_icm_test,
    martingale_joint_test,
    martingale_score,
)


def plain_statistics(b: np.ndarray, d: np.ndarray) -> tuple[float, float]:
    """The two sums as METRICS writes them."""
    cumulative = [sum(di for bi, di in zip(b, d, strict=True) if bi <= bj + 1e-12) for bj in b]
    return sum(r**2 for r in cumulative) / len(b) ** 2, max(abs(r) for r in cumulative) / len(b) ** 0.5


def test_five_rows_by_hand() -> None:
    # Updates .1, 0, -.1, .05, -.05 sum to .1, .1, 0, .05, 0: the smallest statistic of all 32 sign vectors.
    test = martingale_icm_test([0.1, 0.3, 0.5, 0.7, 0.9], [0.2, 0.3, 0.4, 0.75, 0.85])
    assert test.cvm == test.estimate == pytest.approx((0.01 + 0.01 + 0.0025) / 25)
    assert test.ks == pytest.approx(0.1 / np.sqrt(5))
    assert (test.p_cvm, test.p_ks) == (1, 1)
    assert test.p_method == "sign flips of 5 clusters, all 32"


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 10), st.integers(0, 3)), min_size=2, max_size=9))
def test_statistics_and_p_equal_brute_force(rows: list[tuple[int, int, int]]) -> None:
    prior, post, groups = (np.array(x) for x in zip(*rows, strict=True))
    b, d = prior / 5, post / 10 - prior / 5
    _, codes = np.unique(groups, return_inverse=True)
    test = martingale_icm_test(b, post / 10, groups)
    cvm, ks = plain_statistics(b, d)
    assert (test.cvm, test.ks) == pytest.approx((cvm, ks), abs=1e-12)
    null = [plain_statistics(b, np.array(signs)[codes] * d) for signs in product([-1, 1], repeat=codes.max() + 1)]
    assert test.p_cvm == np.mean([c >= cvm - 1e-10 for c, _ in null])
    assert test.p_ks == np.mean([k >= ks - 1e-10 for _, k in null])


def test_equal_priors_share_one_sum_though_rounding_tells_them_apart() -> None:
    tied = martingale_icm_test([0.3, 0.1 + 0.2, 0.9], [0.5, 0.1, 0.8])
    exactly = martingale_icm_test([0.3, 0.3, 0.9], [0.5, 0.1, 0.8])
    assert tied.cvm == pytest.approx(exactly.cvm, abs=1e-12)


def test_order_of_rows_and_names_of_clusters_do_not_matter() -> None:
    rng = np.random.default_rng(0)
    b, q, groups = rng.random(30), rng.random(30), rng.integers(0, 9, 30)
    order = rng.permutation(30)
    one = martingale_icm_test(b, q, groups)
    two = martingale_icm_test(b[order], q[order], (groups + 7)[order])
    assert (one.cvm, one.p_cvm, one.p_ks) == pytest.approx((two.cvm, two.p_cvm, two.p_ks))


def test_it_sees_the_u_shape_that_slope_and_joint_test_miss() -> None:
    rng = np.random.default_rng(1)
    b = rng.uniform(0.2, 0.8, 400)
    q = b + 1.5 * ((b - 0.5) ** 2 - 0.03) + rng.uniform(-0.1, 0.1, 400)
    assert martingale_icm_test(b, q, how=Resampling(draws=999)).p_cvm < 0.05
    assert martingale_score(b, q).p > 0.05
    assert martingale_joint_test(b, q).p > 0.05


def test_sampled_flips_hold_their_level_and_are_seeded() -> None:
    rng = np.random.default_rng(99)
    p = []
    for seed in range(300):
        groups = np.repeat(np.arange(20), 3)
        b = rng.random(60)
        d = (rng.normal(0, 0.1, 20)[groups] + rng.normal(0, 0.05, 60)) * np.minimum(b, 1 - b)
        p.append(martingale_icm_test(b, np.clip(b + d, 0, 1), groups, how=Resampling(seed=seed, draws=199)).p_cvm)
    assert 0.02 <= np.mean(np.array(p) <= 0.05) <= 0.085
    b = rng.random(60)
    one, two = (martingale_icm_test(b, b**2, how=Resampling(seed=5, draws=99)) for _ in range(2))
    assert one == two
    assert one.params == {"draws": 99, "seed": 5}


def test_nothing_to_test() -> None:
    assert martingale_icm_test([0.5, np.nan], [0.5, 0.5]).status == "too_few"
    still = martingale_icm_test([0.2, 0.5], [0.2, 0.5])
    assert (still.cvm, still.p_cvm) == (0, 1)


def test_bins_are_means_with_cluster_intervals() -> None:
    rng = np.random.default_rng(3)
    b = rng.random(100)
    q, groups = np.clip(b + rng.normal(0, 0.1, 100), 0, 1), np.repeat(np.arange(25), 4)
    table = binned_updates(b, q, groups, bins=4)
    np.testing.assert_array_equal(table.n, [25, 25, 25, 25])
    lowest = b <= np.quantile(b, 0.25)
    one = cluster_mean((q - b)[lowest], groups[lowest])
    assert table.mean_delta[0] == pytest.approx(one.mean)
    # CR1 of a mean has G/(G-1), as cluster_mean, times (n-1)/(n-1).
    assert table.errors[0] == pytest.approx(one.se)
    assert (table.p_holm >= table.p_bin).all()
    assert (table.p_holm <= 4 * table.p_bin + 1e-12).all()


def test_heaped_priors_make_fewer_bins_and_one_value_makes_one() -> None:
    heaped = binned_updates([0.5] * 8 + [0.7] * 2, [0.6, 0.4] * 5, bins=10)
    assert heaped.n.sum() == 10
    assert len(heaped.n) < 10
    one = binned_updates([0.5] * 4, [0.6, 0.4, 0.7, 0.5])
    assert (one.n.tolist(), one.mean_delta.tolist()) == ([4], pytest.approx([0.05]))
    assert binned_updates([np.nan], [0.5]).status == "too_few"
    with pytest.raises(ValueError, match="bins: 0"):
        binned_updates([0.5], [0.5], bins=0)
