from itertools import product

import numpy as np
import pytest
import statsmodels.api as sm

from doxascope.metrics import Resampling, wild_cluster_test


def data(seed: int, n_clusters: int, slope: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_clusters), rng.integers(2, 6, n_clusters))
    b = rng.random(len(groups))
    y = 0.1 + slope * b + rng.normal(0, 0.2, n_clusters)[groups] * b + rng.normal(0, 0.2, len(groups))
    return y, np.column_stack([np.ones_like(b), b, b**2]), groups


def t_by_statsmodels(y: np.ndarray, x: np.ndarray, groups: np.ndarray, column: int, weights: np.ndarray) -> float:
    model = sm.WLS(y, x, weights=weights)  # pyright: ignore[reportArgumentType]
    fit = model.fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)
    return float(fit.tvalues[column])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("column", [0, 1])
def test_the_closed_form_agrees_with_refitting_every_draw(column: int, weighted: bool) -> None:
    y, x, groups = data(0, 6)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    others = np.delete(x, column, axis=1)
    fitted = others @ np.asarray(sm.WLS(y, others, weights=weights).fit().params)  # pyright: ignore[reportArgumentType]
    observed = t_by_statsmodels(y, x, groups, column, weights)
    draws = [
        t_by_statsmodels(fitted + np.array(signs)[groups] * (y - fitted), x, groups, column, weights)
        for signs in product([-1.0, 1.0], repeat=6)
    ]
    test = wild_cluster_test(y, x, groups, column, weights=weights)
    assert test.t == pytest.approx(observed)
    assert test.p == np.mean(np.abs(draws) >= abs(observed) - 1e-9)
    assert "all 2^6 Rademacher" in test.p_method


def test_the_joint_test_agrees_with_refitting_every_draw() -> None:
    y, x, groups = data(4, 6, slope=0.3)
    restricted = np.full_like(y, y.mean())

    def wald(response: np.ndarray) -> float:
        fit = sm.OLS(response, x).fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)
        return float(fit.f_test(np.eye(3)[1:]).fvalue)

    draws = [wald(restricted + np.array(signs)[groups] * (y - restricted)) for signs in product([-1.0, 1.0], repeat=6)]
    test = wild_cluster_test(y, x, groups, (1, 2))
    assert pytest.approx(wald(y)) == test.F
    assert test.p == np.mean(np.array(draws) >= wald(y) * (1 - 1e-9))
    assert np.isnan(test.t)


def test_one_coefficient_has_the_square_of_its_t_and_two_clusters_bear_no_joint_test() -> None:
    y, x, groups = data(5, 9)
    test = wild_cluster_test(y, x, groups, 1)
    assert test.estimate == pytest.approx(test.t**2)
    two = groups < 2
    assert wild_cluster_test(y[two], x[two], groups[two], (0, 1)).status == "zero_cluster_variance"


def test_sampled_signs_come_near_the_enumeration() -> None:
    y, x, groups = data(2, 11)
    exact = wild_cluster_test(y, x, groups, 1)
    sampled = wild_cluster_test(y, x, groups, 1, enumerate_up_to=0, how=Resampling(draws=4999))
    assert sampled.p == pytest.approx(exact.p, abs=0.03)
    assert "4999 Rademacher" in sampled.p_method
    assert sampled.params == {"draws": 4999, "seed": 0}


def test_webb_weights_give_p_values_between_the_few_that_signs_allow() -> None:
    y, x, groups = data(3, 4, slope=2.0)
    signs = wild_cluster_test(y, x, groups, 1)
    webb = wild_cluster_test(y, x, groups, 1, enumerate_up_to=0)
    assert signs.p in {k / 16 for k in range(2, 17, 2)}  # a draw and its mirror image always tie
    assert "Webb" in webb.p_method
    assert 0 < webb.p < 1
    again = wild_cluster_test(y, x, groups, 1, enumerate_up_to=0)
    assert again.p == webb.p


def test_it_holds_its_level_with_eight_clusters() -> None:
    p = [wild_cluster_test(*data(seed, 8), 2).p for seed in range(400)]
    assert 0.02 <= np.mean(np.array(p) <= 0.05) <= 0.085


def test_one_cluster_has_no_test_and_a_wrong_shape_is_refused() -> None:
    assert wild_cluster_test([0.1, 0.2], [[1.0], [1.0]], ["a", "a"], 0).status == "one_cluster"
    with pytest.raises(ValueError, match=r"x: shape \(2,\) for 2 rows"):
        wild_cluster_test([0.1, 0.2], [1.0, 1.0], ["a", "b"], 0)
