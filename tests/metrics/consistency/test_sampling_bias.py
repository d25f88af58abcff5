import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from doxascope.metrics import (
    Resampling,
    chance_corrected,
    consistency_kappa,
    expected_jsd_binomial,
    jsd,
    jsd_plugin_bias,
)
from doxascope.metrics.consistency import sampling_bias

LN2 = np.log(2)


def enumerated_jsd(p: float, q: float, n1: int, n2: int) -> float:
    total = 0.0
    for i in range(n1 + 1):
        for j in range(n2 + 1):
            chance = stats.binom.pmf(i, n1, p) * stats.binom.pmf(j, n2, q)
            total += chance * float(jsd([i / n1, 1 - i / n1], [j / n2, 1 - j / n2]))
    return total


@pytest.mark.parametrize(("p", "q", "n1", "n2"), [(0.5, 0.5, 3, 7), (0.1, 0.6, 5, 4), (0.0, 1.0, 4, 2)])
def test_expected_jsd_equals_the_sum_over_all_samples(p: float, q: float, n1: int, n2: int) -> None:
    assert expected_jsd_binomial(p=p, q=q, n1=n1, n2=n2) == pytest.approx(enumerated_jsd(p, q, n1, n2), abs=1e-14)


@pytest.mark.parametrize(
    ("n1", "n2", "published"), [(5000, 5000, 7e-5), (50, 50, 0.007), (36, 7, 0.035), (23, 39, 0.013)]
)
def test_equal_beliefs_diverge_by_sampling_alone(n1: int, n2: int, published: float) -> None:
    assert expected_jsd_binomial(p=0.5, q=0.5, n1=n1, n2=n2) == pytest.approx(published, rel=0.06)


def test_the_first_order_terms_are_reached_in_large_samples() -> None:
    assert jsd_plugin_bias(k=2, n1=50, n2=50) == pytest.approx((1 / 50 + 1 / 50) / (8 * LN2))
    assert expected_jsd_binomial(p=0.4, q=0.4, n1=4000, n2=2000) == pytest.approx(
        float(jsd_plugin_bias(2, 4000, 2000)), rel=2e-3
    )


def test_no_sample_is_undefined_and_a_negative_one_is_refused() -> None:
    assert np.isnan(jsd_plugin_bias(2, 0, 5))
    assert np.isnan(expected_jsd_binomial(p=0.5, q=0.5, n1=0, n2=5))
    assert np.isnan(expected_jsd_binomial(p=np.nan, q=0.5, n1=5, n2=5))
    assert expected_jsd_binomial(p=2.3e-308, q=0.0, n1=4, n2=4) == 0
    with pytest.raises(ValueError, match="n2: -1 is negative"):
        jsd_plugin_bias(2, 1, -1)
    with pytest.raises(ValueError, match="n1: -3 is negative"):
        expected_jsd_binomial(p=0.5, q=0.5, n1=-3, n2=1)
    with pytest.raises(ValueError, match="options"):
        jsd_plugin_bias(0, 1, 1)


@settings(max_examples=25, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 12), st.integers(1, 12))
def test_expected_jsd_ignores_labels_and_order(p: float, q: float, n1: int, n2: int) -> None:
    plain = expected_jsd_binomial(p=p, q=q, n1=n1, n2=n2)
    assert plain == pytest.approx(expected_jsd_binomial(p=1 - p, q=1 - q, n1=n1, n2=n2), abs=1e-10)
    assert plain == pytest.approx(expected_jsd_binomial(p=q, q=p, n1=n2, n2=n1), abs=1e-12)


def test_chance_correction_is_undefined_where_chance_is_perfect() -> None:
    assert chance_corrected(0.9, 0.6).kappa == pytest.approx(0.75)
    perfect = chance_corrected(1.0, 1.0)
    assert np.isnan(perfect.kappa)
    assert perfect.status == "chance_is_perfect"
    some = chance_corrected([0.9, 1.0, np.nan], [0.6, 1.0, 0.5])
    assert (some.status, some.n_rows, some.n_dropped) == ("ok", 1, 2)
    assert chance_corrected(np.nan, 0.5).status == "undefined"


def beliefs(seed: int, n_items: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.random(n_items).repeat(2)
    return np.column_stack([a, 1 - a]), np.arange(n_items).repeat(2), np.tile([0, 1], n_items)


def test_chance_level_is_the_mean_over_all_exchanges_between_items() -> None:
    prior, item, place = beliefs(0, 6)
    post = prior[::-1].copy()
    scores = [
        1 - jsd(prior[i], post[j]) for i in range(12) for j in range(12) if item[i] != item[j] and place[i] == place[j]
    ]
    score = consistency_kappa(prior, post, item, place)
    assert score.c_perm == pytest.approx(np.mean(scores), abs=1e-12)
    assert score.c == pytest.approx(np.mean(1 - jsd(prior, post)))
    assert score.kappa == pytest.approx((score.c - score.c_perm) / (1 - score.c_perm))
    assert (score.n_clusters, score.ci_method) == (6, "none: 6 clusters")


@pytest.mark.parametrize("readings", [1, 2])
def test_exchanges_are_summed_a_few_clusters_at_a_time(monkeypatch: pytest.MonkeyPatch, readings: int) -> None:
    """Also where a cluster has several readings at one place."""
    prior, item, place = (np.concatenate([one] * readings) for one in beliefs(3, 40))
    post = np.random.default_rng(4).permutation(prior)
    whole = consistency_kappa(prior, post, item, place, how=Resampling(draws=100))
    for name in ("PAIRS", "AT_ONCE"):
        monkeypatch.setattr(f"{sampling_bias.__name__}.{name}", 333)
    few = consistency_kappa(prior, post, item, place, how=Resampling(draws=100))
    for name in ("c_perm", "kappa", "se", "ci_lo", "ci_hi"):
        assert getattr(few, name) == pytest.approx(getattr(whole, name), rel=1e-12), name


def test_kept_beliefs_have_kappa_one_and_shuffled_ones_have_an_interval_over_zero() -> None:
    prior, item, place = beliefs(1, 60)
    assert consistency_kappa(prior, prior, item, place).kappa == pytest.approx(1)
    shuffled = np.random.default_rng(2).permutation(60)
    post = prior.reshape(60, 2, 2)[shuffled].reshape(120, 2)
    score = consistency_kappa(prior, post, item, place, how=Resampling(draws=500))
    assert score.ci_lo < 0 < score.ci_hi
    assert score.c > 0.7  # and yet it looks consistent


def test_a_position_locked_model_is_consistent_and_has_no_kappa() -> None:
    same = np.tile([0.9, 0.1], (8, 1))
    score = consistency_kappa(same, same, np.arange(8))
    assert (score.c, score.status) == (1.0, "chance_is_perfect")
    assert np.isnan(score.kappa)


def test_nothing_to_exchange_with_has_no_chance_level() -> None:
    pair = np.array([[0.3, 0.7], [0.6, 0.4]])
    assert consistency_kappa(pair, pair, ["a", "a"]).status == "too_few"
    assert consistency_kappa(pair, pair, ["a", "b"], [0, 1]).status == "no_exchange"
    dropped = consistency_kappa(np.full((2, 2), np.nan), pair, ["a", "b"])
    assert (dropped.status, dropped.n_dropped) == ("too_few", 2)
    with pytest.raises(ValueError, match=r"\[n, 2\]"):
        consistency_kappa([0.5, 0.5], [0.5, 0.5], ["a", "b"])
