import numpy as np
import pytest
from scipy import stats

from doxascope.metrics import Resampling, sign_flip_test
from doxascope.metrics.inference.randomisation import ENUMERATE_UP_TO


def test_exact_p_is_that_of_scipy() -> None:
    values = np.array([0.3, -0.1, 0.25, 0.4, 0.05, -0.02, 0.2])
    reference = stats.permutation_test(
        (values, np.zeros(7)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=10**6,
    )
    test = sign_flip_test(values)
    assert test.p == pytest.approx(reference.pvalue)
    assert test.mean == pytest.approx(values.mean())


def test_clusters_flip_whole() -> None:
    # Cluster sums are .3, .3 and -.2: of eight arrangements, |.4| is reached by the six with |s| in {.8, .4}.
    test = sign_flip_test([0.1, 0.2, 0.3, -0.2], ["a", "a", "b", "c"])
    assert test.p == pytest.approx(4 / 8)
    assert test.n_clusters == 3


def test_the_smallest_exact_p_counts_the_identity_and_its_mirror_image() -> None:
    assert sign_flip_test([0.1, 0.2, 0.3, 0.4, 0.5]).p == 2 / 32
    last = np.arange(1, ENUMERATE_UP_TO + 1)
    assert sign_flip_test(last).p == 2 / 2**ENUMERATE_UP_TO
    assert sign_flip_test(last).p_method.endswith(f"all {2**ENUMERATE_UP_TO}")
    assert sign_flip_test([*last, 1]).p_method.endswith("sampled")
    assert sign_flip_test([0.1 + 0.2, 0.3, 0.3]).p == 2 / 8  # rounding must not break the tie


def test_a_sampled_p_is_never_zero_and_near_the_t_test() -> None:
    rng = np.random.default_rng(0)
    far = sign_flip_test(rng.normal(3, 1, 50), how=Resampling(seed=1, draws=999))
    assert far.p == 1 / 1000
    near = rng.normal(0.2, 1, 60)
    assert sign_flip_test(near).p == pytest.approx(stats.ttest_1samp(near, 0).pvalue, abs=0.03)
    assert sign_flip_test(near, how=Resampling(seed=2)) == sign_flip_test(near, how=Resampling(seed=2))


def test_cancelling_values_and_none() -> None:
    assert sign_flip_test([0.1, 0.2, -0.3]).p == 1
    assert sign_flip_test([np.nan]).status == "too_few"
    dropped = sign_flip_test([0.1, np.nan, 0.2], ["a", "b", "c"])
    assert (dropped.n_clusters, dropped.n_dropped) == (2, 1)
    with pytest.raises(ValueError, match="row 1 is infinite"):
        sign_flip_test([0.1, np.inf])
