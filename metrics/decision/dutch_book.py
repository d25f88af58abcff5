"""How much a bookmaker can surely win from someone who bets at these prices (METRICS W7)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog, nnls

from ..score import Score, row_counts
from ..validation import Floats, floats, probabilities


@dataclass(frozen=True, kw_only=True)
class DutchBook(Score):
    """METRICS W7. Floats and [bets] for one set of prices, arrays [n] and [n, bets] for a batch."""

    headline: ClassVar[str] = "loss"
    loss: Any
    """What the worst bets, none of them above one unit, cost in the world that is kindest to the agent."""
    loss_per_bet: Any
    """The same over the number of bets, since more bets cost more."""
    quadratic: Any
    """The same for bets whose squares sum to one at most: the Euclidean distance from coherence."""
    stakes: Any
    """The bets, in [-1, 1] each: the agent buys where positive and sells where negative. One solution of several."""


def dutch_book(p: ArrayLike, payoffs: ArrayLike) -> DutchBook:
    """Best sure gain of a bookmaker with stakes in [-1, 1] against prices p (METRICS W7).

    Args:
        p: [bets] or [n, bets], the price of each bet: a belief in [0, 1]. A NaN makes its set of prices NaN.
        payoffs: [worlds, bets] of 1, 0, or NaN where the bet is called off and the stake is returned; a conditional
            belief is a bet that is called off where its condition fails. The worlds must be all that can happen.

    >>> round(float(dutch_book([0.6, 0.5], [[1, 0], [0, 1]]).loss), 6)  # yes at .6 and no at .5 sum to 1.1
    0.1

    A linear program: the largest g such that some stakes s have sum_j s_j (p_j - payoff_wj) >= g in every world w.
    0 if and only if the prices are coherent. Where no bet is called off it is the L1 distance to the coherent ones.
    """
    single = np.ndim(p) == 1
    prices = np.atleast_2d(probabilities(p, "p"))
    pays = floats(payoffs)
    if pays.ndim != 2 or pays.shape[1] != prices.shape[1] or not pays.size:
        raise ValueError(f"payoffs: shape {pays.shape} for {prices.shape[1]} prices; give [worlds, bets]")
    if not np.isin(pays[~np.isnan(pays)], (0.0, 1.0)).all():
        raise ValueError("payoffs: give 1, 0, or NaN where the bet is called off")
    n, bets = prices.shape
    losses, distances, stakes = np.full(n, np.nan), np.full(n, np.nan), np.full((n, bets), np.nan)
    known = np.isfinite(prices).all(axis=1)
    for i in np.flatnonzero(known):
        costs = np.nan_to_num(prices[i] - pays)  # [worlds, bets] what a unit of each bet costs the agent
        losses[i], stakes[i] = _best_stakes(costs)
        distances[i] = _shortest(costs)
    fields: dict[str, Any] = {
        "loss": losses,
        "loss_per_bet": losses / bets,
        "quadratic": distances,
        "stakes": stakes,
    }
    if single:
        fields = {name: value[0] if value.ndim > 1 else float(value[0]) for name, value in fields.items()}
    n_known = int(known.sum())
    return DutchBook(**fields, **row_counts(n_known, n - n_known), status="ok" if n_known else "undefined")


def _best_stakes(costs: Floats) -> tuple[float, Floats]:
    """Largest sure gain, and the stakes [bets] that force it."""
    worlds, bets = costs.shape
    found: Any = linprog(
        np.append(np.zeros(bets), -1.0),
        A_ub=np.hstack([-costs, np.ones((worlds, 1))]),
        b_ub=np.zeros(worlds),
        bounds=[*[(-1, 1)] * bets, (None, None)],
    )
    stakes = np.clip(found.x[:-1], -1.0, 1.0)
    return max(0.0, float((costs @ stakes).min())), stakes  # the solver's own value has its tolerance in it


def _shortest(costs: Floats) -> float:
    """Length of the shortest vector in the convex hull of the rows.

    By duality it is the sure gain of stakes in the unit ball. Non-negative weights l minimise |costs' l|^2 +
    (1 - sum l)^2, whose minimum lies along the shortest vector (Wolfe).
    """
    weights = nnls(np.vstack([costs.T, np.ones(len(costs))]), np.append(np.zeros(costs.shape[1]), 1.0))[0]
    return float(np.linalg.norm(costs.T @ weights / weights.sum()))
