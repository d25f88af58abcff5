from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from doxascope.metrics import adjust


@pytest.mark.parametrize(("ours", "theirs"), [("holm", "holm"), ("bh", "fdr_bh")])
def test_it_is_what_statsmodels_says(ours: str, theirs: str) -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 40):
        p = np.round(rng.random(size) ** 3, 2)  # with ties
        reject, adjusted = (np.asarray(x) for x in multipletests(p, 0.05, theirs)[:2])
        family = adjust(p, method=ours)
        np.testing.assert_allclose(family.p_adjusted, adjusted)
        np.testing.assert_array_equal(family.reject, reject)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_holm_is_monotone_within_bonferroni_and_blind_to_order(p: list[float], random: Random) -> None:
    adjusted = adjust(p).p_adjusted
    assert (adjusted >= np.array(p)).all()
    assert (adjusted <= np.minimum(1, np.array(p) * len(p)) + 1e-12).all()
    assert (np.diff(adjusted[np.argsort(p)]) >= 0).all()
    order = random.sample(range(len(p)), len(p))
    np.testing.assert_allclose(adjust([p[i] for i in order]).p_adjusted, adjusted[order])


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
