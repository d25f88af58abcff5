import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from scipy.special import logit

from doxascope.metrics import query_effect

beliefs = arrays(float, 6, elements=st.floats(0, 1))


def test_effect_interval_and_p_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    passive, queried = rng.uniform(0.1, 0.9, (2, 8))
    score = query_effect(passive, queried)
    reference = stats.ttest_rel(queried, passive)
    assert score.effect == pytest.approx(np.mean(queried - passive))
    assert (score.ci_lo, score.ci_hi) == pytest.approx(tuple(reference.confidence_interval()))
    flips = stats.permutation_test([queried - passive], np.mean, permutation_type="samples", n_resamples=2**8)
    assert score.p == pytest.approx(flips.pvalue)
    assert score.rms == pytest.approx(np.sqrt(np.mean((queried - passive) ** 2)))
    assert score.logit_effect == pytest.approx(np.mean(logit(queried) - logit(passive)))


@given(beliefs, beliefs)
def test_relabelling_turns_the_sign_and_exchange_does_too(passive: np.ndarray, queried: np.ndarray) -> None:
    passive, queried = passive.round(6), queried.round(6)  # the complement of 1e-24 is 1
    plain = query_effect(passive, queried)
    for other in (query_effect(1 - passive, 1 - queried), query_effect(queried, passive)):
        assert (other.effect, other.rms) == pytest.approx((-plain.effect, plain.rms), abs=1e-9)
        assert other.logit_effect == pytest.approx(-plain.logit_effect, abs=1e-6)
        assert other.p == pytest.approx(plain.p)


def test_copies_within_items_are_no_evidence() -> None:
    rng = np.random.default_rng(1)
    passive, queried = rng.uniform(size=(2, 8))
    once = query_effect(passive, queried)
    thrice = query_effect(np.repeat(passive, 3), np.repeat(queried, 3), np.repeat(np.arange(8), 3))
    assert (thrice.effect, thrice.ci_lo, thrice.p) == pytest.approx((once.effect, once.ci_lo, once.p))


def test_degenerate_beliefs() -> None:
    assert query_effect([np.nan], [0.5]).status == "too_few"
    one = query_effect([0.2, 0.3], [0.3, 0.5], ["a", "a"])
    assert (one.status, one.effect, np.isnan(one.ci_lo)) == ("one_cluster", pytest.approx(0.15), True)
    ends = query_effect([0.0, 0.5, np.nan], [1.0, 0.5, 0.5])
    assert (ends.n_clipped, ends.n_rows, ends.n_dropped) == (2, 2, 1)
    assert np.isfinite(ends.logit_effect)
    with pytest.raises(ValueError, match=r"passive: 1\.5"):
        query_effect([1.5], [0.5])
    with pytest.raises(ValueError, match="lengths differ"):
        query_effect([0.5, 0.5], [0.5])
