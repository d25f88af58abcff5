import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from doxascope.metrics import MARGINS, Resampling, claim_clusters, cluster_mean, coherence_claim, tost, unless_missed
from doxascope.metrics.number import Number
from doxascope.metrics.registration import Registered


def test_it_is_the_larger_of_two_one_sided_tests() -> None:
    test = tost(est=0.004, se=0.006, df=40, lo=-0.02, hi=0.02)
    assert test.p == test.p_upper == pytest.approx(stats.t.sf(0.016 / 0.006, 40))
    assert test.p_lower == pytest.approx(stats.t.sf(0.024 / 0.006, 40))
    assert test.p == pytest.approx(0.005500998662151048)
    assert test.equivalent is True


def test_it_agrees_with_statsmodels_on_data() -> None:
    x = np.random.default_rng(0).normal(0.01, 0.1, 30)
    reference = DescrStatsW(x).ttost_mean(-0.05, 0.05)[0]
    ours = tost(x.mean(), x.std(ddof=1) / np.sqrt(30), 29, -0.05, 0.05)
    assert ours.p == pytest.approx(reference)


@pytest.mark.parametrize("est", np.linspace(-0.04, 0.04, 17))
def test_equivalent_means_that_the_ninety_percent_interval_lies_within(est: float) -> None:
    test = tost(est, 0.01, np.inf, -0.03, 0.03)
    assert test.equivalent == (test.ci_lo > -0.03 and test.ci_hi < 0.03)
    mirrored = tost(-est, 0.01, np.inf, -0.03, 0.03)
    assert mirrored.p == pytest.approx(test.p)
    assert test.ci_hi - est == pytest.approx(1.6448536269514722 * 0.01)


@pytest.mark.parametrize(
    ("est", "se", "df", "status"),
    [
        (0.0, 0.0, 5, "zero_se"),
        (np.nan, 0.1, 5, "undefined"),
        (0.0, np.nan, 5, "undefined"),
        (0.0, 0.1, 0, "no_df"),
    ],
)
def test_without_an_error_nothing_is_claimed(est: float, se: float, df: float, status: str) -> None:
    test = tost(est, se, df, -0.02, 0.02)
    assert (test.status, test.equivalent) == (status, False)
    assert np.isnan(test.p)


def test_malformed_bounds_are_refused_and_the_default_margins_are_positive() -> None:
    with pytest.raises(ValueError, match="give lo < hi"):
        tost(0, 0.1, 5, 0.02, 0.02)
    with pytest.raises(ValueError, match=r"se: -0\.1 is negative"):
        tost(0, -0.1, 5, -0.02, 0.02)
    with pytest.raises(ValueError, match="alpha"):
        tost(0, 0.1, 5, -0.02, 0.02, alpha=0.5)
    assert all(margin > 0 for margin in MARGINS.values())
    assert MARGINS["martingale"] == 0.02


def test_coherence_is_claimed_only_with_a_bound_and_clusters_enough() -> None:
    rng = np.random.default_rng(0)
    small = rng.uniform(0, 0.004, 400)
    good = coherence_claim(small, None, 0.01)
    assert (good.claimed, good.needed_clusters, good.failures) == (True, 300, ())
    assert good.lower < 0 < good.mean < good.upper < 0.003
    assert good.lower == -np.inf  # what is never below 0 has no lower bound to keep
    few = coherence_claim(small[:100], None, 0.01)
    assert (few.claimed, few.failures) == (False, ("clusters",))
    assert coherence_claim(small[:100], None, 0.01, worst=0.3).claimed
    large = coherence_claim(small + 0.009, None, 0.01)
    assert large.failures == ("upper",)
    one_bad = coherence_claim(np.r_[np.zeros(399), 1.0], None, 0.01)
    assert (one_bad.upper, one_bad.claimed, one_bad.largest_share) == (np.inf, False, 1)
    assert coherence_claim([], [], 0.01).status == "too_few"


