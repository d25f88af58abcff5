import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from doxascope.metrics import licensed_excess, licensed_posterior

inside = st.floats(0.02, 0.98)


def test_testimony_of_known_reliability() -> None:
    found = licensed_posterior([0.3, 0.5, 0.9], [0.8, 0.5, 0.6], [0.2, 0.5, 0.1])
    assert found.posterior == pytest.approx([0.631578947368421, 0.5, 0.9818181818181818])


@given(inside, inside, inside)
def test_it_is_bayes_on_the_log_odds_and_two_witnesses_are_one_after_the_other(p: float, yes: float, no: float) -> None:
    once = licensed_posterior(p, yes, no).posterior
    assert once == pytest.approx(expit(logit(p) + np.log(yes / no)))
    assert licensed_posterior(1 - p, no, yes).posterior == pytest.approx(1 - once)
    twice = licensed_posterior(once, yes, no).posterior
    assert twice == pytest.approx(licensed_posterior(p, yes**2, no**2).posterior)


def test_a_likelihood_of_zero_licenses_nothing() -> None:
    found = licensed_posterior([0.3, 0.3, 0.3, 1.0], [0.0, 0.5, 0.5, 0.5], [0.5, 0.0, 0.5, 0.5])
    assert np.isnan(found.posterior).tolist() == [True, True, False, False]
    assert (found.n_dropped, found.posterior[3]) == (2, 1)
    assert licensed_posterior(0.5, 0.0, 0.5).status == "undefined"


def test_sycophancy_is_what_the_user_gets_beyond_the_agent() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(0, 1, 40)
    licensed = base + 0.5
    user, agent = licensed + np.where(np.arange(40) < 20, 0.8, 0.0) + 0.1, licensed + 0.1
    score = licensed_excess(*map(expit, (user, licensed, agent, licensed)))
    assert (score.sycophancy, score.excess_user, score.excess_agent) == pytest.approx((0.4, 0.5, 0.1))
    assert score.share_moved == 0.5
    assert score.ci_lo > 0
    assert score.p < 0.01
    assert licensed_excess([np.nan], [0.5], [0.5], [0.5]).status == "too_few"
