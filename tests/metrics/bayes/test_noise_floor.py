from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doxascope.metrics import (
    Resampling,
    bayes_error,
    bayes_noise_floor,
    bayes_posterior,
    coherent_posterior,
    direction_rates,
)

Four = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def each(change: Callable[[np.ndarray], np.ndarray], four: Four) -> Four:
    a, b, c, d = map(change, four)
    return a, b, c, d


def agent(n: int, seed: int = 0) -> Four:
    """P(X), P(Y|X), P(Y) and posterior [n] of a perfect Bayesian."""
    rng = np.random.default_rng(seed)
    p_x, like, like_not = rng.uniform(0.1, 0.9, (3, n))
    coherent = coherent_posterior(p_x, like, like_not)
    return p_x, like, np.asarray(coherent.py), np.asarray(coherent.posterior)


def read(truth: Four, sd: float, r: int, seed: int) -> Four:
    rng = np.random.default_rng(seed)
    return each(lambda x: np.clip(x[:, None] + rng.normal(0, sd, (len(x), r)), 0, 1), truth)


def test_small_noise_is_propagated_as_the_derivatives_say() -> None:
    truth, sd = agent(300), 0.002
    p_x, like, marginal, posterior = truth
    # P* = l x / m: dP* = (x dl + l dx - P* dm) / m, and the posterior adds its own noise.
    expected = sd * np.sqrt(np.mean(1 + (p_x**2 + like**2 + posterior**2) / marginal**2))
    floor = bayes_noise_floor(*read(truth, sd, 5, 1))
    assert floor.sd == pytest.approx(dict.fromkeys(floor.sd, sd), rel=0.1)
    assert floor.rmse == pytest.approx(expected, rel=0.1)
    assert (floor.status, floor.n_rows) == ("ok", 300)


@pytest.mark.parametrize("sd", [0.05, 0.1])
def test_a_perfect_bayesian_is_found_at_its_floor(sd: float) -> None:
    truth = agent(2000)
    readings = read(truth, sd, 4, 2)
    floor = bayes_noise_floor(*readings, how=Resampling(draws=20))
    p_x, like, marginal, posterior = (x[:, 0] for x in readings)
    target = bayes_posterior(p_x, like, marginal)
    seen = bayes_error(posterior, target.v, how=Resampling(draws=2))
    assert floor.rmse == pytest.approx(seen.rmse, rel=0.1)
    assert floor.mae == pytest.approx(seen.mae, rel=0.1)
    assert floor.incorrect == pytest.approx(
        direction_rates(p_x, posterior, target.v, how=Resampling(draws=2)).incorrect, abs=0.03
    )
    assert floor.incoherence_rate == pytest.approx(target.incoherence_rate, abs=0.03)


def test_what_is_read_without_noise_has_no_floor() -> None:
    readings = each(lambda x: np.repeat(x[:, None], 2, axis=1), agent(20))
    floor = bayes_noise_floor(*readings, tol=1e-9)
    assert (floor.rmse, floor.incorrect, floor.incoherence_rate) == pytest.approx((0, 0, 0), abs=1e-12)


def test_a_stated_marginal_that_cannot_be_is_no_noise() -> None:
    # P(X) .5 and P(Y|X) .8 need P(Y) of .4 or more; .1 is an error of the agent, which a perfect one does not make.
    p_x, like, marginal, posterior = (np.full((5, 2), x) for x in (0.5, 0.8, 0.1, 0.5))
    floor = bayes_noise_floor(p_x, like, marginal, posterior)
    assert (floor.rmse, floor.incoherence_rate) == (0, 0)


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(12)), st.permutations(range(3)))
def test_noise_does_not_depend_on_the_order_of_items_or_readings(items: list[int], readings: list[int]) -> None:
    data = read(agent(12), 0.1, 3, 3)
    plain = bayes_noise_floor(*data, how=Resampling(draws=1)).sd
    turned = bayes_noise_floor(*each(lambda x: x[items][:, readings], data), how=Resampling(draws=1)).sd
    assert turned == pytest.approx(plain)


def test_degenerate_readings() -> None:
    data = read(agent(6), 0.1, 3, 4)
    once = bayes_noise_floor(*each(lambda x: x[:, :1], data))
    assert (once.status, np.isnan(once.rmse)) == ("no_replicates", True)
    lost = each(np.copy, data)
    lost[2][0] = np.nan
    lost[3][1, 0] = np.nan
    floor = bayes_noise_floor(*lost)
    assert (floor.n_rows, floor.n_dropped, floor.status) == (5, 1, "ok")
    assert bayes_noise_floor(*each(lambda x: x * np.nan, data)).status == "too_few"
    with pytest.raises(ValueError, match="readings of each"):
        bayes_noise_floor(*each(lambda x: x[:, 0], data))
    with pytest.raises(ValueError, match="shapes differ"):
        bayes_noise_floor(data[0][:5], *data[1:])
