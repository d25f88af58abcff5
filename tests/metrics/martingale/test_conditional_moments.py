import numpy as np
import pytest

from doxascope.metrics import (
    Resampling,
    adjust,
    martingale_icm_test,
    martingale_joint_test,
    martingale_score,
    martingale_tests,
    martingale_within,
)


def agent(seed: int, shift: float = 0.0, n: int = 120) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n // 4), 4)
    b = rng.uniform(0.3, 0.7, n)
    return b, b + shift + rng.uniform(-0.1, 0.1, n // 4)[groups] + rng.uniform(-0.1, 0.1, n), groups


def test_it_is_the_three_tests_and_their_holm() -> None:
    b, q, groups = agent(0)
    tests = martingale_tests(b, q, groups, how=Resampling(seed=1, draws=199))
    score = martingale_score(b, q, groups)
    joint = martingale_joint_test(b, q, groups, how=Resampling(seed=1, draws=199))
    moment = martingale_icm_test(b, q, groups, how=Resampling(seed=1, draws=199))
    assert tests.p_tests == {"slope": score.p, "joint": joint.p, "cvm": moment.p_cvm}
    assert list(tests.p_holm.values()) == adjust([score.p, joint.p, moment.p_cvm]).p_adjusted.tolist()
    assert tests.p == tests.estimate == min(tests.p_holm.values())


def test_the_slope_of_the_family_is_that_within_cells() -> None:
    """Two cells whose levels differ: the slope over all rows is another one than that which is printed."""
    b, q, groups = agent(0)
    cells = np.repeat(["low", "high"], 60)
    b, q = b + 0.2 * (cells == "high"), q - 0.1 * (cells == "high")
    tests = martingale_tests(b, q, groups, cells, how=Resampling(draws=199))
    assert tests.p_tests["slope"] == martingale_within(b, q, groups, cells).p > 0.05
    assert martingale_score(b, q, groups).p < 0.001


def test_it_holds_its_level_and_sees_a_shift() -> None:
    p = [martingale_tests(*agent(seed), how=Resampling(seed=seed, draws=99)).p for seed in range(100)]
    assert np.mean(np.array(p) <= 0.05) <= 0.12
    assert martingale_tests(*agent(0, shift=0.1), how=Resampling(draws=199)).p < 0.05


def test_a_test_that_is_undefined_is_left_out() -> None:
    constant = martingale_tests([0.5] * 6, [0.6, 0.7, 0.6, 0.8, 0.6, 0.7])
    assert constant.p_method == "Holm over 1"
    assert constant.p == constant.p_tests["cvm"] == pytest.approx(2 / 64)
    empty = martingale_tests([0.5], [0.5])
    assert (empty.status, np.isnan(empty.p)) == ("too_few", True)
