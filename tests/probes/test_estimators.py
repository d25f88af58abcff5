"""Estimators against worked cases, scikit-learn, and what they are known to find."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from doxascope import UserError
from doxascope.probes import ContrastConsistentSearch, LinearReadout, MeanDifference, RidgeOnLogOdds, SoftLogistic
from doxascope.probes.estimators import AttentionPooling, pooled_loss, ridge, soft_logistic, standardised
from doxascope.probes.evidence.crossfit import out_of_fold_r2

CASES = (
    Path(os.environ.get("DOXASCOPE_DATA", Path(__file__).parents[2] / "../shared/data")).parent / "cases/metrics.json"
)


def call(name: str, given: dict[str, Any]) -> dict[str, Any]:
    y = np.array(given["y"])
    if name == "ridge_probe":
        w, intercept = ridge(given["X"], y, given["lam"])
        return {"w": w, "intercept": intercept}
    if name == "soft_logistic_probe":
        w, intercept = soft_logistic(np.empty((len(y), 0)), y, 0.0)
        return {"w": [*w, intercept]}
    return {"r2": out_of_fold_r2(y, given["pred"], given["train_means"])}


@pytest.mark.skipif(not CASES.is_file(), reason="the worked cases are not here (DOXASCOPE_DATA)")
def test_the_worked_cases() -> None:
    cases = [case for case in json.loads(CASES.read_text())["cases"] if case["spec"] in ("P1", "P2", "P3")]
    assert cases
    for case in cases:
        found = call(case["fn"], case["inputs"])
        for name, expected in case["expected"].items():
            np.testing.assert_allclose(found[name], expected, atol=case["tol"], err_msg=case["id"])


@pytest.mark.parametrize(("n", "d"), [(90, 6), (30, 80)])
def test_soft_labels_are_doubled_rows_with_weights(n: int, d: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    y = np.clip(1 / (1 + np.exp(-x[:, 0] - 0.5)) + 0.1 * rng.normal(size=n), 0, 1)
    w, b = soft_logistic(x, y, penalty=0.7)
    both, labels = np.vstack([x, x]), np.repeat([1, 0], n)
    model = LogisticRegression(C=1 / 0.7, tol=1e-10, max_iter=5000).fit(both, labels, np.concatenate([y, 1 - y]))
    np.testing.assert_allclose(w, model.coef_[0], atol=2e-4)
    np.testing.assert_allclose(b, model.intercept_[0], atol=2e-4)


def test_the_corrected_mean_difference_is_linear_discriminant_analysis() -> None:
    rng = np.random.default_rng(1)
    y = np.repeat([0.0, 1.0], 200)
    x = rng.normal(size=(400, 5)) @ rng.normal(size=(5, 5)) + y[:, None]
    found = MeanDifference(corrected=True, shrinkage=1e-9).fit(x, y)
    z = standardised(x)[0]
    reference = LinearDiscriminantAnalysis().fit(z, y).coef_[0]
    np.testing.assert_allclose(
        found.weights / np.linalg.norm(found.weights), reference / np.linalg.norm(reference), atol=1e-6
    )
    plain = MeanDifference().fit(x, y)
    np.testing.assert_allclose(plain.weights, z[y == 1].mean(0) - z[y == 0].mean(0))
    wide = rng.normal(size=(30, 70))
    labels = np.repeat([0.0, 1.0], 15)
    few, many = MeanDifference(corrected=True).fit(wide, labels), wide
    a = np.vstack([standardised(many)[0][labels == c] - standardised(many)[0][labels == c].mean(0) for c in (1, 0)])
    covariance = 0.9 * a.T @ a / 30 + 0.1 * np.eye(70)
    np.testing.assert_allclose(covariance @ few.weights, MeanDifference().fit(wide, labels).weights, atol=1e-8)


@pytest.mark.parametrize(
    "estimator", [RidgeOnLogOdds(1.0), SoftLogistic(1.0), MeanDifference(), MeanDifference(corrected=True)]
)
def test_every_estimator_finds_a_planted_direction_and_its_arrays_are_all_of_it(estimator: Any) -> None:
    rng = np.random.default_rng(2)
    x = 5 + 3 * rng.normal(size=(400, 12))
    y = (x[:, 3] > 5).astype(float)
    found = estimator.fit(x, y).calibrated(1.5, -0.2)
    assert np.abs(found.direction).argmax() == 3
    assert ((found.predict(x) > 0.5) == y).mean() > 0.9
    again = LinearReadout.from_direction(found.direction, found.offset)
    np.testing.assert_allclose(again.logit(x), found.logit(x), atol=1e-9)
    assert type(estimator)(**dataclasses.asdict(estimator)) == estimator


def test_the_pattern_is_what_carries_the_variable_and_the_weights_are_not() -> None:
    rng = np.random.default_rng(3)
    signal, noise = rng.normal(size=4000), 3 * rng.normal(size=4000)
    x = np.column_stack([signal + noise, noise])  # the second feature only cancels what disturbs the first
    readout = RidgeOnLogOdds(1e-6).fit(x, 1 / (1 + np.exp(-signal)))
    assert abs(readout.direction[1]) > 0.9 * abs(readout.direction[0])
    pattern = readout.pattern(x)
    assert abs(pattern[1]) < 0.1 * abs(pattern[0])


def test_attention_finds_the_position_that_knows_where_a_mean_drowns_it() -> None:
    """The truth stands at one of six positions, which a second feature marks; the others hold more noise than it."""
    rng = np.random.default_rng(5)
    n, positions, d = 600, 6, 8
    truth, where = rng.integers(0, 2, n).astype(float), rng.integers(positions, size=n)
    x = rng.normal(size=(n, positions, d))
    x[:, :, 0] *= 3
    x[np.arange(n), where, 0] = 2 * truth - 1 + 0.3 * rng.normal(size=n)
    x[np.arange(n), where, 1] += 6
    found = AttentionPooling(1.0).fit(x[:400], truth[:400])
    assert found.attention(x[400:])[np.arange(200), where[400:]].mean() > 0.9
    np.testing.assert_allclose(found.attention(x).sum(axis=1), 1)
    right = ((found.predict(x[400:]) > 0.5) == truth[400:]).mean()
    mean = SoftLogistic(1.0).fit(x[:400].mean(axis=1), truth[:400]).predict(x[400:].mean(axis=1)) > 0.5
    assert right > 0.9
    assert (mean == truth[400:]).mean() < 0.75
    beta = rng.normal(size=2 * d + 1)
    numeric = approx_fprime(beta, lambda b: pooled_loss(b, x[:30], truth[:30], 0.7)[0], 1e-6)
    np.testing.assert_allclose(pooled_loss(beta, x[:30], truth[:30], 0.7)[1], numeric, rtol=1e-3, atol=1e-2)
    one = AttentionPooling(1.0).fit(x[:, :1], truth)  # a single position has nothing to choose
    alone = SoftLogistic(1.0).fit(x[:, 0], truth)
    np.testing.assert_allclose(one.weights, alone.weights, atol=1e-3)
    with pytest.raises(UserError, match=r"give \[rows, positions, features\]"):
        AttentionPooling().fit(x[:, 0], truth)


def test_ccs_finds_what_negates_and_any_feature_that_splits_the_pairs_as_well() -> None:
    rng = np.random.default_rng(4)
    truth = rng.choice([-1.0, 1.0], 300)
    first, second = rng.normal(size=(2, 300, 10))
    first[:, 0] += 4 * truth
    second[:, 0] -= 4 * truth
    found = ContrastConsistentSearch().fit(first, second)
    right = ((found.belief(first, second) > 0.5) == (truth > 0)).mean()
    assert max(right, 1 - right) > 0.95  # the sign is not known
    assert np.abs(found.affirmed.predict(first) + found.negated.predict(second) - 1).mean() < 0.1
    banana = rng.choice([-1.0, 1.0], 300)  # an arbitrary word that is in one of each pair
    first[:, 1] += 12 * banana
    second[:, 1] -= 12 * banana
    fooled = ContrastConsistentSearch().fit(first, second).belief(first, second) > 0.5
    assert max((fooled == (banana > 0)).mean(), (fooled != (banana > 0)).mean()) > 0.95
    with pytest.raises(UserError, match="give pairs"):
        ContrastConsistentSearch().fit(first, second[:-1])
