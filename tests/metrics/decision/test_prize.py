import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from statsmodels.stats.weightstats import ttost_paired

from doxascope.metrics import Resampling, indifference_point, prize_independence

BASE, ALT = [[0.2, 0.3], [0.5, 0.7], [0.9, 0.7]], [[0.3, 0.3], [0.8, 0.6], [0.7, 0.7]]
readings = arrays(float, (6, 3), elements=st.floats(0, 1))


def test_effect_and_floor_of_three_contexts() -> None:
    score = prize_independence(p_base=BASE, p_alt=ALT)
    assert score.rmse_means == pytest.approx(np.sqrt(0.0225 / 3))
    assert score.rmse_per_rep == pytest.approx(np.sqrt(0.065 / 6))
    assert score.sd_pooled == pytest.approx(np.sqrt(0.015))
    assert score.sd_mean == pytest.approx(np.mean([np.std(x, ddof=1) for x in BASE]))
    assert score.noise_floor == pytest.approx(np.sqrt(0.015 / 2 + 0.02 / 3 / 2))
    assert score.debiased_ms == pytest.approx(score.rmse_means**2 - score.noise_floor**2)
    assert (score.debiased_ms < 0, score.debiased_rms) == (True, 0)
    assert score.mean_shift == pytest.approx(0.05 / 3)


def test_no_interval_of_a_root_reaches_below_zero() -> None:
    """One context of eight differs: t would reach below 0, where no RMSE and no SD is."""
    base = np.repeat(np.linspace(0.2, 0.7, 8)[:, None], 3, axis=1)
    base[0] += (-0.1, 0, 0.1)
    alt = base.copy()
    alt[0] += 0.2
    score = prize_independence(base, alt)
    assert score.ci_means[0] == 0 < score.rmse_means < score.ci_means[1]
    assert score.ci_sd[0] == 0 < score.sd_pooled < score.ci_sd[1]


def test_debiased_square_is_unbiased_with_and_without_an_effect() -> None:
    rng = np.random.default_rng(0)
    for effect in (0.0, 0.05):
        scores = []
        for _ in range(200):
            truth = rng.uniform(0.35, 0.65, 40)
            sign = rng.choice([-1, 1], 40)
            base = truth[:, None] + rng.uniform(-0.2, 0.2, (40, 5))
            alt = (truth + effect * sign)[:, None] + rng.uniform(-0.1, 0.1, (40, 3))
            scores.append(prize_independence(base, alt, how=Resampling(draws=2)).debiased_ms)
        error = np.std(scores) / np.sqrt(len(scores))
        assert np.mean(scores) == pytest.approx(effect**2, abs=4 * error)
        assert error < 2e-4


@given(readings, readings)
def test_complement_and_order_do_not_matter(base: np.ndarray, alt: np.ndarray) -> None:
    plain = prize_independence(base, alt, how=Resampling(draws=2))
    turned = prize_independence(1 - base[::-1, ::-1], 1 - alt[::-1], how=Resampling(draws=2))
    for name in ("rmse_means", "rmse_per_rep", "sd_pooled", "sd_mean", "noise_floor", "debiased_ms"):
        assert getattr(turned, name) == pytest.approx(getattr(plain, name), abs=1e-7)
    assert turned.mean_shift == pytest.approx(-plain.mean_shift, abs=1e-12)


def test_interval_is_over_contexts() -> None:
    rng = np.random.default_rng(1)
    base, alt = rng.random((30, 5)), rng.random((30, 5))
    score = prize_independence(base, alt)
    assert score.ci_method == "studentised cluster bootstrap"
    assert score.ci_lo < score.debiased_ms < score.ci_hi
    assert score.n_clusters == 30


def test_unequal_and_missing_repetitions() -> None:
    base = [[0.2, 0.3], [0.5, np.nan], [np.nan, np.nan]]
    score = prize_independence(base, [[0.3, 0.3], [0.8, 0.6], [0.7, 0.7]])
    assert (score.n_rows, score.n_dropped) == (2, 1)
    assert score.sd_pooled == pytest.approx(np.std([0.2, 0.3], ddof=1))
    assert score.rmse_means == pytest.approx(np.sqrt((0.05**2 + 0.2**2) / 2))
    assert score.noise_floor == pytest.approx(np.sqrt(0.005 * (1 / 2 + 1) / 2 + 0.01 / 2))


def test_without_repetitions_there_is_no_floor() -> None:
    score = prize_independence([[0.2], [0.5]], [[0.3], [0.6]])
    assert score.status == "no_replicates"
    assert score.rmse_means == pytest.approx(0.1)
    assert np.isnan([score.noise_floor, score.debiased_ms, score.debiased_rms, score.sd_pooled]).all()
    none = prize_independence(np.full((2, 2), np.nan), ALT[:2])
    assert (none.status, none.equivalent) == ("too_few", False)
    with pytest.raises(ValueError, match=r"\[contexts, reps\]"):
        prize_independence([0.2, 0.3], [0.3, 0.3])


