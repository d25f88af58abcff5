"""How much a bookmaker can surely win from someone who bets at these prices (METRICS W7)."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..score import Score, row_counts
from ..validation import TIE, Floats, floats, probabilities

AT_ONCE = 256
"""Sets of prices in one linear program; of so many, the overhead of a program is small beside its work."""


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
    if len(never := np.flatnonzero(np.isnan(pays).all(axis=0))):
        raise ValueError(f"payoffs: bet {never[0]} is called off in every world, so its price says nothing")
    n, bets = prices.shape
    losses, distances, stakes = np.full(n, np.nan), np.full(n, np.nan), np.full((n, bets), np.nan)
    known = np.isfinite(prices).all(axis=1)
    for rows in np.array_split(np.flatnonzero(known), max(1, int(np.ceil(known.sum() / AT_ONCE)))):
        costs = np.nan_to_num(prices[rows, None] - pays)  # [rows, worlds, bets] what a unit of a bet costs the agent
        stakes[rows] = _best_stakes(costs)
        sure = np.einsum("nwb,nb->nw", costs, stakes[rows]).min(axis=1)
        losses[rows] = np.where(sure > TIE, sure, 0.0)  # the solver's own value has its tolerance in it
        distances[rows] = [_shortest(one) for one in costs]
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


def bet_payoffs(
    outcomes: Sequence[Hashable],
    events: Sequence[Collection[Hashable]],
    given: Sequence[Collection[Hashable] | None] | None = None,
) -> Floats:
    """The payoffs [outcomes, bets] of bets on events, for `dutch_book`.

    Args:
        outcomes: all that can happen, each once.
        events: the outcomes in which each bet pays 1.
        given: the outcomes in which each bet stands; in all others it is called off. None: it always stands.

    Raises ValueError for an outcome that is named twice, an event or a condition that is no subset of the outcomes, and
    a bet that is called off in all of them.

    >>> bet_payoffs(["rain", "sun"], [["rain"], ["sun"]]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    worlds = list(outcomes)
    if len(set(worlds)) < len(worlds):
        raise ValueError(f"outcomes: {worlds} names one twice")
    conditions = [None] * len(events) if given is None else list(given)
    if len(conditions) != len(events):
        raise ValueError(f"given: {len(conditions)} conditions for {len(events)} events; give one each, or None")
    pays = np.zeros((len(worlds), len(events)))
    for j, (event, condition) in enumerate(zip(events, conditions, strict=True)):
        for name, part in (("event", event), ("condition", condition or ())):
            if odd := [one for one in part if one not in worlds]:
                raise ValueError(f"{name} of bet {j}: {odd[0]!r} is none of the outcomes {worlds}")
        stands = [condition is None or world in condition for world in worlds]
        if not any(stands):
            raise ValueError(f"bet {j} is called off in every outcome")
        pays[:, j] = np.where(stands, [world in event for world in worlds], np.nan)
    return pays


def _best_stakes(costs: Floats) -> Floats:
    """[n, bets] the stakes that force the largest sure gain, by costs [n, worlds, bets]: the programs of all rows share
    nothing, so that one block-diagonal program solves them all.
    """
    n, worlds, bets = costs.shape
    if not n:
        return np.zeros((0, bets))
    width = bets + 1
    entries = np.concatenate([-costs, np.ones((n, worlds, 1))], axis=2)
    columns = np.broadcast_to(np.arange(n * width).reshape(n, 1, width), entries.shape)
    starts = np.arange(0, entries.size + 1, width)
    shape = (n * worlds, n * width)
    costs_of_all: Any = scipy.sparse.csr_array((entries.ravel(), columns.ravel(), starts), shape=shape)
    found: Any = scipy.optimize.linprog(
        np.tile(np.append(np.zeros(bets), -1.0), n),
        A_ub=costs_of_all,
        b_ub=np.zeros(n * worlds),
        bounds=[*[(-1, 1)] * bets, (None, None)] * n,
    )
    return np.clip(found.x.reshape(n, bets + 1)[:, :-1], -1.0, 1.0)


def _shortest(costs: Floats) -> float:
    """Length of the shortest vector in the convex hull of the rows.

    By duality it is the sure gain of stakes in the unit ball. Non-negative weights l minimise |costs' l|^2 +
    (1 - sum l)^2, whose minimum lies along the shortest vector (Wolfe).
    """
    weights = scipy.optimize.nnls(np.vstack([costs.T, np.ones(len(costs))]), np.append(np.zeros(costs.shape[1]), 1.0))[
        0
    ]
    return float(np.linalg.norm(costs.T @ weights / weights.sum()))
