import numpy as np
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas import DataFrame
from statsmodels.stats.anova import anova_lm

from doxascope.metrics import (
    Resampling,
    bootstrap_rows,
    martingale_score,
    method_correlation,
    method_reliability,
    reliability_icc,
    wording_study,
)
from doxascope.metrics.scoring.engine import score_samples
from doxascope.metrics.tables.samples import Elicited


def readings(
    seed: int, n: int = 80, k: int = 6, item: float = 1.0, wording: float = 0.5, rest: float = 0.7
) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return item * rng.normal(size=(n, 1)) + wording * rng.normal(size=k) + rest * rng.normal(size=(n, k))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(2, 6))
def test_components_are_those_of_a_two_way_analysis_of_variance(seed: int, n: int, k: int) -> None:
    x = 100 + readings(seed, n, k)
    long = DataFrame({"x": x.ravel(), "i": np.repeat(np.arange(n), k), "w": np.tile(np.arange(k), n)})
    table = anova_lm(smf.ols("x ~ C(i) + C(w)", long).fit())
    ms_item, ms_wording, rest = table["mean_sq"].to_numpy(dtype=float)
    study = wording_study(x, how=Resampling(draws=20))
    item, wording = (ms_item - rest) / k, (ms_wording - rest) / n
    assert (study.item, study.wording, study.item_by_wording) == pytest.approx((item, wording, rest))
    assert study.reliability_one == pytest.approx(item / (item + rest))
    mean = item / (item + rest / k)
    assert study.reliability_mean == pytest.approx(mean if mean >= 0 else np.nan, nan_ok=True)
    assert study.dependability_one == pytest.approx(item / (item + rest + wording))


def test_a_resample_recomputes_everything_by_cluster() -> None:
    x, groups = readings(1, 40), np.repeat(np.arange(20), 2)
    study = wording_study(x, groups, how=Resampling(seed=3, draws=60))
    drawn = bootstrap_rows(
        lambda rows: wording_study(x[rows], how=Resampling(draws=1)).reliability_one,
        groups,
        how=Resampling(seed=3, draws=60),
    )
    assert study.se == pytest.approx(drawn.std(ddof=1))
    assert study.ci_lo < study.reliability_one < study.ci_hi
    assert study.mean_lo < study.reliability_mean < study.mean_hi
    assert study.n_clusters == 20


def test_planted_components_come_back_within_their_intervals() -> None:
    truth = 1 / (1 + 0.49)
    hits = 0
    for seed in range(150):
        study = wording_study(readings(seed), how=Resampling(draws=300))
        hits += study.ci_lo <= truth <= study.ci_hi
    assert hits / 150 > 0.95 - 2 * np.sqrt(0.05 * 0.95 / 150) - 0.02  # the wordings are six of many
    pooled = np.mean([wording_study(readings(seed), how=Resampling(draws=1)).item_by_wording for seed in range(150)])
    assert pooled == pytest.approx(0.49, rel=0.03)


def test_a_slope_on_one_wording_shrinks_by_the_reliability_of_one() -> None:
    """Item x wording attenuates like noise, with another wording after."""
    rng = np.random.default_rng(4)
    b = 0.5 + 0.02 * readings(4, 4000, 6, wording=0)
    belief = rng.permutation(b.shape[1])
    study = wording_study(b, how=Resampling(draws=20))
    slope = martingale_score(b[:, belief[0]], b[:, belief[1]])
    assert pytest.approx(study.reliability_one - 1, abs=0.03) == slope.M


def test_statuses() -> None:
    rng = np.random.default_rng(5)
    assert wording_study(readings(0)).status == "ok"
    assert wording_study(readings(0, k=3)).status == "few_wordings"
    assert wording_study(rng.normal(size=(40, 6))).status == "weak_reliability"
    assert wording_study(np.ones((5, 6))).status == "zero_variance"
    assert wording_study(np.ones((5, 1))).status == "one_wording"
    assert wording_study(readings(0), np.zeros(80)).status == "one_cluster"
    holed = readings(0)
    holed[3, 2] = np.nan
    assert (wording_study(holed).n_rows, wording_study(holed).n_dropped) == (79, 1)
    assert wording_study([[np.nan, 0.1]]).status == "too_few"
    with pytest.raises(ValueError, match=r"readings: shape \(3,\)"):
        wording_study([0.1, 0.2, 0.3])


def test_the_reliability_of_a_mean_below_zero_is_not_estimable_under_any_name() -> None:
    """Readings that repel: the estimate for their mean is 1 - 1/F, which has no lower end."""
    one = np.random.default_rng(0).normal(size=40)
    repel = np.column_stack([one, 0.3 * np.random.default_rng(1).normal(size=40) - one])
    icc, study, alpha = reliability_icc(repel), wording_study(repel), method_reliability(repel)
    assert -1 <= icc.icc1 < 0
    assert -1 <= study.reliability_one < 0
    assert np.isnan([icc.icc_mean, study.reliability_mean, alpha.reliability]).all()
    assert alpha.status == "not_estimable"
    both = method_correlation(repel, repel)
    assert np.isnan([both.reliability_first, both.disattenuated]).all()
    readings = Elicited(kind="exact", method="a", belief=repel.mean(axis=1) / 9 + 0.5, readings=repel / 9 + 0.5,
                        wordings=repel / 9 + 0.5, coverage=np.ones(40))  # fmt: skip
    beside = {number.metric: number.beside for number in score_samples([readings], Resampling(draws=50), "all").numbers}
    assert beside["reliability"]["of the mean, without the bias"] == "not estimable"
    assert beside["reliability_wording"]["of their mean"] == "not estimable"
