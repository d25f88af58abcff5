import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doxascope.metrics import (
    Resampling,
    bootstrap_rows,
    corrected_slope,
    disattenuated_slope,
    hindsight_slope,
    martingale_iv,
    martingale_score,
    reliability_icc,
)


def readings(n: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two readings of the prior and one of the posterior of a true martingale, far from the bounds."""
    rng = np.random.default_rng(seed)
    b = rng.uniform(0.35, 0.65, n)
    q = b + rng.uniform(-0.1, 0.1, n)
    first, second, after = (x + rng.uniform(-noise, noise, n) for x in (b, b, q))
    return first, second, after


def test_both_slopes_are_ratios_of_covariances() -> None:
    b1, b2, q = readings(50, 0.1)
    score = martingale_iv(prior1=b1, prior2=b2, post=q)
    c12 = np.cov(b1, b2)[0, 1]
    assert pytest.approx(np.cov(b2, q - b1)[0, 1] / c12) == score.M_12
    assert pytest.approx(np.cov(b1, q - b2)[0, 1] / c12) == score.M_21
    assert score.M_iv == pytest.approx((score.M_12 + score.M_21) / 2)
    assert score.covariance == pytest.approx(c12)


def test_equal_readings_are_the_plain_score() -> None:
    b, _, q = readings(40, 0.1)
    iv, plain = martingale_iv(b, b, q), martingale_score(b, q)
    assert iv.M_iv == iv.M_12 == pytest.approx(plain.M)


def test_noise_makes_a_martingale_look_like_regression_to_the_mean_and_two_ways_undo_it() -> None:
    b1, b2, q = readings(20000, 0.12, seed=1)
    reliability = reliability_icc(np.column_stack([b1, b2])).icc1
    assert reliability == pytest.approx((0.3**2 / 12) / (0.3**2 / 12 + 0.24**2 / 12), abs=0.02)
    plain = martingale_score(b1, q)
    assert pytest.approx(-(1 - reliability), abs=0.02) == plain.M
    assert (
        martingale_iv(b1, b2, q, how=Resampling(draws=200)).ci_lo
        < 0
        < martingale_iv(b1, b2, q, how=Resampling(draws=200)).ci_hi
    )
    corrected = disattenuated_slope(plain.M, reliability, se=plain.se)
    assert corrected.beta1 == pytest.approx(0, abs=0.03)
    assert corrected.se == pytest.approx(plain.se / reliability)


def test_both_standard_errors_are_the_spread_over_repeated_samples() -> None:
    questions = np.repeat(np.arange(9), 40)
    few = [martingale_iv(*readings(360, 0.05, seed=s), groups=questions) for s in range(150)]
    many = martingale_iv(*readings(360, 0.05))
    assert (few[0].ci_method, many.ci_method) == ("linearised, t(8)", "expanded percentile cluster bootstrap")
    spread = np.std([score.M_iv for score in few])
    assert many.se == pytest.approx(spread, rel=0.25)
    assert np.mean([score.se for score in few]) == pytest.approx(spread, rel=0.25)


def test_of_few_clusters_the_error_is_that_of_the_linearised_slope() -> None:
    b1, b2, q = (column - column.mean() for column in readings(60, 0.05))
    found, sums = martingale_iv(b1 + 0.5, b2 + 0.5, q + 0.5, groups=np.repeat(np.arange(6), 10)), b1 @ b2
    influence = ((b2 * (q - b1) + b1 * (q - b2)) / 2 - found.M_iv * b1 * b2) / sums
    assert found.se == pytest.approx(np.sqrt(6 / 5 * (influence.reshape(6, 10).sum(axis=1) ** 2).sum()))


@settings(deadline=None)
@given(st.integers(0, 1000))
def test_complement_keeps_it(seed: int) -> None:
    b1, b2, q = readings(6, 0.1, seed)
    one, two = martingale_iv(b1, b2, q), martingale_iv(1 - b1, 1 - b2, 1 - q)
    assert (two.M_iv, two.se) == pytest.approx((one.M_iv, one.se), rel=1e-6)
    swapped = martingale_iv(b2, b1, q)
    assert (swapped.M_iv, swapped.M_12) == pytest.approx((one.M_iv, one.M_21), rel=1e-6)


def test_readings_that_share_nothing_are_a_weak_instrument() -> None:
    rng = np.random.default_rng(3)
    score = martingale_iv(rng.random(60), rng.random(60), rng.random(60))
    assert score.status == "weak_instrument"
    assert score.covariance_lo < 0 < score.covariance_hi
    assert np.isfinite(score.M_iv)
    assert martingale_iv(*readings(60, 0.02)).status == "ok"


@pytest.mark.parametrize(
    ("b1", "b2", "groups", "status"),
    [
        ([0.5], [0.5], None, "too_few"),
        ([0.5, 0.5, 0.5], [0.1, 0.2, 0.3], None, "zero_covariance"),
        ([0.1, 0.2, 0.4], [0.1, 0.3, 0.4], ["q"] * 3, "one_cluster"),
    ],
)
def test_no_slope_or_no_error(b1: list, b2: list, groups: list | None, status: str) -> None:
    score = martingale_iv(b1, b2, np.linspace(0.2, 0.3, len(b1)), groups)
    assert score.status == status
    assert np.isnan([score.se, score.ci_lo, score.p]).all()


def test_disattenuation_by_hand_and_without_a_reliability() -> None:
    assert disattenuated_slope(M=-0.2, reliability=0.8).beta1 == pytest.approx(0)
    assert disattenuated_slope(M=-0.1, reliability=0.8, error_cov=0.1).beta1 == pytest.approx(0)
    assert disattenuated_slope(M=0.07, reliability=1).beta1 == pytest.approx(0.07)
    for reliability in (0.0, -0.2, np.nan):
        nothing = disattenuated_slope(0.1, reliability)
        assert (np.isnan(nothing.beta1), nothing.status) == (True, "no_reliability")
    with pytest.raises(ValueError, match=r"reliability: 1\.2 exceeds 1"):
        disattenuated_slope(0.1, 1.2)


@pytest.mark.parametrize("leak", [0.05, 0.1, 0.2])
def test_hindsight_fakes_entrenchment_by_as_much_as_the_formula_says(leak: float) -> None:
    rng = np.random.default_rng(4)
    b = rng.uniform(0.3, 0.7, 200_000)
    d = rng.uniform(-0.3, 0.3, 200_000)
    expected = hindsight_slope(leak, variance_ratio=(0.6 / 0.4) ** 2)
    assert pytest.approx(expected, abs=0.01) == martingale_score(b + leak * d, b + d).M
    assert expected > 0
    with pytest.raises(ValueError, match="negative"):
        hindsight_slope(leak, -1)


def test_slope_and_reliability_are_recomputed_in_every_resample() -> None:
    b1, b2, q = readings(60, 0.05, seed=4)
    question = np.repeat(np.arange(20), 3)
    both = np.column_stack([b1, b2])

    def corrected(rows: np.ndarray) -> float:
        slope = martingale_score(both[rows].mean(axis=1), q[rows])
        return disattenuated_slope(slope.M, reliability_icc(both[rows]).icc_mean).beta1

    score = corrected_slope(both, q, question, how=Resampling(seed=7, draws=50))
    assert score.M_corrected == pytest.approx(corrected(np.arange(60)))
    assert (score.M, score.reliability) == pytest.approx(
        (martingale_score(both.mean(axis=1), q).M, reliability_icc(both).icc_mean)
    )
    assert score.se == pytest.approx(bootstrap_rows(corrected, question, how=Resampling(seed=7, draws=50)).std(ddof=1))
    assert (score.p < 0.05) == (score.ci_lo > 0 or score.ci_hi < 0)


def test_the_interval_that_takes_the_reliability_as_known_misses_and_this_one_does_not() -> None:
    missed = np.zeros(2)
    for seed in range(250):
        b1, b2, q = readings(80, 0.15, seed=seed)
        both = np.column_stack([b1, b2])
        score = corrected_slope(both, q, how=Resampling(draws=300))
        known = martingale_score(both.mean(axis=1), q, se="CR3")
        fixed = disattenuated_slope(known.M, score.reliability, se=known.se)
        missed += [not score.ci_lo <= 0 <= score.ci_hi, abs(fixed.beta1) > 1.99 * fixed.se]
    assert missed[0] / 250 < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 250) < missed[1] / 250


def test_readings_without_a_correction_are_named() -> None:
    rng = np.random.default_rng(5)
    b1, b2, q = readings(40, 0.05)
    assert corrected_slope(b1[:, None], q).status == "one_reading"
    assert corrected_slope(np.full((5, 2), 0.4), q[:5]).status == "zero_variance_prior"
    assert corrected_slope([[0.2, 0.8], [0.8, 0.2], [0.3, 0.72]], q[:3]).status == "no_reliability"
    assert corrected_slope(np.column_stack([b1, b2]), q, np.zeros(40)).status == "one_cluster"
    noise = rng.random((40, 2))
    assert corrected_slope(noise, q).status in ("weak_reliability", "no_reliability")
    with pytest.raises(ValueError, match=r"readings: shape \(40,\)"):
        corrected_slope(b1, q)


def test_a_posterior_read_with_the_same_error_is_flagged() -> None:
    """A wording that errs alike before and after: a martingale whose instrumented slope is not zero."""
    rng = np.random.default_rng(6)
    b = rng.uniform(0.35, 0.65, 4000)
    wording = rng.uniform(-0.1, 0.1, (2, 4000))
    q = b + rng.uniform(-0.05, 0.05, 4000) + wording[0]
    shared = martingale_iv(b + wording[0], b + wording[1], q, independent=False, how=Resampling(draws=200))
    assert shared.ci_lo > 0
    assert shared.status == "dependent_posterior"
    assert shared.params["independent"] is False


def test_the_instrumented_slope_has_p_and_interval_of_one_bootstrap() -> None:
    for seed in range(20):
        score = martingale_iv(*readings(40, 0.08, seed=seed), how=Resampling(draws=400))
        assert (score.p < 0.05) == (score.ci_lo > 0 or score.ci_hi < 0)
