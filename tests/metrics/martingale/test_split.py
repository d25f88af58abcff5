import numpy as np
import pytest
import statsmodels.api as sm

from doxascope.metrics import (
    Resampling,
    brier_on_abs_martingale,
    brier_on_split_martingale,
    brier_update,
    martingale_score,
)


def cells(
    seed: int, slopes: np.ndarray, spreads: np.ndarray, n_questions: int = 60
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Each cell has calibrated priors, and its own slope and spread of updates."""
    rng = np.random.default_rng(seed)
    k = len(slopes)
    b = rng.uniform(0.25, 0.75, k * n_questions)
    y = rng.random(len(b)) < b
    cell, question = np.repeat(np.arange(k), n_questions), np.tile(np.arange(n_questions), k)
    d = slopes[cell] * (b - 0.5) + rng.uniform(-1, 1, len(b)) * spreads[cell]
    return b, np.clip(b + d, 0, 1), y.astype(float), question, cell


def test_one_split_is_a_weighted_regression_of_halves() -> None:
    b, q, y, question, cell = cells(0, np.linspace(-0.3, 0.5, 8), np.full(8, 0.1), 20)
    ours = brier_on_split_martingale(b, q, y, question, cell, splits=1, how=Resampling(seed=2, draws=50))
    half = np.random.default_rng(2).permuted(np.tile(np.arange(20) % 2, (1, 1)), axis=1)[0]
    coefs = []
    for a in (0, 1):
        m, w, post, prior = [], [], [], []
        for c in range(8):
            here, there = ((cell == c) & (half[question] == s) for s in (a, 1 - a))
            score = martingale_score(b[here], q[here])
            update = brier_update(b[there], q[there], y[there])
            m.append(score.M)
            w.append(score.se**-2)
            post.append(update.brier_post)
            prior.append(update.brier_prior)
        x = np.column_stack([np.ones(8), m, prior])
        coefs.append(sm.WLS(post, x, weights=w).fit().params[1])  # pyright: ignore[reportArgumentType]
    assert ours.coef == pytest.approx(np.mean(coefs))
    assert (ours.n_cells, ours.n_clusters) == (8, 20)


def test_noisy_updates_fool_the_published_regression_and_not_the_split_one() -> None:
    """No cell has a slope; they differ in how noisy their updates are."""
    rejected = np.zeros(2)
    runs = 25
    for seed in range(runs):
        b, q, y, question, cell = cells(seed, np.zeros(24), np.linspace(0.02, 0.25, 24), 150)
        each = [(b[cell == c], q[cell == c], y[cell == c]) for c in range(24)]
        slopes = [martingale_score(one[0], one[1]).M for one in each]
        updates = [brier_update(*one, how=Resampling(draws=2)) for one in each]
        scores, controls = [u.brier_post for u in updates], [u.brier_prior for u in updates]
        split = brier_on_split_martingale(b, q, y, question, cell, splits=4, how=Resampling(draws=99))
        rejected += [
            brier_on_abs_martingale(slopes, scores, [controls]).p < 0.05,
            split.p < 0.05 and split.coef > 0,
        ]
    assert rejected[0] / runs > 0.2
    assert rejected[1] / runs < 0.1


def test_slopes_that_cost_accuracy_are_found() -> None:
    b, q, y, question, cell = cells(1, np.linspace(0, 1.0, 12), np.full(12, 0.02), 150)
    score = brier_on_split_martingale(b, q, y, question, cell, splits=4, how=Resampling(draws=200))
    assert score.ci_lo > 0
    same = brier_on_split_martingale(1 - b, 1 - q, 1 - y, question, cell, splits=4, how=Resampling(draws=200))
    assert (same.coef, same.ci_lo) == pytest.approx((score.coef, score.ci_lo))


def test_a_prior_that_all_cells_share_is_no_regressor() -> None:
    b, _, y, question, cell = cells(3, np.zeros(8), np.full(8, 0.1), 40)
    rng = np.random.default_rng(4)
    b, y = np.tile(b[:40], 8), np.tile(y[:40], 8)
    q = np.clip(b + np.linspace(-0.2, 0.2, 8)[cell] * (b - 0.5) + rng.uniform(-0.1, 0.1, 320), 0, 1)
    score = brier_on_split_martingale(b, q, y, question, cell, splits=2, how=Resampling(draws=50))
    assert np.isfinite([score.coef, score.se]).all()


def test_too_little_data_has_no_regression() -> None:
    b, q, y, question, cell = cells(2, np.zeros(4), np.full(4, 0.1), 20)
    assert brier_on_split_martingale(b, q, y, question, cell).status == "too_few"
    b, q, y, question, cell = cells(2, np.zeros(6), np.full(6, 0.1), 8)
    few = brier_on_split_martingale(b, q, y, question, cell)
    assert (few.status, few.n_cells, np.isnan(few.coef)) == ("too_few", 6, True)
    b, q, y, question, cell = cells(2, np.linspace(-0.5, 0, 6), np.zeros(6), 20)  # exactly linear, or still
    assert brier_on_split_martingale(b, q, y, question, cell).status == "undefined"
    with pytest.raises(ValueError, match="clusters: shape"):
        brier_on_split_martingale(b, q, y, question, cell[:-1])


def test_a_cell_of_one_question_has_no_other_half_and_is_left_out() -> None:
    table = cells(0, np.linspace(-0.3, 0.5, 8), np.full(8, 0.1), 20)
    *_, question, cell = table
    question[cell == 7] = 0
    how = Resampling(seed=2, draws=50)
    rest = brier_on_split_martingale(*(column[cell < 7] for column in table), splits=1, how=how)
    assert brier_on_split_martingale(*table, splits=1, how=how).coef == pytest.approx(rest.coef)


def test_updates_of_a_millionth_have_a_slope_too() -> None:
    spreads = np.full(8, 1e-6)
    assert np.isfinite(brier_on_split_martingale(*cells(0, 10 * spreads, spreads, 20), how=Resampling(draws=50)).coef)
