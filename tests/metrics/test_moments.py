import numpy as np
import pytest

from doxascope.metrics.moments import clipped_logit, complete_rows, moment_interval


def test_rows_are_kept_only_where_nothing_is_missing() -> None:
    (x, names), counts = complete_rows(x=[[0.1, 0.2], [np.nan, 0.3], [0.4, 0.5]], names=np.array(["a", "b", None]))
    np.testing.assert_array_equal(x, [[0.1, 0.2]])
    assert names.tolist() == ["a"]
    assert counts == {"n_rows": 1, "n_dropped": 2, "reasons": {"undefined": 2}}
    with pytest.raises(ValueError, match="x 1, y 2"):
        complete_rows(x=[1.0], y=[1.0, 2.0])


def test_few_clusters_get_a_jackknife_that_is_exact_for_a_mean() -> None:
    values = np.array([0.1, 0.4, 0.2, 0.9])
    moments = np.column_stack([values, np.ones(4)])
    made = moment_interval(moments, np.arange(4), lambda s: s[:, 0] / s[:, 1], seed=0)
    assert made["se"] == pytest.approx(values.std(ddof=1) / 2)
    assert made["ci_method"] == "t over 4 clusters, jackknife"
    assert (made["ci_lo"] + made["ci_hi"]) / 2 == pytest.approx(values.mean())


def test_many_clusters_get_a_bootstrap_and_one_gets_nothing() -> None:
    values = np.random.default_rng(0).normal(size=200)
    moments = np.column_stack([values, np.ones(200)])
    made = moment_interval(moments, np.arange(200), lambda s: s[:, 0] / s[:, 1], seed=0)
    assert made["se"] == pytest.approx(values.std() / np.sqrt(200), rel=0.1)
    assert made["params"] == {"level": 0.95, "draws": 2000, "seed": 0}
    one = moment_interval(moments, np.zeros(200), lambda s: s[:, 0] / s[:, 1], seed=0)
    assert one == {"n_clusters": 1, "ci_method": "none: one cluster"}


def test_log_odds_of_certainty_are_finite_and_counted() -> None:
    value, n_clipped = clipped_logit([0.0, 0.5, 1.0, np.nan], "p")
    assert n_clipped == 2
    assert value[0] == pytest.approx(-value[2])
    assert value[1] == 0
    assert np.isnan(value[3])
