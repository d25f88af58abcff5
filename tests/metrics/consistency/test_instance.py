import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from doxascope.metrics import (
    belief_consistency,
    counts_to_probabilities,
    entropy_bits,
    exclusion_bounds,
    jsd,
    switch,
)

positive = st.floats(1e-6, 1.0)
triple = arrays(float, 3, elements=positive).map(lambda x: x / x.sum())
share = st.floats(0.0, 1.0)


def pair(a: float) -> np.ndarray:
    return np.array([a, 1 - a])


def jsd_by_mixture_entropy(p: np.ndarray, q: np.ndarray) -> float:
    """An independent form: the entropy of the mixture less the mean entropy."""
    return float(entropy_bits((p + q) / 2) - (entropy_bits(p) + entropy_bits(q)) / 2)


def test_counts_become_frequencies_with_the_error_class() -> None:
    np.testing.assert_allclose(counts_to_probabilities([2400, 1600, 900, 100]), [0.48, 0.32, 0.18, 0.02])
    assert np.isnan(counts_to_probabilities([0, 0, 0, 0])).all()
    with pytest.raises(ValueError, match="negative"):
        counts_to_probabilities([1, -1, 3])


def test_jsd_known_values() -> None:
    assert jsd([1, 0], [0.5, 0.5]) == pytest.approx(1.5 - 0.75 * np.log2(3), abs=1e-12)
    assert jsd([1, 0], [0, 1]) == pytest.approx(1.0)
    assert jsd([0.3, 0.7], [0.3, 0.7]) == 0
    tiny = 5e-324
    assert jsd([tiny, 1 - tiny], [0.0, 1.0]) == pytest.approx(0, abs=1e-300)


def test_jsd_refuses_mass_that_belongs_to_no_option() -> None:
    with pytest.raises(ValueError, match="sums to"):
        jsd([0.5, 0.3], [0.5, 0.5])


@given(triple, triple)
def test_jsd_is_symmetric_bounded_and_equals_the_entropy_form(p: np.ndarray, q: np.ndarray) -> None:
    assert jsd(p, q) == pytest.approx(jsd(q, p), abs=1e-12)
    assert 0 <= jsd(p, q) <= 1
    assert jsd(p, q) == pytest.approx(jsd_by_mixture_entropy(p, q), abs=1e-12)


@given(share, share)
def test_two_class_jsd_lies_between_its_quadratic_and_linear_bounds(a: float, b: float) -> None:
    gap = abs(a - b)
    assert gap**2 / (2 * np.log(2)) - 1e-12 <= jsd(pair(a), pair(b)) <= gap + 1e-12


def test_a_kept_ratio_is_consistent_and_the_leak_is_all_that_is_missing_from_c3() -> None:
    score = belief_consistency(prior=[0.5, 0.3, 0.2], post=[0.6, 0.36, 0.04], rejected=2)
    assert score.c2 == pytest.approx(1)
    assert score.estimate == score.c2
    assert score.c3 == pytest.approx(0.9797055519993868)
    assert 1 - score.c3 == pytest.approx(score.leak)
    assert score.switch == pytest.approx(0.46875)
    assert score.hswitch == pytest.approx(0, abs=1e-12)
    assert score.p_invalid_raw == score.p_invalid_norm == pytest.approx(0.04)
    assert score.included_paper is True


def test_error_mass_stays_out_of_the_two_class_score_and_in_the_raw_probability() -> None:
    score = belief_consistency(prior=[0.05, 0.03, 0.02], post=[0.03, 0.018, 0.002], rejected=2)
    assert score.c2 == pytest.approx(1)
    assert score.p_invalid_raw == pytest.approx(0.002)
    assert score.p_invalid_norm == pytest.approx(0.04)
    assert (score.p_error_prior, score.p_error_post) == pytest.approx((0.9, 0.95))


def test_errors_are_those_of_both_options_after_each_is_normalised() -> None:
    score = belief_consistency([0.5, 0.3, 0.2], [0.2, 0.3, 0.1], 2)  # .625 and .375 before, .4 and .6 after
    assert (score.mse, score.mae) == pytest.approx((0.225**2, 0.225))


def test_no_mass_on_the_two_options_is_undefined_but_the_side_that_exists_keeps_its_entropy() -> None:
    score = belief_consistency(prior=[0.25, 0.75, 0.0], post=[0.0, 0.0, 1.0], rejected=2)
    assert np.isnan([score.c2, score.mse, score.mae, score.switch, score.hswitch, score.entropy_post]).all()
    assert score.included_paper is False
    assert score.entropy_prior == pytest.approx(0.8112781244591328)
    assert score.c3 == pytest.approx(0.0)
    assert score.p_invalid_norm == 1


def test_nan_in_gives_nan_out() -> None:
    score = belief_consistency(prior=[np.nan, 0.5, 0.5], post=[0.2, 0.4, 0.4], rejected=2)
    assert np.isnan(score.c2)
    assert score.included_paper is False


@given(triple, triple, st.integers(0, 2), st.permutations(range(3)))
def test_the_order_of_the_options_does_not_matter(
    prior: np.ndarray, post: np.ndarray, rejected: int, order: list[int]
) -> None:
    plain = belief_consistency(prior, post, rejected)
    moved = belief_consistency(prior[order], post[order], order.index(rejected))
    for name in ("c2", "c3", "leak", "switch", "hswitch", "mse", "mae", "p_invalid_norm"):
        assert getattr(plain, name) == pytest.approx(getattr(moved, name), abs=1e-9)


@given(st.lists(st.tuples(triple, triple, st.integers(0, 2)), min_size=1, max_size=5))
def test_a_batch_scores_as_its_instances(instances: list[tuple[np.ndarray, np.ndarray, int]]) -> None:
    prior, post, rejected = (np.array(column) for column in zip(*instances, strict=True))
    batch = belief_consistency(prior, post, rejected)
    for i, instance in enumerate(instances):
        one = belief_consistency(*instance)
        assert batch.c2[i] == pytest.approx(one.c2, abs=1e-12)
        np.testing.assert_allclose(batch.prior2[i], one.prior2)


@pytest.mark.parametrize(
    ("prior", "post", "rejected", "message"),
    [
        ([0.5, 0.5, 0.5], [0.2, 0.3, 0.5], 0, "more than 1"),
        ([0.5, 0.5, -0.1], [0.2, 0.3, 0.5], 0, "not a probability"),
        ([0.5, 0.5], [0.2, 0.8], 0, r"shape \(2,\)"),
        ([0.5, 0.3, 0.2], [[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]], [0, 1], "shapes differ"),
        ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], 3, "not 0, 1 or 2"),
    ],
)
def test_malformed_input_is_refused(prior: object, post: object, rejected: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        belief_consistency(prior, post, rejected)  # type: ignore


def test_switch_closed_forms() -> None:
    score = switch([0.8, 0.2], [0.5, 0.5])
    assert score.switch == pytest.approx(0.5)
    assert score.hswitch == pytest.approx(0.24)


def test_exclusion_bounds_enclose_what_the_excluded_could_have_been() -> None:
    bounds = exclusion_bounds([0.9, 0.8, np.nan], n_excluded=1)
    assert bounds.complete_case == pytest.approx(0.85)
    assert (bounds.lower, bounds.upper) == (pytest.approx(1.7 / 4), pytest.approx(3.7 / 4))
    assert (bounds.n_rows, bounds.n_dropped) == (2, 2)
    nothing = exclusion_bounds([np.nan])
    assert np.isnan(nothing.complete_case)
    assert (nothing.lower, nothing.upper, nothing.status) == (0, 1, "too_few")
