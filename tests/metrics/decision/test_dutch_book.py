from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from doxascope.metrics import bet_payoffs, dutch_book

seeds = st.integers(0, 10_000)
NAN = float("nan")


def test_worked_books() -> None:
    over = dutch_book([0.6, 0.5], [[1, 0], [0, 1]])
    assert (over.loss, over.loss_per_bet) == (pytest.approx(0.1), pytest.approx(0.05))
    assert over.stakes == pytest.approx([1, 1])
    assert over.quadratic == pytest.approx(0.1 / np.sqrt(2))
    conditional = dutch_book([0.5, 0.5, 0.4], [[1, 1, 1], [1, 0, 0], [0, NAN, 0]])
    assert conditional.loss == pytest.approx(0.15)
    assert dutch_book([0.5, 0.5, 0.25], [[1, 1, 1], [1, 0, 0], [0, NAN, 0]]).loss == pytest.approx(0, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(2, 4), st.integers(1, 4))
def test_coherent_prices_lose_nothing_and_others_what_their_stakes_force(seed: int, worlds: int, bets: int) -> None:
    rng = np.random.default_rng(seed)
    pays = rng.integers(0, 2, (worlds, bets)).astype(float)
    weights = rng.dirichlet(np.ones(worlds))
    assert dutch_book(weights @ pays, pays).loss == pytest.approx(0, abs=1e-9)
    p = rng.random(bets)
    found = dutch_book(p, pays)
    assert np.abs(found.stakes).max() <= 1 + 1e-9
    assert min((p - pays) @ found.stakes) == pytest.approx(found.loss, abs=1e-9)
    # No vertex of the stakes does better, and by duality it is the L1 distance from the convex hull.
    assert found.loss >= max(min((p - pays) @ np.array(s)) for s in product((-1, 0, 1), repeat=bets)) - 1e-9
    away = min(
        minimize(
            lambda z: np.square(p - np.exp(z) @ pays / np.exp(z).sum()).sum(), rng.normal(size=worlds), tol=1e-14
        ).fun
        for _ in range(3)
    )
    assert found.quadratic == pytest.approx(np.sqrt(away), abs=2e-3)
    assert found.quadratic <= found.loss + 1e-9


@given(st.floats(0.01, 0.99), st.floats(0, 1))
def test_complements_lose_what_they_miss(p: float, q: float) -> None:
    assert dutch_book([p, q], [[1, 0], [0, 1]]).loss == pytest.approx(abs(p + q - 1), abs=1e-9)


def test_batches_missing_prices_and_malformed_payoffs() -> None:
    found = dutch_book([[0.6, 0.5], [0.5, NAN], [0.5, 0.5]], [[1, 0], [0, 1]])
    assert found.loss == pytest.approx([0.1, NAN, 0], nan_ok=True, abs=1e-9)
    assert (found.n_rows, found.n_dropped, found.stakes.shape) == (2, 1, (3, 2))
    with pytest.raises(ValueError, match=r"payoffs: shape \(2, 1\) for 2 prices"):
        dutch_book([0.5, 0.5], [[1], [0]])
    with pytest.raises(ValueError, match="give 1, 0, or NaN"):
        dutch_book([0.5, 0.5], [[2, 0], [0, 1]])
    with pytest.raises(ValueError, match="bet 1 is called off in every world"):
        dutch_book([0.5, 0.5], [[1, NAN], [0, NAN]])


def test_bets_are_made_of_events_and_conditions() -> None:
    worlds = ["rain", "sun", "snow"]
    pays = bet_payoffs(worlds, [["rain", "snow"], ["rain"]], [None, ["rain", "sun"]])
    np.testing.assert_array_equal(pays, [[1, 1], [0, 0], [1, NAN]])
    wrong: tuple[tuple[tuple[Any, ...], str], ...] = (
        ((worlds, [["hail"]]), "event of bet 0: 'hail' is none of the outcomes"),
        ((worlds, [["sun"]], [["hail"]]), "condition of bet 0: 'hail'"),
        ((worlds, [["sun"]], [[]]), "bet 0 is called off in every outcome"),
        ((["sun", "sun"], [["sun"]]), "names one twice"),
        ((worlds, [["sun"]], []), "0 conditions for 1 events"),
    )
    for arguments, message in wrong:
        with pytest.raises(ValueError, match=message):
            bet_payoffs(*arguments)


def test_many_sets_of_prices_are_solved_as_each_by_itself() -> None:
    rng = np.random.default_rng(0)
    pays = bet_payoffs("abc", [["a"], ["b"], ["c"], ["a"]], [None, None, None, ["a", "b"]])
    prices = rng.random((300, 4))
    whole = dutch_book(prices, pays)
    for i in range(0, 300, 37):
        assert whole.loss[i] == pytest.approx(dutch_book(prices[i], pays).loss, abs=1e-9)
