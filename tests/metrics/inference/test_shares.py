import numpy as np
import pytest
from scipy import stats

from doxascope.metrics import Resampling, cluster_mean, cluster_share


@pytest.mark.parametrize("right", [0, 1, 17, 59, 60])
def test_of_independent_rows_it_is_nearly_the_exact_interval_of_a_count(right: int) -> None:
    """The effective number is 60 - 1 of independent rows, and 60 where all are alike."""
    found = cluster_share([1] * right + [0] * (60 - right), np.arange(60))
    exact = stats.binomtest(right, 60).proportion_ci(method="exact")
    assert (found.ci_lo, found.ci_hi) == (pytest.approx(exact.low, abs=0.01), pytest.approx(exact.high, abs=0.01))
    assert 0 <= found.ci_lo <= found.mean <= found.ci_hi <= 1


def test_rows_that_say_the_same_count_once() -> None:
    right = np.random.default_rng(0).random(40) < 0.8
    once, often = (cluster_share(np.repeat(right, m), np.repeat(np.arange(40), m)) for m in (1, 5))
    assert (often.mean, often.ci_lo) == (pytest.approx(once.mean), pytest.approx(once.ci_lo, abs=0.01))
    all_right = cluster_share(np.ones(200), np.repeat(np.arange(40), 5))
    assert (all_right.ci_lo, all_right.ci_hi) == (pytest.approx(0.025 ** (1 / 40)), 1)


@pytest.mark.parametrize(("clusters", "rows"), [(6, 10), (10, 100), (60, 20)])
def test_one_hit_of_few_clusters_says_no_more_than_none(clusters: int, rows: int) -> None:
    """How hits gather in clusters is unknown of one, as it is of none: the interval is not shorter for it."""
    none, one = np.zeros(rows * clusters), np.r_[1.0, np.zeros(rows * clusters - 1)]
    owner = np.repeat(np.arange(clusters), rows)
    assert cluster_share(none, owner).ci_hi == pytest.approx(1 - 0.025 ** (1 / clusters))
    assert cluster_share(one, owner).ci_hi >= cluster_share(none, owner).ci_hi
    assert cluster_share(1 - one, owner).ci_lo <= cluster_share(1 - none, owner).ci_lo


def test_rare_hits_that_gather_in_clusters_are_held_by_their_interval() -> None:
    """A true share of .02, correlated .3 within 60 clusters of ten rows: with t(G - 1) alone 272 of 300."""
    rng, owner = np.random.default_rng(0), np.repeat(np.arange(60), 10)
    held = 0
    for _ in range(300):
        chance = rng.beta(0.02 * (1 / 0.3 - 1), 0.98 * (1 / 0.3 - 1), 60)
        found = cluster_share(rng.random(600) < chance[owner], owner)
        held += found.ci_lo <= 0.02 <= found.ci_hi
    assert held >= 285


def test_what_rests_on_few_clusters_says_so() -> None:
    sizes = np.r_[100, np.ones(39, int)]
    owner = np.repeat(np.arange(40), sizes)
    values = np.random.default_rng(1).random(len(owner))
    assert cluster_mean(values, owner, how=Resampling(draws=99)).status == "few_effective_clusters"
    assert cluster_share(values > 0.5, owner).status == "few_effective_clusters"
    assert cluster_mean(values[:120], owner[:120], how=Resampling(draws=99)).status == "few_effective_clusters"
    assert cluster_share(values[:120] > 0.5, owner[:120]).status == "few_effective_clusters"
    assert cluster_share(values[:105] > 0.5, owner[:105]).status == "few_clusters"
    assert cluster_mean(values[-29:], np.arange(29), how=Resampling(draws=99)).status == "few_clusters"
    assert cluster_mean(values[-30:], np.arange(30), how=Resampling(draws=99)).status == "ok"
    assert cluster_mean(np.full(30, 0.2), np.arange(30), how=Resampling(draws=99)).status == "zero_cluster_variance"
    few = cluster_mean([0.0, 0.3, 0.0], np.arange(3), within=(0.0, 1.0))
    assert (few.ci_lo, few.status) == (0, "few_clusters")


@pytest.mark.parametrize("value", [0.25, 0.3, 0.5, 0.7, 1.0])
def test_rows_that_are_all_alike_count_as_their_clusters(value: float) -> None:
    """Whether or not the value is rounded in sums."""
    found = cluster_share(np.full(1000, value), np.repeat(np.arange(10), 100))
    assert found.ci_method.endswith("rows, 10")


def test_a_share_of_clusters_one_of_which_is_large_is_held_by_its_interval() -> None:
    """Sixty clusters, one with three tenths of the rows: ten effective ones, whose t is longer than that of sixty. The
    interval missed in 36 of these 500 with that of sixty.
    """
    rng, sizes = np.random.default_rng(1), np.r_[254, np.full(59, 10)]
    owner, held = np.repeat(np.arange(60), sizes), 0
    for _ in range(500):
        chance = rng.beta(0.5 / 0.3 - 0.5, 0.5 / 0.3 - 0.5, 60)
        found = cluster_share(rng.random(len(owner)) < chance[owner], owner)
        held += found.ci_lo <= 0.5 <= found.ci_hi
    assert held >= 475


@pytest.mark.parametrize(("clusters", "held"), [(30, 0.82), (40, 0.89), (60, 0.93)])
def test_intervals_miss_one_bad_cluster_in_twenty_as_often_as_it_is_said(clusters: int, held: float) -> None:
    """A limit, not a promise: of the bad ones a sample may hold none; of the rows of the others .9 are good."""
    rng, owner = np.random.default_rng(0), np.repeat(np.arange(clusters), 20)
    found = []
    for _ in range(300):
        good = np.where(rng.random(clusters) < 0.05, 0.0, 0.9)[owner]
        share = cluster_share(rng.random(len(owner)) < good, owner)
        found.append(share.ci_lo <= 0.855 <= share.ci_hi)
    assert np.mean(found) == pytest.approx(held, abs=0.05)


@pytest.mark.parametrize(
    ("clusters", "rows", "status"), [(29, 2, "few_clusters"), (29, 1, "ok"), (6, 1, "ok"), (30, 2, "ok")]
)
def test_few_clusters_of_several_rows_are_said(clusters: int, rows: int, status: str) -> None:
    """One row of each is a sample of independent rows, whose interval is exact."""
    values = np.arange(clusters * rows) % 3 == 0
    assert cluster_share(values, np.repeat(np.arange(clusters), rows)).status == status


@pytest.mark.parametrize("credit", [1e-200, 1e-309, 5e-324])
def test_a_vanishing_credit_is_as_none(credit: float) -> None:
    values, owner = np.zeros(60), np.arange(60) // 2
    none = cluster_share(values, owner)
    values[0] = credit
    some = cluster_share(values, owner)
    assert (some.ci_lo, some.ci_hi) == pytest.approx((none.ci_lo, none.ci_hi), abs=1e-12)
