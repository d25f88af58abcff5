import warnings
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit, logit
from statsmodels.stats.proportion import proportion_confint

from doxascope.metrics import (
    bayes_error,
    bayes_posterior,
    coherent_posterior,
    direction,
    direction_rates,
    grether_regression,
    hybrid_probability,
    py_bounds,
)

inside = st.floats(0.01, 0.99)
PRIOR = [0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.6, 0.6, 0.6, np.nan]
POSTERIOR = [0.7, 0.5, 0.3, 0.6, 0.4, 0.5, 0.4, 0.3, 0.5, 0.7, 0.5]
BAYES = [0.6, 0.6, 0.6, 0.6, 0.6, 0.4, 0.4, 0.4, 0.4, 0.4, 0.5]
LABELS = [
    "over", "under", "incorrect", "exact", "no_update", "spurious",
    "exact", "over", "under", "incorrect", "undefined",
]  # fmt: skip


def test_posterior_and_its_policies() -> None:
    assert bayes_posterior(p_x=0.4, p_y=0.5, p_y_given_x=0.8, policy="raw").v == pytest.approx(0.64)
    above: dict[str, Any] = {"p_x": [0.5, 0.5], "p_y_given_x": [0.9, 0.4], "p_y": [0.3, 0.4]}
    for policy, first in (("raw", 1.5), ("clip", 1.0), ("drop", np.nan)):
        score = bayes_posterior(**above, policy=policy)
        np.testing.assert_allclose(score.v, [first, 0.5])
        assert (score.incoherent.tolist(), score.incoherence_rate) == ([True, False], 0.5)
    assert bayes_posterior(**above).params == {"policy": "clip"}


def test_posterior_without_evidence_mass_is_undefined() -> None:
    score = bayes_posterior(p_x=[0.5, np.nan], p_y_given_x=0.5, p_y=[0.0, 0.5])
    assert np.isnan(score.v).all()
    assert (score.n_dropped, score.status) == (2, "too_few")
    assert np.isnan(coherent_posterior(p_x=0.4, p_y_given_x=0.0, p_y_given_not_x=0.0).posterior)
    with pytest.raises(ValueError, match="policy"):
        bayes_posterior(0.5, 0.5, 0.5, policy="none")
    with pytest.raises(ValueError, match="p_y: "):
        bayes_posterior(0.5, 0.5, 1.5)


@given(inside, inside, inside)
def test_coherent_posterior_is_bayes_with_the_implied_marginal(p_x: float, like: float, like_not: float) -> None:
    score = coherent_posterior(p_x, like, like_not)
    assert bayes_posterior(p_x, like, score.py).v == pytest.approx(score.posterior)
    assert logit(score.posterior) == pytest.approx(logit(p_x) + np.log(like / like_not), abs=1e-9)
    bounds = py_bounds(p_x, like)
    assert bounds.lo - 1e-12 <= score.py <= bounds.hi + 1e-12
    other = coherent_posterior(1 - p_x, like_not, like)
    assert other.posterior == pytest.approx(1 - score.posterior)


@given(inside, inside, inside)
def test_a_marginal_below_its_bound_is_what_makes_the_posterior_exceed_one(p_x: float, like: float, py: float) -> None:
    score = bayes_posterior(p_x, like, py, policy="raw")
    lo = py_bounds(p_x, like).lo
    if abs(py - lo) > 1e-9:
        assert (score.v > 1) == (py < lo) == score.incoherent


def test_hybrid_probability_is_undefined_outside_the_count() -> None:
    np.testing.assert_array_equal(
        hybrid_probability(k=[3, 0, 11, -1, np.nan, 0], n=[10, 10, 10, 10, 10, 0]),
        [0.3, 0, np.nan, np.nan, np.nan, np.nan],
    )


def test_error_is_reported_as_rmse_mae_bias_and_the_norm_of_the_paper() -> None:
    score = bayes_error(posterior=[0.5, 0.9, 0.3, 0.6], bayes=[0.6, 0.7, 0.3, 0.8])
    assert score.rmse == pytest.approx(0.15)
    assert score.mae == pytest.approx(0.125)
    assert score.bias == pytest.approx(-0.025)
    assert score.l2_eq2 == pytest.approx(score.rmse * 2)
    doubled = bayes_error(posterior=[0.5, 0.9, 0.3, 0.6] * 2, bayes=[0.6, 0.7, 0.3, 0.8] * 2)
    assert doubled.rmse == pytest.approx(score.rmse)
    assert doubled.l2_eq2 == pytest.approx(score.l2_eq2 * np.sqrt(2))