def test_one_large_cluster_that_is_coherent_claims_nothing_of_sixty_that_are_not() -> None:
    """Nearly all rows are of one conversation: their mean is its, and as good as one cluster carries it."""
    clusters = np.r_[np.zeros(10_000), np.arange(1, 61)]
    loss = np.r_[np.random.default_rng(0).uniform(0, 0.002, 10_000), np.full(60, 0.5)]
    found = coherence_claim(loss, clusters, 0.05)
    assert (found.claimed, found.failures, found.status) == (False, ("clusters",), "few_effective_clusters")
    plan = Registered(metric="loss", method="a", n=61, margin=0.05)
    assert plan.equivalence(Number(metric="loss", method="a", score=cluster_mean(loss, clusters))) is None
    sizes = np.repeat([40, 1], [40, 160])  # 200 clusters, of which as many as 48 carry the mean
    owner = np.repeat(np.arange(200), sizes)
    small = np.random.default_rng(1).uniform(0, 0.002, len(owner))
    unequal = cluster_mean(small, owner)
    assert unequal.effective_clusters == pytest.approx(sizes.sum() ** 2 / (sizes**2).sum())
    assert not coherence_claim(small, owner, 0.05).claimed
    test = plan.equivalence(Number(metric="loss", method="a", score=unequal))
    assert test is not None
    assert not test.equivalent
    assert coherence_claim(np.repeat(small[:200], 5), np.repeat(np.arange(200), 5), 0.05).claimed


def test_what_hardly_varies_is_claimed_only_where_what_is_off_would_have_been_sampled() -> None:
    """One unit in twenty is off by 1, at the margin: a sample of 36 has none in one case of six."""
    claimed = {True: 0, False: 0}
    for seed in range(400):
        rng = np.random.default_rng(seed)
        x = np.where(rng.random(36) < 0.05, 1.0, rng.normal(0, 0.01, 36))
        plain = tost(x.mean(), x.std(ddof=1) / 6, 35, -0.05, 0.05)
        claimed[False] += plain.equivalent
        claimed[True] += unless_missed(plain, 36).equivalent
    assert claimed[False] > 40
    assert claimed[True] == 0
    one = tost(1 / 72, 1 / 72, 71, -0.05, 0.05)  # one of 72 was seen, where one in twenty may be off
    assert one.equivalent
    assert unless_missed(one, 72).p == pytest.approx(stats.binom.cdf(1, 72, 0.05))
    sure = tost(0.0, 0.001, 99, -0.05, 0.05)
    assert unless_missed(sure, 58).p > 0.05 > unless_missed(sure, 59).p == pytest.approx(0.95**59)
    assert unless_missed(sure, 5, worst=0.04) == sure  # no unit can be off by the margin
    assert (claim_clusters(0.05), claim_clusters(0.1, 27.631)) == (60, 829)
    assert np.isnan(unless_missed(tost(np.nan, 1, 5, -1, 1), 5).p)


def test_a_deviation_has_two_sides_and_rows_of_a_cluster_are_one() -> None:
    rng = np.random.default_rng(1)
    clusters = np.repeat(np.arange(40), 5)
    deviation = rng.normal(0, 0.1, 40)[clusters] + rng.normal(0, 0.05, 200)
    claim = coherence_claim(deviation, clusters, 0.1, bounded_below=False)
    assert claim.claimed
    assert -0.1 < claim.lower < claim.mean < claim.upper < 0.1
    assert coherence_claim(deviation - 0.09, clusters, 0.1, bounded_below=False).failures == ("lower",)
    assert not coherence_claim(deviation, clusters, 0.02, bounded_below=False).claimed
    alone = coherence_claim(deviation, None, 0.1, bounded_below=False)
    assert claim.upper - claim.mean > 1.5 * (alone.upper - alone.mean)
    with pytest.raises(ValueError, match="is negative; a deviation"):
        coherence_claim([-0.1, 0.1], None, 0.1)
    with pytest.raises(ValueError, match="margin, worst"):
        coherence_claim([0.1], None, 0)


def test_a_claim_is_false_no_more_often_than_it_says() -> None:
    """Losses whose true mean is the margin, skewed as squares are."""
    claimed = 0
    for seed in range(400):
        loss = 0.05 * np.random.default_rng(seed).chisquare(1, 80)
        claimed += coherence_claim(loss, None, 0.05, worst=1.0, how=Resampling(draws=399)).claimed
    assert claimed / 400 < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 400)


def test_a_mean_says_who_makes_it() -> None:
    values, clusters = np.r_[np.ones(30), np.zeros(30)], np.r_[np.zeros(30), np.arange(1, 31)].astype(int)
    made = cluster_mean(values, clusters)
    assert (made.mean, made.equal_weight_mean, made.largest_share) == pytest.approx((0.5, 1 / 31, 1))
    assert made.ci_method.startswith("expanded percentile cluster bootstrap")  # one cluster holds half of the rows
