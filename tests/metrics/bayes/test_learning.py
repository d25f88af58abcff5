"""Information processing gap and Bayesian coherence coefficient: by hand, by plain sums, and of planted agents."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr, softmax

from doxascope.metrics import bayes_coherence, information_gap
from doxascope.metrics.scoring.engine import score_table

Write = Callable[..., Path]
seeds = st.integers(0, 10_000)


def learner(seed: int, n: int = 60, k: int = 4, gain: float = 1.0, noise: float = 0.0) -> tuple[np.ndarray, ...]:
    """Prior, log-likelihoods and the posterior of one that weighs the evidence by `gain`."""
    rng = np.random.default_rng(seed)
    prior, loglik = rng.dirichlet(np.full(k, 3.0), n), rng.normal(-20, 1, (n, k))
    return prior, loglik, softmax(np.log(prior) + gain * loglik + noise * rng.normal(size=(n, k)), axis=1)


def test_a_gap_by_hand() -> None:
    """Prior .6, likelihoods .5 and .25: Bayes says .75. Who stays at .6 lacks KL(.6, .75)."""
    found = information_gap([[0.6, 0.4]], np.log([[0.5, 0.25]]), [[0.6, 0.4]])
    assert found.gap[0] == pytest.approx(0.6 * np.log(0.6 / 0.75) + 0.4 * np.log(0.4 / 0.25))
    assert found.change[0] == pytest.approx(0)
    moved = information_gap([[0.6, 0.4]], np.log([[0.5, 0.25]]), [[0.75, 0.25]])
    assert moved.gap[0] == pytest.approx(0, abs=1e-12)
    assert moved.change[0] == pytest.approx(0.75 * np.log(0.75 / 0.6) + 0.25 * np.log(0.25 / 0.4))


def test_a_coefficient_by_hand() -> None:
    """Expected changes ln 2, 0 and -ln 2, observed ones ln 4, 0 and -ln 2: r = 9 / sqrt(84), gradient 3/2."""
    prior = np.full((3, 2), 0.5)
    loglik = np.log([[0.5, 0.25], [0.3, 0.3], [0.2, 0.4]])
    posterior = [[0.8, 0.2], [0.5, 0.5], [1 / 3, 2 / 3]]
    score = bayes_coherence(prior, loglik, posterior)
    assert score.correlation == pytest.approx(9 / np.sqrt(84))
    assert score.gradient == pytest.approx(1.5)
    assert (score.n_rows, score.status) == (3, "few_clusters")


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_a_bayesian_has_no_gap_and_correlates_perfectly_and_who_ignores_does_not(seed: int) -> None:
    whole, half = learner(seed), learner(seed, gain=0.5)
    assert information_gap(*whole).gap == pytest.approx(0, abs=1e-9)
    assert bayes_coherence(*whole).correlation == pytest.approx(1)
    slow = bayes_coherence(*half)  # in proportion: only the gradient and the gap see it
    assert (slow.correlation, slow.gradient) == pytest.approx((1, 0.5))
    assert information_gap(*half).gap.mean() > 0.01
    prior, loglik, _ = whole
    assert bayes_coherence(prior, loglik, prior).status == "no_update"
    deaf = learner(seed, gain=0.0, noise=1.0)
    assert abs(bayes_coherence(*deaf).correlation) < 0.5
    turned = bayes_coherence(*(column[:, ::-1] for column in half))
    assert turned.correlation == pytest.approx(slow.correlation)


def test_tables_over_options_and_of_readings_are_scored_by_plain_sums(table: Write) -> None:
    prior, loglik, posterior = learner(1, k=3, gain=0.7, noise=0.3)
    columns = {f"{name}_{option}": values[:, at] for name, values in (("prior", prior), ("loglik", loglik), ("posterior", posterior)) for at, option in enumerate("abc")}  # fmt: skip  # noqa: E501
    numbers = {number.metric: number.score for number in score_table(table(**columns)).numbers}
    bayes = softmax(np.log(prior) + loglik, axis=1)
    assert numbers["information_gap"].estimate == pytest.approx(rel_entr(posterior, bayes).sum(axis=1).mean())
    observed, expected = np.log(posterior / prior), loglik
    pairs = [(0, 1), (0, 2), (1, 2)]
    x, y = (np.concatenate([values[:, i] - values[:, j] for i, j in pairs]) for values in (expected, observed))
    assert numbers["bcc"].estimate == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert numbers["bcc"].ci_lo < numbers["bcc"].estimate < numbers["bcc"].ci_hi < 1
    rng = np.random.default_rng(2)
    p_x, like, like_not, stated = rng.uniform(0.1, 0.9, (4, 50))
    read = {"p_x": p_x, "p_y": 0.5 * (like + like_not), "p_y_given_x": like, "p_y_given_not_x": like_not, "posterior": stated}  # fmt: skip  # noqa: E501
    readings = {number.metric: number.score for number in score_table(table(**read, name="r.csv")).numbers}
    target = p_x * like / (p_x * like + (1 - p_x) * like_not)
    gap = rel_entr(stated, target) + rel_entr(1 - stated, 1 - target)
    assert readings["information_gap"].estimate == pytest.approx(gap.mean())
    log_odds = np.log(stated / (1 - stated)) - np.log(p_x / (1 - p_x))
    assert readings["bcc"].estimate == pytest.approx(np.corrcoef(np.log(like / like_not), log_odds)[0, 1])


def test_missing_and_sure_beliefs() -> None:
    prior, loglik, posterior = learner(3, k=2)
    prior[0, 0] = np.nan
    posterior[1] = [1, 0]
    score = bayes_coherence(prior, loglik, posterior)
    assert (score.n_dropped, score.n_clipped) == (1, 1)
    gaps = information_gap(prior, loglik, posterior).gap
    assert np.isnan(gaps[0])
    assert np.isfinite(gaps[1:]).all()
    assert bayes_coherence(prior[:2], loglik[:2], posterior[:2]).status == "too_few"


def test_the_interval_of_a_correlation_ends_at_one() -> None:
    x = np.random.default_rng(0).normal(size=8)
    moved = np.r_[x[0] + 0.6, x[1:]]
    posterior = np.column_stack([1 / (1 + np.exp(-moved)), 1 / (1 + np.exp(moved))])
    score = bayes_coherence(np.full((8, 2), 0.5), np.column_stack([x, 0 * x]), posterior)
    assert score.ci_lo < score.correlation < score.ci_hi == 1.0