def test_error_of_missing_or_incoherent_items() -> None:
    score = bayes_error([0.5, np.nan, 0.9], [1.4, 0.2, np.nan])
    assert (score.n, score.n_dropped, score.rmse) == (1, 2, pytest.approx(0.9))
    empty = bayes_error([np.nan], [0.5])
    assert (empty.status, empty.n) == ("too_few", 0)
    assert np.isnan([empty.rmse, empty.l2_eq2]).all()
    with pytest.raises(ValueError, match="lengths differ"):
        bayes_error([0.5], [0.5, 0.6])
    with pytest.raises(ValueError, match="infinite"):
        bayes_error([0.5], [np.inf])


def test_every_class_of_update() -> None:
    assert direction(PRIOR, POSTERIOR, BAYES, tol=0.0).labels == LABELS


def test_tolerance_applies_in_the_order_of_the_rules() -> None:
    assert direction([0.4], [0.605], [0.6], tol=0.01).labels == ["exact"]
    assert direction([0.4], [0.5], [0.405], tol=0.01).labels == ["spurious"]
    assert direction([0.4], [0.395], [0.6], tol=0.01).labels == ["no_update"]
    assert direction([0.1 + 0.2], [0.5], [0.3]).labels == ["spurious"]
    with pytest.raises(ValueError, match="tol"):
        direction([0.4], [0.5], [0.5], tol=-1)
    with pytest.raises(ValueError, match="shapes differ"):
        direction([0.4], [0.5, 0.6], [0.5])


grid = st.integers(0, 20).map(lambda i: i / 20)


@given(st.lists(st.tuples(grid, grid, grid), min_size=1, max_size=10), st.sampled_from([0.0, 0.05]))
def test_classes_ignore_which_outcome_is_called_x(rows: list, tol: float) -> None:
    prior, posterior, bayes = np.array(rows).T
    labels = direction(prior, posterior, bayes, tol).labels
    assert direction(1 - prior, 1 - posterior, 1 - bayes, tol).labels == labels
    assert direction(prior[::-1], posterior[::-1], bayes[::-1], tol).labels == labels[::-1]


def test_rates_sum_to_one_and_map_to_the_four_of_the_paper() -> None:
    score = direction_rates(prior=PRIOR, posterior=POSTERIOR, bayes=BAYES, tol=0.0)
    rates = {"exact": 0.2, "over": 0.2, "under": 0.2, "no_update": 0.1, "incorrect": 0.2, "spurious": 0.1}
    for name, rate in rates.items():
        assert getattr(score, name) == pytest.approx(rate)
    assert (score.paper_under, score.paper_incorrect) == (pytest.approx(0.3), pytest.approx(0.3))
    assert score.paper_exact + score.paper_over + score.paper_under + score.paper_incorrect == pytest.approx(1)
    assert (score.n, score.n_undefined) == (10, 1)
    assert score.intervals["incorrect"] == pytest.approx(proportion_confint(2, 10, method="wilson"))
    assert (score.ci_lo, score.ci_method) == (score.intervals["incorrect"][0], "Wilson")


def test_repeated_scenarios_widen_the_interval_of_a_rate() -> None:
    times, scenarios = 20, np.arange(11)
    prior, posterior, bayes = (np.repeat(x, times) for x in (PRIOR, POSTERIOR, BAYES))
    clustered = direction_rates(prior, posterior, bayes, groups=scenarios.repeat(times))
    alone = direction_rates(prior, posterior, bayes)
    assert clustered.ci_method == "expanded percentile cluster bootstrap"
    assert clustered.n_clusters == 10
    assert clustered.ci_hi - clustered.ci_lo > 2 * (alone.ci_hi - alone.ci_lo)
    nothing = direction_rates([np.nan], [0.5], [0.5])
    assert (nothing.n, nothing.status) == (0, "too_few")
    assert np.isnan(nothing.incorrect)


