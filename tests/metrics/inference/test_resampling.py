import tracemalloc

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from doxascope.metrics import Resampling, bootstrap_moments, bootstrap_rows, cluster_mean
from doxascope.metrics.inference.clusters import resamples_at_once


def clustered(seed: int, n_clusters: int, sigma: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, n_clusters)
    clusters = np.repeat(np.arange(n_clusters), sizes)
    values = rng.normal(0, sigma, n_clusters)[clusters] + rng.normal(size=len(clusters))
    return values, clusters


def test_moments_and_rows_draw_the_same_resamples() -> None:
    values, clusters = clustered(0, 15)
    fast = bootstrap_moments(
        np.column_stack([values, np.ones_like(values)]),
        clusters,
        lambda s: s[:, 0] / s[:, 1],
        how=Resampling(seed=3, draws=50),
    )
    plain = bootstrap_rows(lambda rows: values[rows].mean(), clusters, how=Resampling(seed=3, draws=50))
    np.testing.assert_allclose(fast, plain, rtol=1e-12)


def test_many_clusters_are_drawn_in_smaller_blocks_and_the_same_ones() -> None:
    """20,001 clusters do not fit 256 times: the reference draws all resamples at once."""
    n, draws = 20_001, 250
    assert resamples_at_once(n) < draws / 2
    values = np.random.default_rng(0).normal(size=n)
    tracemalloc.start()
    fast = bootstrap_moments(values[:, None], np.arange(n), lambda s: s[:, 0] / n, how=Resampling(seed=4, draws=draws))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    picks = np.random.default_rng(4).integers(0, n, size=(draws, n))
    np.testing.assert_allclose(fast, values[picks].mean(axis=1), rtol=0, atol=1e-12)
    assert peak < 2 * picks.nbytes


def test_standard_error_is_the_clustered_one_of_a_regression_on_a_constant() -> None:
    values, clusters = clustered(1, 20)
    fit = sm.OLS(values, np.ones((len(values), 1))).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    score = cluster_mean(values, clusters)
    assert score.mean == pytest.approx(fit.params[0])
    assert score.se == pytest.approx(fit.bse[0], rel=1e-9)


def test_the_interval_covers_at_its_level_when_clusters_are_the_unit() -> None:
    covered = [
        s.ci_lo <= 0 <= s.ci_hi
        for s in (cluster_mean(*clustered(seed, 40), how=Resampling(seed=seed, draws=400)) for seed in range(300))
    ]
    assert 0.90 <= np.mean(covered) <= 0.98


def test_ignoring_the_clusters_would_be_too_narrow() -> None:
    values, clusters = clustered(2, 40, sigma=3.0)
    by_cluster = cluster_mean(values, clusters)
    by_row = cluster_mean(values, np.arange(len(values)))
    assert by_cluster.se > 1.5 * by_row.se


def test_strata_weigh_the_same_whatever_their_size() -> None:
    values, clusters = clustered(4, 25)
    strata = np.where(np.arange(len(values)) % 3 == 0, "small", "large")
    score = cluster_mean(values, clusters, strata=strata, how=Resampling(seed=5, draws=300))
    small, large = (values[strata == name] for name in ("small", "large"))
    assert score.mean == pytest.approx((small.mean() + large.mean()) / 2)

    def balanced(rows: np.ndarray) -> float:
        return float(np.mean([values[rows][strata[rows] == name].mean() for name in ("small", "large")]))

    plain = bootstrap_rows(balanced, clusters, how=Resampling(seed=5, draws=300))
    reach = np.sqrt(25 / 24) * stats.t.ppf(0.975, 24)
    expanded = np.quantile(plain, stats.norm.cdf([-reach, reach]))
    by_t = score.mean + np.array([-1, 1]) * stats.t.ppf(0.975, 24) * score.se
    assert (score.ci_lo, score.ci_hi) == pytest.approx((min(expanded[0], by_t[0]), max(expanded[1], by_t[1])))
    assert score.se == pytest.approx(plain.std(), rel=0.15)


def test_few_clusters_get_a_t_interval_and_one_gets_none() -> None:
    few = cluster_mean([0.0, 1.0, 2.0, 3.0], ["a", "a", "b", "c"])
    assert few.ci_method == "t over 3 clusters"
    one = cluster_mean([0.0, 1.0], ["a", "a"])
    assert (one.status, one.mean) == ("one_cluster", 0.5)
    assert np.isnan([one.se, one.ci_lo]).all()


def test_undefined_rows_are_dropped_and_counted() -> None:
    score = cluster_mean([0.1, np.nan, 0.3], ["a", "a", "b"])
    assert (score.mean, score.n_rows, score.n_dropped) == (pytest.approx(0.2), 2, 1)
    assert score.reasons == {"undefined": 1}
    empty = cluster_mean([np.nan], ["a"])
    assert empty.status == "too_few"
    assert np.isnan(empty.mean)


@pytest.mark.parametrize("clusters", [["a", None, "b"], [0.0, np.nan, 1.0], ["a", "b"]])
def test_a_missing_cluster_is_refused(clusters: list[object]) -> None:
    with pytest.raises(ValueError, match="clusters"):
        cluster_mean([1.0, 2.0, 3.0], np.array(clusters, dtype=object))


@pytest.mark.parametrize(("n_clusters", "shape"), [(20, "normal"), (36, "skewed")])
def test_intervals_of_few_or_skewed_clusters_miss_no_more_than_they_say(n_clusters: int, shape: str) -> None:
    truth = 0.0 if shape == "normal" else 1.0
    missed = []
    for seed in range(600):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=n_clusters) if shape == "normal" else rng.exponential(size=n_clusters)
        score = cluster_mean(values, np.arange(n_clusters), how=Resampling(seed=seed, draws=400))
        missed.append(not score.ci_lo <= truth <= score.ci_hi)
    assert np.mean(missed) < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 600)
