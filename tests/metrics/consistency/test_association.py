import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxascope.metrics import calibration_consistency, invalid_association, jsd, readout_agreement

share = st.floats(0, 1)
FIELDS = ("norm_prior", "norm_post", "wnorm_prior", "wnorm_post", "increase_rate", "pearson", "spearman")


def test_agreement_of_two_readouts() -> None:
    free, closed = [0.7, 0.3], [0.9, 0.1]
    mix = 0.8
    h = lambda p: -p * np.log2(p) - (1 - p) * np.log2(1 - p)  # noqa: E731
    assert readout_agreement(free=free, closed=closed) == pytest.approx(1 - h(mix) + (h(0.7) + h(0.9)) / 2)
    assert calibration_consistency is readout_agreement
    assert np.isnan(readout_agreement([np.nan, np.nan], closed))


@given(share, share)
def test_agreement_ignores_which_readout_and_which_option_comes_first(a: float, b: float) -> None:
    free, closed = np.array([a, 1 - a]), np.array([b, 1 - b])
    agreement = readout_agreement(free, closed)
    assert agreement == pytest.approx(readout_agreement(closed, free), abs=1e-12)
    assert agreement == pytest.approx(readout_agreement(free[::-1], closed[::-1]), abs=1e-12)
    assert agreement == pytest.approx(1 - float(jsd(free, closed)))


def test_weighted_shares_and_increase_rate() -> None:
    score = invalid_association(prior_norm=[0.6, 0.3, 0.1], post_norm=[0.09, 0.03, 0.0])
    assert score.norm_prior == pytest.approx(1 / 3)
    assert score.norm_post == pytest.approx(0.04)
    assert score.wnorm_prior == pytest.approx(0.063 / 0.12)
    assert score.wnorm_post == pytest.approx(0.063)
    assert score.increase_rate == pytest.approx(1.575)
    assert score.pearson == pytest.approx(np.corrcoef([0.6, 0.3, 0.1], [0.09, 0.03, 0.0])[0, 1])
    assert score.spearman == 1


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)), min_size=3, max_size=8), st.randoms())
def test_increase_rate_is_one_plus_relative_covariance_and_symmetric(rows: list, shuffler: object) -> None:
    a, b = np.array(rows).T
    plain = invalid_association(a, b)
    assert plain.increase_rate == pytest.approx(1 + np.cov(a, b, ddof=0)[0, 1] / (a.mean() * b.mean()))
    assert plain.increase_rate == pytest.approx(invalid_association(b, a).increase_rate)
    assert plain.increase_rate == pytest.approx(plain.wnorm_prior / plain.norm_prior)
    order = np.random.default_rng(0).permutation(len(a))
    moved = invalid_association(a[order], b[order])
    for name in FIELDS:
        assert getattr(moved, name) == pytest.approx(getattr(plain, name), abs=1e-9, nan_ok=True)


def test_a_rejected_option_that_never_returns() -> None:
    score = invalid_association([0.5, 0.2], [0.0, 0.0])
    assert (score.wnorm_post, score.status) == (0.0, "never_after")
    assert np.isnan([score.wnorm_prior, score.increase_rate, score.pearson, score.spearman]).all()
    other = invalid_association([0.0, 0.0], [0.5, 0.2])
    assert (other.wnorm_prior, other.status) == (0.0, "never_before")
    assert np.isnan([other.wnorm_post, other.increase_rate]).all()


def test_constant_missing_and_malformed_shares() -> None:
    constant = invalid_association([0.2, 0.2], [0.1, 0.3])
    assert (constant.status, constant.increase_rate) == ("constant", pytest.approx(1))
    assert np.isnan(constant.pearson)
    partial = invalid_association([0.2, np.nan, 0.4], [0.1, 0.3, 0.2])
    assert (partial.n_rows, partial.n_dropped, partial.reasons) == (2, 1, {"undefined": 1})
    empty = invalid_association([np.nan], [0.1])
    assert empty.status == "too_few"
    assert np.isnan([getattr(empty, name) for name in FIELDS]).all()
    with pytest.raises(ValueError, match="lengths differ"):
        invalid_association([0.2], [0.1, 0.3])
    with pytest.raises(ValueError, match="not a probability"):
        invalid_association([1.2], [0.1])
