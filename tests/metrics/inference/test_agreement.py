import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas import DataFrame
from scipy import stats
from statsmodels.formula.api import ols

from doxascope.metrics import Resampling, judge_agreement

X, Y = np.array([0.1, 0.4, 0.35, 0.8, 0.65, 0.9]), np.array([0.2, 0.3, 0.5, 0.7, 0.75, 0.8])
QUESTION = [0, 0, 0, 1, 1, 1]


def judges(seed: int, n: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0.3, 0.7, n)
    noisy = [truth + rng.uniform(-0.2, 0.2, n) for _ in range(2)]
    return noisy[0], noisy[1] + 0.05, np.repeat(np.arange(n // 4), 4)


def test_six_readings_of_two_questions() -> None:
    score = judge_agreement(X, Y, QUESTION)
    assert score.pearson == pytest.approx(stats.pearsonr(X, Y).statistic)
    assert score.spearman == pytest.approx(stats.spearmanr(X, Y).statistic) == pytest.approx(31 / 35)
    assert score.bias == pytest.approx(-0.05 / 6)
    lin = 2 * np.mean((X - X.mean()) * (Y - Y.mean())) / (X.var() + Y.var() + (X.mean() - Y.mean()) ** 2)
    assert score.ccc == score.estimate == pytest.approx(lin) == pytest.approx(0.905945945945946)
    within = [z - np.repeat([z[:3].mean(), z[3:].mean()], 3) for z in (X, Y)]
    assert score.pearson_within == pytest.approx(stats.pearsonr(*within).statistic)
    assert score.pearson_within == pytest.approx(0.5588005588008382)


def test_icc_is_the_two_way_random_one() -> None:
    x, y, _ = judges(0)
    table = DataFrame({"v": [*x, *y], "item": [*range(60)] * 2, "judge": ["x"] * 60 + ["y"] * 60})
    anova = sm.stats.anova_lm(ols("v ~ C(item) + C(judge)", table).fit())
    rows, columns, error = anova["mean_sq"]
    expected = (rows - error) / (rows + error + 2 * (columns - error) / 60)
    assert judge_agreement(x, y).icc21 == pytest.approx(expected)


def test_judges_can_agree_on_the_question_and_on_nothing_within_it() -> None:
    base = np.repeat([0.1, 0.5, 0.9], 2)
    step = np.tile([0.05, -0.05], 3)
    score = judge_agreement(base + step, base - step, np.repeat([0, 1, 2], 2))
    assert score.pearson > 0.9
    assert score.pearson_within == pytest.approx(-1)


@settings(deadline=None)
@given(st.integers(0, 500))
def test_symmetry_complement_and_order(seed: int) -> None:
    x, y, groups = judges(seed, 12)
    score = judge_agreement(x, y, groups)
    swapped, turned = judge_agreement(y, x, groups), judge_agreement(1 - x, 1 - y, groups)
    order = np.random.default_rng(seed).permutation(12)
    shuffled = judge_agreement(x[order], y[order], groups[order])
    for name in ("ccc", "icc21", "pearson", "pearson_within", "spearman"):
        for other in (swapped, turned, shuffled):
            assert getattr(other, name) == pytest.approx(getattr(score, name), abs=1e-9)
    assert swapped.bias == pytest.approx(turned.bias) == pytest.approx(-score.bias)
    assert abs(score.ccc) <= abs(score.pearson) + 1e-12


def test_intervals_are_by_cluster_and_recompute_everything() -> None:
    x, y, groups = judges(1)
    score = judge_agreement(x, y, groups, how=Resampling(seed=4, draws=300))
    rng = np.random.default_rng(4)
    picks = rng.integers(0, 15, size=(300, 15))
    plain = []
    for pick in picks:
        rows = np.concatenate([np.flatnonzero(groups == g) for g in pick])
        plain.append(judge_agreement(x[rows], y[rows]).ccc)
    reach = np.sqrt(15 / 14) * stats.t.ppf(0.975, 14)
    np.testing.assert_allclose(
        (score.ci_lo, score.ci_hi), np.quantile(plain, stats.norm.cdf([-reach, reach])), rtol=1e-9
    )
    assert score.intervals["ccc"] == (score.ci_lo, score.ci_hi)
    assert score.intervals["pearson_within"][0] < score.pearson_within < score.intervals["pearson_within"][1]
    assert judge_agreement(X, Y, QUESTION).intervals == {}  # two clusters


def test_a_judge_who_never_varies_and_too_few_readings() -> None:
    flat = judge_agreement([0.5, 0.5, 0.5], [0.1, 0.6, 0.8])
    assert (flat.status, flat.ccc, flat.bias) == ("zero_variance", 0, pytest.approx(0))
    assert np.isnan([flat.pearson, flat.spearman, flat.pearson_within]).all()
    one = judge_agreement([0.5, np.nan], [0.1, 0.2])
    assert (one.status, one.n_dropped, np.isnan(one.ccc)) == ("too_few", 1, True)
    alone = judge_agreement(X, Y)
    assert np.isnan(alone.pearson_within)
    # Within each question one judge is constant, so there is nothing to correlate there.
    still = judge_agreement([0.1, 0.1, 0.7, 0.7], [0.1, 0.2, 0.6, 0.9], [0, 0, 1, 1])
    assert np.isnan(still.pearson_within)
    assert np.isfinite(still.pearson)


def test_a_reading_beyond_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"y: -1\.5 is no difference"):
        judge_agreement([0.5], [-1.5])
