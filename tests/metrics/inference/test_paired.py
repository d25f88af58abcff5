import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from doxascope.metrics import (
    PairedDifference,
    Resampling,
    bootstrap_rows,
    martingale_score,
    paired_difference,
    paired_difference_moments,
    paired_family,
)
from doxascope.metrics.inference.intervals import bca_tails


def kinds(seed: int, n_clusters: int = 20, gap: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two kinds that share most of what varies between items."""
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(n_clusters), 3)
    shared = rng.normal(0, 1, n_clusters)[clusters]
    one, two = (shared + rng.normal(0, 0.3, len(clusters)) for _ in range(2))
    return one + gap, two, clusters


def mean(x: np.ndarray) -> float:
    return float(x.mean())


def mean_of_sums(sums: np.ndarray) -> np.ndarray:
    return sums[:, 0] / sums[:, 1]


def moments(x: np.ndarray) -> np.ndarray:
    return np.column_stack([x, np.where(np.isnan(x), np.nan, 1.0)])


@pytest.mark.parametrize("n_clusters", [6, 20, 40])
@pytest.mark.parametrize("interval", ["percentile", "bca"])
def test_the_loop_and_the_moments_agree(n_clusters: int, interval: str) -> None:
    one, two, clusters = kinds(0, n_clusters)
    one[4] = np.nan
    plain = paired_difference([one], [two], mean, clusters, interval=interval, how=Resampling(seed=3, draws=200))
    fast = paired_difference_moments(
        moments(one), moments(two), mean_of_sums, clusters, interval=interval, how=Resampling(seed=3, draws=200)
    )
    for name in ("difference", "first", "second", "se", "ci_lo", "ci_hi", "p"):
        assert getattr(fast, name) == pytest.approx(getattr(plain, name), rel=1e-9)
    assert (plain.ci_method, plain.n_rows, plain.n_dropped) == (fast.ci_method, 3 * n_clusters - 1, 1)


def test_a_mean_difference_has_the_jackknife_and_bootstrap_errors_of_cluster_means() -> None:
    one, two, clusters = kinds(1, 8)
    d = (one - two).reshape(8, 3).mean(axis=1)
    few = paired_difference([one], [two], mean, clusters)
    reference = stats.ttest_1samp(d, 0)
    assert (few.difference, few.se, few.p) == pytest.approx((d.mean(), d.std(ddof=1) / np.sqrt(8), reference.pvalue))
    assert (few.ci_lo, few.ci_method) == (
        pytest.approx(reference.confidence_interval().low),
        "jackknife, t(7)",
    )
    one, two, clusters = kinds(1, 50)
    d = (one - two).reshape(50, 3).mean(axis=1)
    many = paired_difference([one], [two], mean, clusters)
    assert many.se == pytest.approx(d.std() / np.sqrt(50), rel=0.08)


def test_pairing_removes_what_the_kinds_share() -> None:
    one, two, clusters = kinds(2, 40)
    alone = bootstrap_rows(lambda rows: mean(one[rows]), clusters)
    assert paired_difference([one], [two], mean, clusters).se < 0.5 * alone.std()


def test_any_metric_of_several_columns() -> None:
    rng = np.random.default_rng(3)
    b = rng.uniform(0.3, 0.7, 90)
    sober, eager = b + rng.uniform(-0.1, 0.1, 90), 0.5 + 1.4 * (b - 0.5) + rng.uniform(-0.05, 0.05, 90)
    score = paired_difference(
        (b, eager),
        (b, sober),
        lambda x, y: martingale_score(x, y).M,
        np.repeat(np.arange(30), 3),
        how=Resampling(draws=200),
    )
    assert score.first == martingale_score(b, eager).M
    assert score.ci_lo < 0.4 < score.ci_hi
    assert 0 < score.p < 0.02  # no resample reaches zero, and 200 of 30 clusters cannot say more


def test_columns_may_have_several_entries_per_row_and_a_hole_in_one_drops_the_row_from_both() -> None:
    one, two = np.arange(24.0).reshape(12, 2), np.zeros((12, 2))
    two[5, 1] = np.nan
    score = paired_difference([one], [two], lambda x: float(x.sum()), np.arange(12), how=Resampling(draws=50))
    assert (score.n_rows, score.n_dropped, score.n_clusters) == (11, 1, 11)
    assert score.first == one.sum() - 21


def test_the_p_value_holds_its_level_and_matches_its_interval() -> None:
    scores = []
    for seed in range(300):
        one, two, clusters = kinds(seed, 25)
        score = paired_difference_moments(moments(one), moments(two), mean_of_sums, clusters, how=Resampling(draws=399))
        scores.append(score)
    rejected = np.array([s.p <= 0.05 for s in scores])
    assert 0.03 <= rejected.mean() <= 0.1
    outside = np.array([s.ci_lo > 0 or s.ci_hi < 0 for s in scores])
    assert (rejected == outside).all()


@settings(deadline=None)
@given(
    st.lists(st.integers(-6, 6), min_size=10, max_size=45),
    st.sampled_from(["percentile", "bca"]),
    st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]),
)
def test_p_is_below_the_level_if_and_only_if_the_interval_leaves_zero_out(
    differences: list[int], interval: str, level: float
) -> None:
    """Whole numbers, so that resamples tie with zero."""
    d = np.array(differences, dtype=np.float64)
    score = paired_difference_moments(
        moments(d),
        moments(0 * d),
        mean_of_sums,
        np.arange(len(d)),
        interval=interval,
        how=Resampling(draws=999, level=level),
    )
    if not score.p_at_floor:  # there the draws are too few to tell
        assert (score.p < 1 - level) == (score.ci_lo > 0 or score.ci_hi < 0)


def test_the_same_kind_twice_does_not_differ() -> None:
    one, _, clusters = kinds(4)
    score = paired_difference([one], [one], mean, clusters, how=Resampling(draws=100))
    assert (score.difference, score.se, score.p) == (0, 0, 1)


def test_a_family_is_adjusted_together() -> None:
    family = paired_family({"a": PairedDifference(p=0.01), "b": PairedDifference(p=0.03), "c": PairedDifference()})
    assert [family[k].p_adjusted for k in "ab"] == pytest.approx([0.02, 0.03])
    assert np.isnan(family["c"].p_adjusted)
    assert {c.family_size for c in family.values()} == {2}


def largest(x: np.ndarray) -> float:
    return float(x.max()) if x.max() > 0 else float("nan")


def test_degenerate_data_and_statistics() -> None:
    nothing = paired_difference([[np.nan]], [[0.1]], mean, [0])
    assert (nothing.status, nothing.n_dropped) == ("too_few", 1)
    one = paired_difference([[0.2, 0.3]], [[0.1, 0.1]], mean, ["q", "q"])
    assert (one.status, one.difference) == ("one_cluster", pytest.approx(0.15))
    undefined = paired_difference([[0.2, 0.3]], [[0.1, 0.1]], lambda x: float("nan"), [0, 1])
    assert undefined.status == "undefined"
    # Only one cluster has the rows that the statistic needs: without it there is none.
    brittle = paired_difference(
        [[1.0, 0.0, 0.0]],
        [[0.5, 0.0, 0.0]],
        largest,
        [0, 1, 2],
    )
    assert (brittle.status, np.isnan(brittle.p)) == ("undefined", True)
    some = paired_difference(
        [np.r_[1.0, np.zeros(11)]], [np.r_[0.5, np.zeros(11)]], largest, np.arange(12), how=Resampling(draws=200)
    )
    assert 40 < some.params["undefined_draws"] < 100  # (11/12)^12 = 35%


@pytest.mark.parametrize(
    ("first", "second", "clusters", "message"),
    [
        ([[0.1, 0.2]], [[0.1]], [0, 1], r"second\[0\]: shape \(1,\) for 2 clusters"),
        ([[0.1], [0.2]], [[0.1]], [0], "columns differ: first 2, second 1"),
        ([[0.1, 0.2]], [[0.1, 0.2]], [0, None], "row 1 has none"),
    ],
)
def test_rows_must_align(first: list, second: list, clusters: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        paired_difference(first, second, mean, np.array(clusters, dtype=object))


def test_unknown_interval_and_ragged_moments_are_refused() -> None:
    with pytest.raises(ValueError, match="'basic' is unknown; use one of percentile, bca"):
        paired_difference([[0.1, 0.3]], [[0.1, 0.2]], mean, [0, 1], interval="basic")
    with pytest.raises(ValueError, match="moments: first"):
        paired_difference_moments([[0.1]], [[0.1, 0.2]], mean_of_sums, [0])


def test_bca_agrees_with_scipy_and_is_undefined_without_spread() -> None:
    x = np.random.default_rng(5).lognormal(size=60)
    reference = stats.bootstrap((x,), np.mean, method="BCa", n_resamples=20000, rng=0).confidence_interval
    draws = bootstrap_rows(lambda rows: mean(x[rows]), np.arange(60), how=Resampling(seed=1, draws=20000))
    left_out = (x.sum() - x) / 59
    tails = bca_tails(draws, x.mean(), left_out)
    assert tails is not None
    lo, hi = tails.ends(draws, 0.95)
    assert (lo, hi) == pytest.approx((reference.low, reference.high), rel=0.03)
    plain_lo = np.quantile(draws, 0.025)
    assert lo > plain_lo + 0.5 * (reference.low - plain_lo)  # and not merely the percentile interval
    assert bca_tails(np.ones(10), 1.0, np.ones(5)) is None
    assert bca_tails(np.full(10, np.nan), 1.0, left_out) is None