def test_equivalence_of_the_mean_shift_is_the_paired_tost_of_statsmodels() -> None:
    rng = np.random.default_rng(2)
    base = rng.uniform(0.3, 0.7, (40, 1)) + rng.normal(0, 0.05, (40, 5))
    alt = base.mean(axis=1, keepdims=True) + 0.005 + rng.normal(0, 0.05, (40, 4))
    score = prize_independence(base, alt)
    expected = ttost_paired(alt.mean(axis=1), base.mean(axis=1), -0.03, 0.03)[0]
    assert score.p_tost_shift == pytest.approx(expected)
    assert score.params["margin"] == 0.03


def test_independence_is_claimed_by_the_bound_and_not_by_shifts_that_cancel() -> None:
    rng = np.random.default_rng(3)
    truth, sign = rng.uniform(0.3, 0.7, (200, 1)), np.where(np.arange(200) % 2, 1.0, -1.0)[:, None]
    base = truth + rng.normal(0, 0.04, (200, 5))
    same, moved = (prize_independence(base, truth + e * sign + rng.normal(0, 0.04, (200, 5))) for e in (0.0, 0.06))
    assert same.equivalent
    assert same.debiased_rms <= same.rms_upper < 0.03
    assert moved.p_tost_shift < 0.05  # in the mean nothing moved
    assert not moved.equivalent
    assert moved.rms_upper > 0.06 - 0.005


def test_the_bound_holds_its_level_at_the_margin() -> None:
    rng = np.random.default_rng(4)
    claimed = []
    for seed in range(200):
        truth = rng.uniform(0.3, 0.7, 200)
        effect = rng.normal(0, 0.03, 200)
        base, alt = (x[:, None] + rng.normal(0, 0.05, (200, 5)) for x in (truth, truth + effect))
        claimed.append(prize_independence(base, alt, how=Resampling(seed=seed, draws=300)).equivalent)
    assert np.mean(claimed) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def test_one_context_claims_nothing() -> None:
    score = prize_independence([[0.5, 0.51]], [[0.5, 0.51]])
    assert np.isnan([score.rms_upper, score.p_tost_shift]).all()
    assert not score.equivalent
    bare = prize_independence([[0.2], [0.5]], [[0.2], [0.5]])
    assert (np.isnan(bare.rms_upper), bare.equivalent) == (True, False)


def test_contributions_of_contexts_add_up_to_the_pooled_floor_when_repetitions_differ() -> None:
    rng = np.random.default_rng(2)
    base, alt = rng.random((40, 5)), rng.random((40, 4))
    base[:10, 2:] = np.nan
    alt[3, 1:] = np.nan
    score = prize_independence(base, alt, how=Resampling(draws=20))
    floor = 0.0
    for x in (base, alt):
        r = np.isfinite(x).sum(axis=1)
        within = np.nansum((x - np.nanmean(x, axis=1, keepdims=True)) ** 2)
        floor += within / (r - 1).sum() * (1 / r).mean()
    assert score.noise_floor**2 == pytest.approx(floor)
    assert score.debiased_ms == pytest.approx(score.rmse_means**2 - floor)


@pytest.mark.parametrize(("contexts", "status"), [(99, "few_contexts"), (100, "ok")])
def test_few_contexts_are_said_to_be_few(contexts: int, status: str) -> None:
    rng = np.random.default_rng(3)
    assert (
        prize_independence(rng.random((contexts, 3)), rng.random((contexts, 3)), how=Resampling(draws=20)).status
        == status
    )


def test_a_context_without_an_answer_under_either_prompt_is_dropped() -> None:
    base, alt = np.full((3, 2), 0.4), np.full((3, 2), 0.6)
    base[0], alt[1] = np.nan, np.nan
    score = prize_independence(base, alt)
    assert (score.n_rows, score.n_dropped, score.mean_shift) == (1, 2, pytest.approx(0.2))


def test_a_bet_is_as_good_where_the_line_between_two_chances_crosses_zero() -> None:
    assert indifference_point([0.9, 0.1, 0.4, 0.6], [-3.0, 4.0, 2.0, -2.0]) == (pytest.approx(0.5), "ok")
    assert indifference_point([0.1, 0.5, 0.9], [3.0, 1.0, 0.0]) == (pytest.approx(0.9), "ok")
    for rising in ([0.0, 1.0], [-1.0, 1.0]):
        assert indifference_point([0.2, 0.8], rising)[1] == "out_of_range"