def readings(seed: int, n: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return tuple(rng.uniform(0.1, 0.9, (3, n)))  # pyright: ignore[reportReturnType]


def test_a_coherent_bayesian_has_unit_weights() -> None:
    prior, like_x, like_not_x = readings(0)
    posterior = coherent_posterior(prior, like_x, like_not_x).posterior
    score = grether_regression(prior=prior, posterior=posterior, like_x=like_x, like_not_x=like_not_x)
    assert (score.const, score.evidence, score.prior) == pytest.approx((0, 1, 1), abs=1e-9)
    assert (score.status, score.se) == ("perfect_fit", 0)


def test_planted_weights_come_back_with_the_errors_of_statsmodels() -> None:
    prior, like_x, like_not_x = readings(1)
    ratio = np.log(like_x / like_not_x)
    noise = np.random.default_rng(2).normal(0, 0.1, len(prior))
    posterior = expit(0.3 + 0.5 * ratio + 0.8 * logit(prior) + noise)
    scenario = np.arange(60) // 4
    score = grether_regression(prior, posterior, like_x, like_not_x, scenario)
    assert (score.const, score.evidence, score.prior) == pytest.approx((0.3, 0.5, 0.8), abs=0.06)
    design = np.column_stack([np.ones(60), ratio, logit(prior)])
    whole = sm.OLS(logit(posterior), design).fit().params
    left_out = [sm.OLS(logit(posterior[scenario != g]), design[scenario != g]).fit().params - whole for g in range(15)]
    errors = np.sqrt(14 / 15 * np.square(left_out).sum(axis=0))
    assert (score.se_const, score.se, score.se_prior) == pytest.approx(tuple(errors))
    reach = stats.t.ppf(0.975, score.effective_clusters - 1) * errors[1]
    assert (score.ci_lo, score.ci_hi) == pytest.approx((score.evidence - reach, score.evidence + reach))
    assert score.n_clusters == 15 > score.effective_clusters > 8
    # With a row for each cluster it is HC3, but for its factor.
    white = sm.OLS(logit(posterior), design).fit(cov_type="HC3")
    alone = grether_regression(prior, posterior, like_x, like_not_x)
    assert alone.se == pytest.approx(white.bse[1] * np.sqrt(59 / 60))


def test_relabelling_turns_the_constant_and_keeps_the_weights() -> None:
    prior, like_x, like_not_x = readings(3)
    posterior = np.random.default_rng(4).uniform(0.1, 0.9, len(prior))
    plain = grether_regression(prior, posterior, like_x, like_not_x)
    turned = grether_regression(1 - prior, 1 - posterior, like_not_x, like_x)
    assert (turned.const, turned.evidence, turned.prior) == pytest.approx((-plain.const, plain.evidence, plain.prior))


def test_regression_of_degenerate_readings() -> None:
    prior, like_x, like_not_x = readings(5, 8)
    assert grether_regression(np.full(8, 0.4), prior, like_x, like_not_x).status == "collinear"
    few = grether_regression(prior[:2], prior[:2], like_x[:2], like_not_x[:2])
    assert few.status == "too_few"
    assert np.isnan([few.const, few.evidence, few.prior]).all()
    assert grether_regression(prior[:3], like_x[:3], like_x[:3], like_not_x[:3]).status == "no_df"
    extreme = grether_regression(np.r_[prior, 0.0], np.r_[prior, 1.0], np.r_[like_x, 0.5], np.r_[like_not_x, 0.0])
    assert extreme.n_clipped == 3
    assert np.isfinite(extreme.evidence)
    missing = grether_regression(np.r_[prior, np.nan], np.r_[like_x, 0.5], np.r_[like_x, 0.5], np.r_[like_not_x, 0.5])
    assert (missing.n_rows, missing.n_dropped) == (8, 1)


@pytest.mark.parametrize("stated", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("clusters", [None, 5])
def test_a_posterior_that_never_changes_weighs_nothing(stated: float, clusters: int | None) -> None:
    prior, like_x, like_not_x = readings(6, 5_000)
    groups = None if clusters is None else np.arange(5_000) % clusters
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score = grether_regression(prior, np.full(5_000, stated), like_x, like_not_x, groups)
    assert (score.evidence, score.prior, score.se, score.status) == (0, 0, 0, "constant_posterior")
    assert score.const == pytest.approx(logit(max(stated, 1e-6)))
    assert np.isnan(score.r2)


@pytest.mark.parametrize(("n", "status"), [(60, "clipped"), (150, "ok")])
def test_a_regression_bears_one_row_of_a_hundred_at_the_ends(n: int, status: str) -> None:
    prior, like_x, like_not_x, posterior = np.random.default_rng(0).uniform(0.2, 0.8, (4, n))
    posterior[0] = 0
    score = grether_regression(prior, posterior, like_x, like_not_x)
    assert (score.n_clipped, score.status) == (1, status)
