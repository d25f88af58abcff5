import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from doxascope.metrics import Resampling, bootstrap_rows, persistence, transfer_fraction, transfer_map

odds = st.floats(-5, 5)


def planted(seed: int, share: float, n: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    base = rng.normal(size=n)
    donor = base + rng.uniform(0.5, 3, n)
    return base, base + share * (donor - base) + rng.normal(0, 0.2, n), donor


def test_a_ratio_of_sums_not_a_mean_of_ratios() -> None:
    score = transfer_fraction(base=[0.0, 0.0], patched=[1.0, 0.0], donor=[4.0, 0.1])
    assert score.transfer == score.forward == pytest.approx(1 / 4.1)
    assert score.mean_update == pytest.approx(2.05)
    assert np.isnan(score.reverse)


def test_both_directions_are_averaged() -> None:
    base, donor = np.array([0.0, 1.0]), np.array([2.0, 2.0])
    score = transfer_fraction(base, [1.0, 1.5], donor, patched_reverse=[1.5, 1.9])
    assert score.forward == pytest.approx(1.5 / 3)
    assert score.reverse == pytest.approx(0.6 / 3)
    assert score.transfer == pytest.approx((score.forward + score.reverse) / 2)
    back = transfer_fraction(donor, [1.5, 1.9], base)
    assert back.forward == pytest.approx(score.reverse)


def test_interval_equals_the_plain_cluster_bootstrap() -> None:
    base, patched, donor = planted(0, 0.4)
    items = np.arange(60) // 3
    score = transfer_fraction(base, patched, donor, items, how=Resampling(seed=5, draws=300))
    draws = bootstrap_rows(
        lambda rows: float((patched - base)[rows].sum() / (donor - base)[rows].sum()),
        items,
        how=Resampling(seed=5, draws=300),
    )
    reach = np.sqrt(20 / 19) * stats.t.ppf(0.975, 19)
    assert (score.ci_lo, score.ci_hi) == pytest.approx(tuple(np.quantile(draws, stats.norm.cdf([-reach, reach]))))
    assert score.se == pytest.approx(draws.std(ddof=1))
    assert score.ci_lo < 0.4 < score.ci_hi


@given(st.lists(st.tuples(odds, odds, odds), min_size=2, max_size=8))
def test_order_and_the_name_of_the_option_do_not_matter(rows: list) -> None:
    base, patched, donor = np.array(rows).T
    if abs((donor - base).mean()) > 0.1:
        plain = transfer_fraction(base, patched, donor).transfer
        turned = transfer_fraction(-base[::-1], -patched[::-1], -donor[::-1]).transfer
        assert turned == pytest.approx(plain, rel=1e-6, abs=1e-9)
        assert transfer_fraction(base, donor, donor).transfer == pytest.approx(1)
        assert transfer_fraction(base, base, donor).transfer == 0


def test_without_an_update_there_is_no_fraction() -> None:
    for floor, donor in ((0.0, [1.0, -1.0]), (0.1, [0.1, 0.05])):
        score = transfer_fraction([0.0, 0.0], [0.5, 0.5], donor, noise_floor=floor)
        assert score.status == "no_update"
        assert np.isnan([score.transfer, score.forward]).all()
    rng = np.random.default_rng(1)
    weak = transfer_fraction(np.zeros(30), np.ones(30), rng.normal(0.01, 1, 30))
    assert weak.status == "weak_update"
    empty = transfer_fraction([np.nan], [0.5], [1.0])
    assert (empty.status, empty.n_dropped) == ("too_few", 1)
    with pytest.raises(ValueError, match="patched: holds an infinite"):
        transfer_fraction([0.0], [np.inf], [1.0])
    with pytest.raises(ValueError, match="shapes differ"):
        transfer_fraction([0.0], [0.5, 0.6], [1.0])


def test_map_cells_equal_the_fraction_and_their_bands_are_wider() -> None:
    base, patched, donor = planted(2, 0.0)
    rng = np.random.default_rng(3)
    cells = patched[:, None, None] + rng.normal(0, 0.2, (60, 4, 5))
    cells[:, 2, 3] = donor
    found = transfer_map(base, cells, donor, how=Resampling(seed=1, draws=800))
    for cell in ((0, 0), (2, 3)):
        one = transfer_fraction(base, cells[:, *cell], donor, how=Resampling(seed=1, draws=800))
        assert found.transfer[cell] == pytest.approx(one.transfer)
        assert found.se_cell[cell] == pytest.approx(one.se)
    alone = transfer_fraction(base, cells[:, 0, 0], donor, how=Resampling(seed=1, draws=800))
    assert found.band_hi[0, 0] - found.band_lo[0, 0] > 1.2 * (alone.ci_hi - alone.ci_lo)


def test_map_adjusts_for_the_choice_of_the_best_cell() -> None:
    rejected = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        base = np.zeros(40)
        noise = rng.normal(size=(40, 12))
        rejected += bool((transfer_map(base, noise, base + 1, how=Resampling(seed=seed, draws=300)).p_max < 0.05).any())
    assert rejected <= 9  # 5% of 60 is 3; unadjusted it would be 46% of them
    found = np.random.default_rng(99).normal(size=(40, 12)) + np.eye(12)[4]
    assert transfer_map(np.zeros(40), found, np.ones(40), how=Resampling(draws=300)).p_max[4] < 0.05


def test_map_of_few_clusters_or_no_update_has_no_bands() -> None:
    few = transfer_map([0.0, 0.0], [[0.5, 1.0], [0.5, 1.0]], [1.0, 1.0])
    np.testing.assert_allclose(few.transfer, [0.5, 1.0])
    assert few.status == "too_few"
    assert np.isnan(few.band_lo).all()
    none = transfer_map([0.0, 0.0], [[0.5], [0.5]], [1.0, -1.0])
    assert transfer_map([], np.zeros((0, 2, 3)), []).transfer.shape == (2, 3)
    assert (none.status, np.isnan(none.transfer).all()) == ("no_update", True)


def test_persistence_is_the_share_of_the_shift_that_others_see() -> None:
    rng = np.random.default_rng(4)
    user = rng.normal(1, 0.3, 30)
    score = persistence(user, 0.25 * user)
    assert score.persistence == pytest.approx(0.25)
    assert score.shift_third == pytest.approx(0.25 * score.shift_user)
    assert (score.ci_lo, score.ci_hi) == pytest.approx((0.25, 0.25))
    nothing = persistence([0.0, 0.0, np.nan], [0.3, 0.5, 0.1])
    assert (nothing.status, nothing.shift_third, nothing.n_dropped) == ("no_update", pytest.approx(0.4), 1)
    assert np.isnan(nothing.persistence)
