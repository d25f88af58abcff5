"""The turn from which repeated answers are a martingale, against laws whose slope is known."""

import numpy as np
import pytest

from doxascope.metrics import Resampling, settling_turn, turn_slopes


def drawn(slopes: list[float], noise: float = 0.0, n: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Paths whose expected update at turn t is slopes[t] (x - 1/2), read with fresh noise each time; and clusters."""
    rng = np.random.default_rng(seed)
    x = [rng.uniform(0.2, 0.8, n)]
    for slope in slopes:
        x.append(x[-1] + slope * (x[-1] - 0.5) + 0.02 * rng.standard_normal(n))
    latent = np.column_stack(x)
    error = noise * rng.standard_normal(latent.shape)
    error[:, 0] = 0  # a first turn is read without a history, so that nothing but its order is in it
    return latent + error, np.arange(n) // 20


def test_the_slope_of_each_turn_is_found_in_spite_of_noise_that_least_squares_would_take_for_a_return() -> None:
    planted = [-0.3, -0.1, 0.0, 0.2]
    paths, groups = drawn(planted, noise=0.1)
    for slope, found in zip(planted, turn_slopes(paths, groups, how=Resampling(draws=200)), strict=True):
        assert abs(found.M - slope) < 4 * found.se
    x, d = paths[:, 2], np.diff(paths, axis=1)[:, 2]
    assert np.polyfit(x, d, 1)[0] < -0.15  # what plain regression says of turn 3, whose slope is 0


def test_it_settles_where_the_slope_ends() -> None:
    found = settling_turn(*drawn([-0.4, -0.4, 0.0, 0.0, 0.0, 0.0, 0.0]), how=Resampling(draws=200))
    assert (found.turn, found.never) == (3, 0)
    assert found.ci_lo <= 3 <= found.ci_hi
    never = settling_turn(*drawn([-0.4] * 7), how=Resampling(draws=200))
    assert np.isnan(never.turn)
    assert (never.status, never.never) == ("not_settled", 1)


def test_of_few_clusters_the_interval_is_made_of_the_slopes() -> None:
    paths, groups = drawn([-0.4, -0.4, 0.0, 0.0, 0.0, 0.0, 0.0])
    few = settling_turn(paths, groups % 6)
    assert (few.turn, few.ci_lo, few.ci_hi) == (3, 3, 3)  # 4,000 paths: each slope is known within 0.01
    noisy = settling_turn(paths[:150], groups[:150] % 6)
    assert noisy.ci_lo <= 3 < noisy.ci_hi  # nothing shows that 150 paths stay within the margin
    assert np.isnan(noisy.never)
    assert "jackknife" in noisy.ci_method
    assert np.isnan(settling_turn(paths, groups * 0).ci_lo)


def test_beliefs_that_never_move_have_settled_at_once() -> None:
    paths = np.repeat(np.random.default_rng(0).uniform(size=(30, 1)), 6, axis=1)
    assert settling_turn(paths, np.arange(30), how=Resampling(draws=50)).turn == 1
    assert [found.M for found in turn_slopes(paths, np.arange(30), how=Resampling(draws=50))] == [0.0] * 5


@pytest.mark.parametrize("column", [0, 3])
def test_a_path_with_a_gap_is_dropped_and_counted(column: int) -> None:
    paths, groups = drawn([0.0] * 4, n=400)
    paths[7, column] = np.nan
    found = settling_turn(paths, groups, how=Resampling(draws=50))
    assert (found.n_rows, found.n_dropped) == (399, 1)
    assert found.turn == settling_turn(np.delete(paths, 7, axis=0), np.delete(groups, 7), how=Resampling(draws=50)).turn


def test_one_cluster_has_the_same_slopes_without_an_interval() -> None:
    paths, groups = drawn([-0.3, 0.2], n=200)
    alone = turn_slopes(paths, groups * 0)
    assert [found.M for found in alone] == [found.M for found in turn_slopes(paths, groups, how=Resampling(draws=50))]
    assert {found.status for found in alone} == {"one_cluster"}
    assert "one_cluster" not in {found.status for found in turn_slopes(paths, groups % 2)}
