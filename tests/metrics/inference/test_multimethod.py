import numpy as np
import pytest

from doxascope.metrics import Resampling, method_correlation, method_reliability, wording_study

N, TRUTH = 400, 0.7


def two_kinds(seed: int, noise: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    """Two readings each of two traits of correlation TRUTH, each with noise of its own and a level of its own."""
    rng = np.random.default_rng(seed)
    one = rng.standard_normal(N)
    two = TRUTH * one + np.sqrt(1 - TRUTH**2) * rng.standard_normal(N)
    return tuple(trait[:, None] + noise * rng.standard_normal((N, 2)) + [0.0, 0.3] for trait in (one, two))  # type: ignore


def test_noise_is_taken_out_of_a_correlation_and_the_interval_knows_it() -> None:
    found = [method_correlation(*two_kinds(seed), how=Resampling(seed=seed, draws=199)) for seed in range(60)]
    held = [pair.ci_lo <= TRUTH <= pair.ci_hi for pair in found]
    assert np.mean([pair.disattenuated for pair in found]) == pytest.approx(TRUTH, abs=0.02)
    reliability = 1 / (1 + 0.6**2 / 2)
    assert np.mean([pair.correlation for pair in found]) == pytest.approx(TRUTH * reliability, abs=0.02)
    assert np.mean(held) > 0.85
    assert all(pair.correlation_hi < TRUTH + 0.1 for pair in found)


def test_reliability_is_that_of_the_mean_in_the_study_of_wordings() -> None:
    first, _ = two_kinds(0)
    study = wording_study(first, how=Resampling(draws=2))
    assert method_reliability(first, how=Resampling(draws=2)).reliability == pytest.approx(study.reliability_mean)
    moved = method_reliability(first + np.array([0.0, 5.0]), how=Resampling(draws=2)).reliability
    assert moved == pytest.approx(study.reliability_mean)  # a level of its own is no noise


def test_one_reading_has_no_reliability_and_noise_alone_none_above_zero() -> None:
    first, second = two_kinds(0)
    alone = method_correlation(first.mean(axis=1), second)
    assert alone.status == "no_reliability"
    assert np.isnan(alone.disattenuated)
    assert alone.correlation == pytest.approx(np.corrcoef(first.mean(axis=1), second.mean(axis=1))[0, 1])
    assert method_reliability(first[:, :1]).status == "one_reading"
    rng = np.random.default_rng(0)
    assert method_reliability(rng.standard_normal((N, 2))).status == "weak_reliability"
    weak = [
        method_correlation(rng.standard_normal((N, 2)), rng.standard_normal((N, 2)), how=Resampling(draws=99)).status
        for _ in range(20)
    ]
    assert weak.count("weak_reliability") >= 19  # a positive estimate, which one in four pairs have, is not enough
    assert method_correlation(np.ones((N, 2)), second).status == "zero_variance"
    assert method_correlation(first[:2], second[:2]).status == "too_few"
    with pytest.raises(ValueError, match="give the same things in both"):
        method_correlation(first, second[:10])


def test_clusters_are_what_is_resampled() -> None:
    first, second = two_kinds(1)
    rows = np.repeat(np.arange(N), 4)
    one = method_correlation(first, second, np.arange(N), how=Resampling(draws=400))
    copied = method_correlation(first[rows], second[rows], rows, how=Resampling(draws=400))
    assert copied.disattenuated == pytest.approx(one.disattenuated)
    assert copied.se == pytest.approx(one.se, rel=0.1)
