import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from doxascope.metrics import (
    martingale_moments,
    martingale_score,
    martingale_slope,
    martingale_within,
    paired_difference_moments,
    paired_family,
    paired_slope_difference,
)

seeds = st.integers(0, 10_000)


def two_kinds(seed: int, g: int = 12, each: int = 3) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    b1, b2 = rng.beta(0.6, 0.6, (2, g * each))
    shared = rng.normal(0, 0.1, g * each)
    return b1, np.clip(b1 + shared, 0, 1), b2, np.clip(0.7 * b2 + 0.15 + shared, 0, 1), np.repeat(np.arange(g), each)


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_both_slopes_lose_a_question_together(seed: int) -> None:
    b1, q1, b2, q2, question = two_kinds(seed)

    def gap(rows: np.ndarray) -> float:
        return float(np.polyfit(b1[rows], q1[rows], 1)[0] - np.polyfit(b2[rows], q2[rows], 1)[0])

    score = paired_slope_difference((b1, q1), (b2, q2), question)
    moves = np.array([gap(question != g) for g in range(12)]) - gap(question >= 0)
    assert score.difference == pytest.approx(gap(question >= 0))
    assert score.se == pytest.approx(np.sqrt(11 / 12 * (moves**2).sum()))
    u, v = (b - b.mean() for b in (b1, b2))
    share = [((u / (u @ u)) ** 2 + (v / (v @ v)) ** 2)[question == g].sum() for g in range(12)]
    effective = np.sum(share) ** 2 / np.square(share).sum()
    assert (score.effective_clusters, score.df) == pytest.approx((effective, effective - 1))
    assert score.p == pytest.approx(2 * stats.t.sf(abs(score.difference / score.se), effective - 1))
    turned = paired_slope_difference((b2, q2), (b1, q1), question)
    assert (turned.difference, turned.p) == pytest.approx((-score.difference, score.p))
    assert (score.first, score.second) == pytest.approx((martingale_score(b1, q1).M, martingale_score(b2, q2).M))


def test_missing_rows_leave_both_and_degenerate_kinds_are_named() -> None:
    b1, q1, b2, q2, question = two_kinds(0)
    holed = b2.copy()
    holed[4] = np.nan
    rest = np.arange(36) != 4
    score = paired_slope_difference((b1, q1), (holed, q2), question)
    assert score.first == pytest.approx(martingale_score(b1[rest], q1[rest]).M)
    assert (score.n_rows, score.n_dropped) == (35, 1)
    flat = np.full(36, 0.4)
    assert paired_slope_difference((b1, q1), (flat, q2), question).status == "zero_variance_prior"
    same = paired_slope_difference((b1, q1), (b1, q1), question)
    assert (same.difference, same.status) == (pytest.approx(0, abs=1e-12), "zero_cluster_variance")
    assert paired_slope_difference(([0.5], [0.5]), ([0.5], [0.5])).status == "too_few"


def test_a_family_gets_its_draws_and_a_p_at_the_floor_says_so() -> None:
    b1, q1, b2, _, question = two_kinds(1, g=60)
    one, two = (martingale_moments(b, q) for b, q in ((b1, q1), (b2, 0.2 * b2 + 0.4)))
    few = paired_difference_moments(one, two, martingale_slope, question)
    many = paired_difference_moments(one, two, martingale_slope, question, family_size=60)
    assert (few.params["draws"], many.params["draws"]) == (2000, 48_000)
    assert few.p_at_floor
    assert many.p_at_floor
    assert paired_family({i: many for i in range(60)})[0].p_adjusted < 0.05
    alike = paired_difference_moments(one, one + 0, martingale_slope, question)
    assert not alike.p_at_floor
    by_t = paired_slope_difference((b1, q1), (b2, 0.2 * b2 + 0.4), question)
    assert by_t.p < 1e-6 < few.p
    with pytest.raises(ValueError, match="family_size: 0"):
        paired_difference_moments(one, two, martingale_slope, question, family_size=0)


def test_with_cells_the_slopes_are_those_within_them() -> None:
    b1, q1, b2, q2, question = two_kinds(3)
    cell = np.tile(["x", "y", "z"], 12)
    q1 = np.clip(q1 + 0.2 * (cell == "y"), 0, 1)
    score = paired_slope_difference((b1, q1), (b2, q2), question, cells=cell)
    one, two = (martingale_within(b, q, question, cell).M_within for b, q in ((b1, q1), (b2, q2)))
    assert (score.first, score.second, score.difference) == pytest.approx((one, two, one - two))
    left_out = []
    for g in range(12):
        rest = question != g
        of = [martingale_within(b[rest], q[rest], question[rest], cell[rest]) for b, q in ((b1, q1), (b2, q2))]
        left_out.append(of[0].M_within - of[1].M_within)
    assert score.se == pytest.approx(np.sqrt(11 / 12 * ((np.array(left_out) - score.difference) ** 2).sum()))
    alone = paired_slope_difference((b1, q1), (b2, q2), question, cells=np.zeros(36))
    assert alone == paired_slope_difference((b1, q1), (b2, q2), question)
    within_none = paired_slope_difference((b1, q1), (b2, q2), question, cells=np.arange(36))
    assert within_none.status == "zero_variance_prior"
