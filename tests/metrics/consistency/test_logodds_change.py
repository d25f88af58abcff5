import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logit

from doxascope.metrics import belief_consistency, ratio_bounds, rms_logodds_change

mass = st.floats(0.05, 1)


def test_the_clipped_ones_are_counted() -> None:
    score = rms_logodds_change([0.5, 0.2, 1e-9, 0.9], [0.6, 0.2, 0.01, 0.99])
    assert (score.rms, score.n_clipped) == (pytest.approx(4.767858273308999), 1)
    assert rms_logodds_change([0.5, 0.2, 1e-9, 0.9], [0.6, 0.2, 0.01, 0.99], eps=1e-3).rms < score.rms


def test_it_sees_what_the_divergence_forgives() -> None:
    prior, post = [1e-6, 1 - 1e-6, 0.0], [0.01, 0.99, 0.0]
    assert belief_consistency(prior, post, 2).c2 > 0.99
    assert rms_logodds_change(1e-6, 0.01).rms == pytest.approx(logit(0.01) - logit(1e-6))


def test_interval_is_over_items_and_degenerate_ones_are_named() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (30, 3))
    y = x + rng.normal(0, 1, (30, 1))
    prior, post = (1 / (1 + np.exp(-z)).ravel() for z in (x, y))
    items = np.repeat(np.arange(30), 3)
    score = rms_logodds_change(prior, post, items)
    assert score.rms == pytest.approx(np.sqrt(np.mean((x - y) ** 2)))
    assert score.ci_lo < score.rms < score.ci_hi
    assert rms_logodds_change(prior, post).ci_hi - score.rms < score.ci_hi - score.rms
    assert (score.n_clusters, score.ci_method) == (30, "root of a studentised cluster bootstrap")
    assert rms_logodds_change([np.nan], [0.5]).status == "too_few"
    assert rms_logodds_change(0.5, 0.6).status == "one_cluster"


@given(mass, mass, mass, mass, st.floats(0.1, 0.9), st.floats(0.1, 0.9))
def test_bounds_are_those_of_every_split_of_what_is_left(
    a: float, b: float, c: float, d: float, cover: float, cover_post: float
) -> None:
    prior = np.array([a, b, 0.1]) / (a + b + 0.1) * cover
    post = np.array([c, d, 0.1]) / (c + d + 0.1) * cover_post
    bounds = ratio_bounds(prior, post, 2)
    splits = np.linspace(0, 1, 201)
    before = (prior[0] + splits * (1 - cover)) / (prior[:2].sum() + 1 - cover)
    after = (post[0] + splits * (1 - cover_post)) / (post[:2].sum() + 1 - cover_post)
    assert (bounds.prior_lo, bounds.prior_hi) == pytest.approx((before.min(), before.max()))
    assert (bounds.post_lo, bounds.post_hi) == pytest.approx((after.min(), after.max()))
    change = np.abs(logit(after)[:, None] - logit(before))
    assert bounds.rms_hi == pytest.approx(change.max())
    assert bounds.rms_lo <= change.min() + 1e-12
    assert bounds.rms_lo == pytest.approx(change.min(), abs=0.1)


def test_full_coverage_identifies_the_ratio() -> None:
    rng = np.random.default_rng(1)
    prior, post = rng.dirichlet(np.ones(3), (2, 20))
    rejected = rng.integers(0, 3, 20)
    found = belief_consistency(prior, post, rejected)
    bounds = ratio_bounds(prior, post, rejected)
    exact = rms_logodds_change(found.prior2[:, 0], found.post2[:, 0]).rms
    assert (bounds.rms_lo, bounds.rms_hi) == pytest.approx((exact, exact))
    assert np.isnan(ratio_bounds([0, 0, 1.0], [0.2, 0.2, 0.6], 2).rms_lo)
    with pytest.raises(ValueError, match="more than 1"):
        ratio_bounds([0.5, 0.5, 0.5], [0.2, 0.2, 0.6], 2)
    with pytest.raises(ValueError, match="not 0, 1 or 2"):
        ratio_bounds([0.5, 0.2, 0.1], [0.2, 0.2, 0.6], 3)
