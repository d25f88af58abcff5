import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from doxascope.metrics import adjust


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=12), st.sampled_from([("holm", "holm"), ("bh", "fdr_bh")])
)
def test_it_is_what_statsmodels_says(p: list[float], names: tuple[str, str]) -> None:
    ours = adjust(p, method=names[0])
    reject, adjusted = (np.asarray(x) for x in multipletests(p, 0.05, names[1])[:2])
    np.testing.assert_allclose(ours.p_adjusted, adjusted, atol=1e-12)
    near = np.abs(adjusted - 0.05) < 1e-12
    np.testing.assert_array_equal(ours.reject[~near], reject[~near])


def test_a_test_that_could_not_be_made_is_not_of_the_family() -> None:
    family = adjust([0.01, np.nan, 0.03])
    np.testing.assert_allclose(family.p_adjusted, [0.02, np.nan, 0.03])
    assert family.reject.tolist() == [True, False, True]
    assert (family.family_size, family.n_dropped) == (2, 1)


def test_no_family_and_bad_input() -> None:
    assert adjust([]).status == adjust([np.nan]).status == "too_few"
    with pytest.raises(ValueError, match="not a probability"):
        adjust([1.2])
    with pytest.raises(ValueError, match="'bonferroni' is unknown; use one of holm, bh"):
        adjust([0.5], method="bonferroni")
    with pytest.raises(ValueError, match="one family"):
        adjust([[0.5]])
