import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from doxascope.metrics import belief_from_logprobs, framing_bias


def test_forms_are_summed_and_the_options_renormalised() -> None:
    belief = belief_from_logprobs(yes=np.log([0.3, 0.1]), no=np.log([0.15, 0.05]))
    assert belief.belief == belief.estimate == pytest.approx(2 / 3)
    assert belief.option_mass == pytest.approx(0.6)
    assert belief.logit == pytest.approx(np.log(2))
    assert (belief.low_coverage, belief.status) == (False, "ok")


@given(st.floats(-60, -0.7), st.floats(-60, -0.7))
def test_identities(yes: float, no: float) -> None:
    belief = belief_from_logprobs([yes], [no])
    assert belief.belief == pytest.approx(expit(belief.logit), abs=1e-12)
    swapped = belief_from_logprobs([no], [yes])
    assert swapped.belief == pytest.approx(1 - belief.belief, abs=1e-12)
    assert swapped.logit == -belief.logit
    split = belief_from_logprobs([yes - np.log(2)] * 2, [no])
    assert (split.belief, split.option_mass) == pytest.approx((belief.belief, belief.option_mass))
    fainter = belief_from_logprobs([yes - 100], [no - 100])
    assert fainter.logit == pytest.approx(belief.logit, abs=1e-9)


def test_far_in_the_tail_the_logit_keeps_what_the_probability_loses() -> None:
    belief = belief_from_logprobs([-0.1], [-900.0])
    assert (belief.belief, belief.logit) == (1.0, pytest.approx(899.9))


def test_an_option_without_mass_is_certain_against_and_two_are_undefined() -> None:
    never = belief_from_logprobs([-np.inf], [np.log(0.9)])
    assert (never.belief, never.logit) == (0, -np.inf)
    assert belief_from_logprobs([np.log(0.9)], [-np.inf, -np.inf]).logit == np.inf
    neither = belief_from_logprobs([-np.inf], [-np.inf])
    assert (neither.status, neither.option_mass, neither.n_dropped) == ("undefined", 0, 1)
    assert np.isnan([neither.belief, neither.logit]).all()
    missing = belief_from_logprobs([np.nan], [-1.0])
    assert np.isnan([missing.belief, missing.option_mass]).all()


def test_a_batch_holds_its_read_outs_and_flags_the_faint_ones() -> None:
    yes, no = np.log([[0.3, 0.3], [0.01, 0.01]]), np.log([[0.3], [0.02]])
    batch = belief_from_logprobs(yes, no)
    for i in range(2):
        one = belief_from_logprobs(yes[i], no[i])
        assert (batch.belief[i], batch.logit[i]) == pytest.approx((one.belief, one.logit))
    assert batch.low_coverage.tolist() == [False, True]
    assert (batch.status, batch.n_rows) == ("low_coverage", 2)


def test_float32_rounding_is_forgiven_and_overlapping_forms_are_not() -> None:
    half = np.log(np.array([0.5], dtype=np.float32))
    whole = belief_from_logprobs(half + np.float32(1e-6), half)
    assert whole.option_mass == 1
    with pytest.raises(ValueError, match=r"sum to 1\.3; they overlap"):
        belief_from_logprobs(np.log([0.6, 0.5]), np.log([0.2]))


@pytest.mark.parametrize(
    ("yes", "no", "message"),
    [
        ([0.3], [-1.0], r"yes: 0\.3 exceeds 0"),
        ([-1.0], [], "no: no surface form"),
        ([[-1.0]], [[-1.0], [-2.0]], "shapes differ"),
    ],
)
def test_malformed_input_is_refused(yes: list, no: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        belief_from_logprobs(yes, no)


def test_framing_bias_is_zero_for_coherent_answers_and_positive_for_a_yes_sayer() -> None:
    p = np.array([0.9, 0.4])
    np.testing.assert_allclose(framing_bias(p, 1 - p), 0, atol=1e-12)
    np.testing.assert_allclose(framing_bias([0.9, 0.4], [0.8, 0.7]), [0.7, 0.1])
