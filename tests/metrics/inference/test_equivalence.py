import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from doxascope.metrics import MARGINS, tost


def test_it_is_the_larger_of_two_one_sided_tests() -> None:
    test = tost(est=0.004, se=0.006, df=40, lo=-0.02, hi=0.02)
    assert test.p == test.p_upper == pytest.approx(stats.t.sf(0.016 / 0.006, 40))
    assert test.p_lower == pytest.approx(stats.t.sf(0.024 / 0.006, 40))
    assert test.p == pytest.approx(0.005500998662151048)
    assert test.equivalent is True


def test_it_agrees_with_statsmodels_on_data() -> None:
    x = np.random.default_rng(0).normal(0.01, 0.1, 30)
    reference = DescrStatsW(x).ttost_mean(-0.05, 0.05)[0]
    ours = tost(x.mean(), x.std(ddof=1) / np.sqrt(30), 29, -0.05, 0.05)
    assert ours.p == pytest.approx(reference)


@pytest.mark.parametrize("est", np.linspace(-0.04, 0.04, 17))
def test_equivalent_means_that_the_ninety_percent_interval_lies_within(est: float) -> None:
    test = tost(est, 0.01, np.inf, -0.03, 0.03)
    assert test.equivalent == (test.ci_lo > -0.03 and test.ci_hi < 0.03)
    mirrored = tost(-est, 0.01, np.inf, -0.03, 0.03)
    assert mirrored.p == pytest.approx(test.p)
    assert test.ci_hi - est == pytest.approx(1.6448536269514722 * 0.01)


@pytest.mark.parametrize(
    ("est", "se", "df", "status"),
    [
        (0.0, 0.0, 5, "zero_se"),
        (np.nan, 0.1, 5, "undefined"),
        (0.0, np.nan, 5, "undefined"),
        (0.0, 0.1, 0, "no_df"),
    ],
)
def test_without_an_error_nothing_is_claimed(est: float, se: float, df: float, status: str) -> None:
    test = tost(est, se, df, -0.02, 0.02)
    assert (test.status, test.equivalent) == (status, False)
    assert np.isnan(test.p)


def test_malformed_bounds_are_refused_and_the_default_margins_are_positive() -> None:
    with pytest.raises(ValueError, match="give lo < hi"):
        tost(0, 0.1, 5, 0.02, 0.02)
    with pytest.raises(ValueError, match=r"se: -0\.1 is negative"):
        tost(0, -0.1, 5, -0.02, 0.02)
    with pytest.raises(ValueError, match="alpha"):
        tost(0, 0.1, 5, -0.02, 0.02, alpha=0.5)
    assert all(margin > 0 for margin in MARGINS.values())
    assert MARGINS["martingale"] == 0.02
