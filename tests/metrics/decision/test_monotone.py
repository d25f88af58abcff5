import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from doxascope.metrics import Resampling, monotone_exact_shares, monotone_order_test, monotone_pairwise


def choices(hits: list[int], size: int = 10) -> tuple[np.ndarray, list[str]]:
    actions = [action for h in hits for action in ["Y"] * h + ["N"] * (size - h)]
    return np.arange(len(hits)).repeat(size), actions


def test_one_of_three_pairs_violates() -> None:
    bins, actions = choices([1, 8, 2])
    score = monotone_pairwise(bins=bins, actions=actions, a1="Y", a2="N", alpha=0.05)
    np.testing.assert_allclose(score.shares, [0.1, 0.8, 0.2])
    chance = stats.hypergeom.sf(7, 20, 10, 10)  # at least 8 of the 10 Y fall in the lower bin
    np.testing.assert_allclose(score.p_values, [chance])
    assert (score.n_bins, score.n_pairs, score.n_violations, score.n_significant) == (3, 3, 1, 1)
    assert (score.frac_violations, score.frac_significant) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert score.n_significant_holm == 1
    assert monotone_pairwise(bins, actions, "Y", "N", alpha=0.01).n_significant == 0
    assert monotone_pairwise(bins, actions, "Y", "N", alpha=float(score.p_values[0])).n_significant == 0  # p < alpha


def test_holm_takes_the_number_of_pairs_into_account() -> None:
    bins, actions = choices([7, 2, 3, 4, 5])
    score = monotone_pairwise(bins, actions, "Y", "N")
    assert score.n_significant == 1
    assert score.n_significant_holm == 0


def test_only_bins_where_either_action_occurs_are_compared() -> None:
    actions = ["Y", "N", "D", "D", "Y", "Y"]
    score = monotone_pairwise([0, 0, 1, 1, 2, 2], actions, "Y", "N")
    assert (score.n_bins, score.n_pairs, score.n_violations) == (2, 1, 0)
    assert score.p_values.size == 0
    np.testing.assert_array_equal(score.shares, [0.5, 1.0])


def test_a_single_bin_has_no_pair() -> None:
    score = monotone_pairwise([0, 0, -1], ["Y", "N", "Y"], "Y", "N")
    assert (score.status, score.n_pairs, score.n_dropped) == ("too_few", 0, 1)
    assert np.isnan([score.frac_significant, score.frac_violations]).all()
    assert monotone_pairwise([], [], "Y", "N").n_bins == 0
    with pytest.raises(ValueError, match="lengths differ"):
        monotone_pairwise([0, 1], ["Y"], "Y", "N")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("YND")), min_size=1, max_size=30))
def test_turning_the_belief_and_the_actions_around_changes_nothing(rows: list) -> None:
    bins, actions = np.array([b for b, _ in rows]), [a for _, a in rows]
    plain = monotone_pairwise(bins, actions, "Y", "N")
    turned = monotone_pairwise(3 - bins[::-1], actions[::-1], "N", "Y")
    assert turned.n_violations == plain.n_violations
    np.testing.assert_allclose(np.sort(turned.p_values), np.sort(plain.p_values))
    np.testing.assert_allclose(turned.shares, 1 - plain.shares[::-1])


def test_order_test_is_silent_on_rising_shares_and_finds_a_fall() -> None:
    rising = monotone_order_test(*choices([1, 4, 4, 9]), "Y", "N", how=Resampling(draws=499))
    assert (rising.deviance, rising.p) == (0.0, 1.0)
    falling = monotone_order_test(*choices([9, 1]), "Y", "N", how=Resampling(draws=999))
    # Two bins that fall are pooled: the statistic is the G test of the table.
    g = stats.chi2_contingency([[9, 1], [1, 9]], correction=False, lambda_="log-likelihood").statistic
    assert falling.deviance == pytest.approx(g)
    assert falling.p < 0.01
    assert monotone_order_test([0, 0], ["Y", "N"], "Y", "N").status == "too_few"


def test_order_test_holds_its_level_on_a_flat_curve() -> None:
    rng = np.random.default_rng(0)
    p = [
        monotone_order_test(*choices(list(rng.binomial(20, 0.4, 4)), 20), "Y", "N", how=Resampling(i, 199)).p
        for i in range(120)
    ]
    assert np.mean(np.array(p) <= 0.1) <= 0.17


def test_exact_shares_that_rise_are_perfect() -> None:
    p = np.linspace(0.1, 0.9, 9)
    score = monotone_exact_shares(p=p, share=p**2)
    assert (score.discordant, score.iso_rms, score.iso_r2, score.tau) == pytest.approx((0, 0, 1, 1))
    falling = monotone_exact_shares(p, 1 - p)
    assert (falling.discordant, falling.iso_r2, falling.tau) == pytest.approx((1, 0, -1))
    assert falling.iso_rms == pytest.approx(np.std(p))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=15))
def test_discordance_counts_pairs_that_are_tied_in_neither(rows: list) -> None:
    p, share = np.array(rows).T / 5
    score = monotone_exact_shares(p, share)
    signs = [np.sign(p[i] - p[j]) * np.sign(share[i] - share[j]) for i in range(len(p)) for j in range(i)]
    untied = [s for s in signs if s != 0]
    expected = np.mean(np.array(untied) < 0) if untied else np.nan
    assert score.discordant == pytest.approx(expected, nan_ok=True)
    turned = monotone_exact_shares(1 - p[::-1], 1 - share[::-1])
    assert turned.discordant == pytest.approx(expected, nan_ok=True)
    assert turned.iso_rms == pytest.approx(score.iso_rms, abs=1e-9)


def test_constant_shares_and_beliefs() -> None:
    flat = monotone_exact_shares([0.1, 0.5], [0.4, 0.4])
    assert (flat.status, flat.iso_rms) == ("constant_share", 0)
    assert np.isnan([flat.iso_r2, flat.discordant, flat.tau]).all()
    blind = monotone_exact_shares([0.5, 0.5], [0.2, 0.4])
    assert (blind.status, blind.iso_rms, blind.iso_r2) == (
        "constant_belief",
        pytest.approx(0.1),
        pytest.approx(0),
    )
    assert np.isnan(blind.discordant)
    assert monotone_exact_shares([0.5, np.nan], [0.2, 0.4]).status == "too_few"
