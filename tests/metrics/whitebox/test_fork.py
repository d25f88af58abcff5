import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from doxascope.metrics import fork_coherence

answers = arrays(float, 4, elements=st.floats(0.01, 0.99))


def test_a_kept_choice_is_coherent_and_committed() -> None:
    score = fork_coherence(q=[1.0, 0.0, 0.0], r=[0.6, 0.0, 0.0])
    assert (score.excess, score.rms, score.corr, score.commitment) == pytest.approx((0, 0, 1, 1))


def test_a_model_that_says_yes_to_everything() -> None:
    score = fork_coherence(q=[0.9, 0.9], r=[0.5, 0.5])
    assert (score.excess, score.rms, score.commitment) == pytest.approx((0.8, 0.4, 0))
    assert np.isnan(score.corr)


def test_a_coherent_spread_is_no_commitment() -> None:
    score = fork_coherence(q=[0.5, 0.25, 0.25], r=[0.5, 0.25, 0.25])
    assert (score.rms, score.excess) == pytest.approx((0, 0), abs=1e-12)
    assert score.commitment == pytest.approx(1 - 1.5 / np.log2(3))


@given(answers, answers, st.permutations(range(4)))
def test_order_and_scale_of_the_options_do_not_matter(q: np.ndarray, r: np.ndarray, order: list[int]) -> None:
    plain, moved = fork_coherence(q, r), fork_coherence(q[order], r[order] / 2)
    for name in ("excess", "rms", "commitment", "corr"):
        assert getattr(moved, name) == pytest.approx(getattr(plain, name), abs=1e-6, nan_ok=True)
    if np.ptp(q) > 1e-3 and np.ptp(r) > 1e-3:
        assert plain.corr == pytest.approx(np.corrcoef(q, r)[0, 1], abs=1e-6)
    # rms^2 splits into the mean gap and the spread of the gaps.
    gap = q - r / r.sum()
    assert plain.rms**2 == pytest.approx((plain.excess / 4) ** 2 + gap.var(), abs=1e-12)


def test_batches_and_undefined_contexts() -> None:
    batch = fork_coherence([[1.0, 0.0], [0.5, 0.5], [np.nan, 0.5]], [[0.8, 0.2], [0.0, 0.0], [0.5, 0.5]])
    np.testing.assert_allclose(batch.rms, [0.2, np.nan, np.nan])
    assert (batch.n_rows, batch.n_dropped, batch.reasons) == (1, 2, {"undefined": 2})
    lone = fork_coherence([0.7], [0.4])
    assert (lone.excess, np.isnan(lone.commitment)) == (pytest.approx(-0.3), True)
    nothing = fork_coherence([0.5, 0.5], [0.0, 0.0])
    assert nothing.status == "undefined"
    assert np.isnan([nothing.excess, nothing.commitment]).all()
    with pytest.raises(ValueError, match="shapes differ"):
        fork_coherence([0.5], [0.5, 0.5])
    with pytest.raises(ValueError, match=r"\[n, k\]"):
        fork_coherence([], [])
