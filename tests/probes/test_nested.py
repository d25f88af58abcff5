"""Nested cross-validation by shared factorisations is plain scikit-learn in loops."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from doxascope import UserError
from doxascope.probes.cross_validation import nested_ridge, spread_of_targets
from doxascope.probes.dataset import make_target
from doxascope.probes.evidence.crossfit import cross_fit, out_of_fold_r2, recalibration, softmax_calibration
from doxascope.probes.groups import permuted_targets
from doxascope.probes.sweep import combine, permutation_p, sweep_point

PENALTIES = (0.5, 10.0, 300.0)


def plain(penalty: float, x: Any, y: Any) -> Any:
    return make_pipeline(StandardScaler(), Ridge(alpha=penalty)).fit(x, y)


def data(n: int, d: int) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng([n, d])
    groups = np.repeat(np.arange(n // 4), 4)
    x = rng.normal(size=(n, d)) * rng.lognormal(size=d) + 100 * rng.normal(size=d)  # a residual stream has large means
    x[:, 1] = 7.0  # a constant feature
    y = (x[:, 0] - x[:, 0].mean()) / x[:, 0].std() + rng.normal(size=n)
    folds = np.empty(n, dtype=np.intp)
    for k, (_, test) in enumerate(GroupKFold(5).split(x, y, groups)):
        folds[test] = k
    return x, y, groups, folds


@pytest.mark.parametrize(("n", "d"), [(240, 30), (60, 150)])
def test_it_equals_loops_around_scikit_learn(n: int, d: int) -> None:
    x, y, _, folds = data(n, d)
    found = nested_ridge(x, y[:, None], folds, PENALTIES)
    pred, means = np.empty(n), np.empty(n)
    for k in range(5):
        errors = np.zeros(len(PENALTIES))
        for j in set(range(5)) - {k}:
            train, test = (folds != k) & (folds != j), folds == j
            for i, penalty in enumerate(PENALTIES):
                errors[i] += ((plain(penalty, x[train], y[train]).predict(x[test]) - y[test]) ** 2).sum()
        assert found.chosen[k, 0] == errors.argmin()
        np.testing.assert_allclose(found.inner[k, 0], errors.min(), rtol=1e-8)
        model = plain(PENALTIES[errors.argmin()], x[folds != k], y[folds != k])
        np.testing.assert_allclose(found.readouts[k].weights, model[-1].coef_, atol=1e-6)
        pred[folds == k], means[folds == k] = model.predict(x[folds == k]), y[folds != k].mean()
        np.testing.assert_allclose(found.readouts[k].score(x[folds == k]), pred[folds == k], atol=1e-6)
    np.testing.assert_allclose(found.score, pred, atol=1e-6)
    r2 = 1 - found.outer.sum() / spread_of_targets(y[:, None], folds).sum()
    np.testing.assert_allclose(r2, out_of_fold_r2(y, pred, means), atol=1e-9)
    assert r2 < r2_score(y, pred) + 0.05


@pytest.mark.parametrize(("n", "d"), [(240, 30), (60, 150)])
def test_all_targets_at_once_are_each_by_itself(n: int, d: int) -> None:
    x, y, groups, folds = data(n, d)
    many = np.column_stack([y, permuted_targets(y, groups, draws=6, seed=0).targets])
    together = nested_ridge(x, many, folds, PENALTIES, keep=False)
    for column in range(many.shape[1]):
        alone = nested_ridge(x, many[:, [column]], folds, PENALTIES)
        np.testing.assert_array_equal(together.chosen[:, column], alone.chosen[:, 0])
        np.testing.assert_allclose(together.outer[:, column], alone.outer[:, 0], rtol=1e-7)


def test_the_permutation_p_is_that_of_loops_around_scikit_learn() -> None:
    x, y, groups, folds = data(80, 6)
    null = permuted_targets(y, groups, draws=39, seed=1)
    (point,) = [sweep_point(x, y, null.targets, folds, (10.0,))]
    found = combine(["only"], [point], y, null, folds)  # type: ignore

    def r2(target: Any) -> float:
        pred, means = np.empty(80), np.empty(80)
        for k in range(5):
            model = plain(10.0, x[folds != k], target[folds != k])
            pred[folds == k], means[folds == k] = model.predict(x[folds == k]), target[folds != k].mean()
        return out_of_fold_r2(target, pred, means)

    every = np.array([r2(target) for target in null.targets.T])
    np.testing.assert_allclose(found.null_r2[0], every, atol=1e-8)
    assert found.selected_p == found.p_max[0] == permutation_p(r2(y), every) == (1 + (every >= r2(y)).sum()) / 40


def test_a_feature_that_is_no_number_is_refused() -> None:
    x, y, _, folds = data(60, 5)
    x[3, 2] = np.nan
    with pytest.raises(UserError, match="row 3, feature 2 is nan"):
        nested_ridge(x, y[:, None], folds)


def test_groups_exchange_targets_as_wholes_and_by_role() -> None:
    groups = np.repeat(np.arange(8), 2)
    roles = np.tile(["claim", "negation"], 8)
    y = np.arange(16.0)
    found = permuted_targets(y, groups, roles, draws=50, seed=0)
    assert found.n_fixed == 0
    for draw in found.targets.T:
        first, second = draw[::2], draw[1::2]
        np.testing.assert_array_equal(second - first, 1.0)  # a group's targets stay together
        assert set(first) == set(y[::2])  # and in their role
    odd = permuted_targets(np.append(y, 99.0), np.append(groups, 8), np.append(roles, "other"), draws=5, seed=0)
    assert odd.n_fixed == 1
    np.testing.assert_array_equal(odd.targets[-1], 99.0)
    few = permuted_targets(y[:10], [0, 1, 1, 2, 2, 2, 3, 3, 3, 3], draws=5, seed=0)
    assert few.untested.startswith("0 of 4 groups have the same rows as another")
    assert few.targets.shape == (10, 0)


def test_labels_that_exchanges_leave_as_they_are_are_not_tested() -> None:
    groups = np.repeat(np.arange(12), 2)
    alike = permuted_targets(np.tile([0.0, 1.0], 12), groups, draws=5, seed=0)
    assert alike.untested.startswith("all groups hold the same labels")
    odd = permuted_targets(np.append(np.tile([0.0, 1.0], 11), [1.0, 0.0]), groups, draws=5, seed=0)
    assert odd.untested.startswith("exchanging labels between groups gives 12 different ones")
    differ = permuted_targets(np.append(np.tile([0.0, 1.0], 10), [1.0, 0.0] * 2), groups, draws=5, seed=0)
    assert (differ.untested, differ.targets.shape) == ("", (24, 5))  # 66 ways


def test_a_recalibrated_probe_never_turns_round() -> None:
    """Not where its scores fall as the truth rises, nor in any fold of small tables of noise, most of which do so."""
    rng = np.random.default_rng(0)
    score, turned = rng.normal(size=200), 0
    y = 1 / (1 + np.exp(score))
    slope, intercept = recalibration(score, y)
    assert (slope, intercept) == (0.0, pytest.approx(np.log(y.mean() / (1 - y.mean()))))
    assert recalibration(score, 1 - y)[0] == pytest.approx(1, abs=0.01)
    over = np.column_stack([score, -score, np.zeros(200)])
    slope, intercepts = softmax_calibration(over, np.exp(-over) / np.exp(-over).sum(axis=1)[:, None])
    assert slope == 0
    assert intercepts.sum() == pytest.approx(0)
    for _ in range(20):
        x, target = rng.normal(size=(24, 8)), make_target("noise", rng.uniform(0.1, 0.9, 24))
        fits = cross_fit(x, target, np.repeat(np.arange(4), 6))
        slopes = [readout.slope for readout in fits.readouts]
        assert min(slopes) >= 0
        turned += slopes.count(0.0)
    assert turned > 20
