"""What the laws of probability ask: is a belief the mean of the beliefs given each case (METRICS E9), and how much
can a bookmaker surely win from who bets at these prices (METRICS W7)?
"""

from collections.abc import Collection, Hashable, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score, floats, probabilities, row_counts
from ..divergence import clipped_logit
from ..inference.clusters import bootstrap_rows, complete_rows
from ..inference.intervals import BOOTSTRAP, MIN_BOOTSTRAP_CLUSTERS


class Lie(Score, headline="signed"):
    """METRICS E9. Floats for one belief, arrays [n] for a batch."""

    implied: Any
    """Sum of weight x conditional belief, by `renormalise`."""
    implied_raw: Any
    """With the weights as stated."""
    weight_sum: Any
    signed: Any
    """p - implied."""
    delta: Any
    """Its size."""
    ratio: Any
    """delta / p: not symmetric in the label. p = 0 gives 0 if delta is 0, else Inf."""
    logit_difference: Any
    """logit(p) - logit(implied), both 1e-6 off 0 and 1; symmetric."""
    outside_hull: Any
    """Distance of p from the range of the conditional beliefs with weight: wrong whatever the weights are."""


def lie(p: ArrayLike, cond: ArrayLike, weights: ArrayLike, renormalise: bool = True) -> Lie:
    """Compare a belief with the weighted mean of its conditionals (METRICS E9).

    Args:
        p: float or [n], the unconditional belief.
        cond: [m] or [n, m], the belief given each case.
        weights: [m] or [n, m], the stated chance of each case, not negative.
        renormalise: divide the weights by their sum.

    A NaN, or weights that sum to 0, give NaN.

    >>> round(float(lie(p=0.5, cond=[0.9, 0.2], weights=[0.5, 0.5]).signed), 3)  # 0.5 - 0.55
    -0.05
    """
    p, cond, weights = (probabilities(p, "p"), probabilities(cond, "cond"), np.asarray(weights, dtype=np.float64))
    if cond.shape != weights.shape or cond.shape[:-1] != p.shape or not cond.ndim:
        raise ValueError(f"p {p.shape}, cond {cond.shape}, weights {weights.shape}; give [n], [n, m], [n, m]")
    if (weights < 0).any() or np.isinf(weights).any():
        raise ValueError("weights: holds a negative or infinite value")
    weight_sum = weights.sum(axis=-1)
    undefined = np.isnan(p) | np.isnan(cond).any(axis=-1) | ~(weight_sum > 0)
    raw = np.where(undefined, np.nan, (weights * cond).sum(axis=-1))
    implied = raw / np.where(undefined, np.nan, weight_sum) if renormalise else raw
    signed = p - implied
    delta = np.abs(signed)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(p > 0, delta / p, np.where(delta <= TIE, 0.0, np.inf))
    used = weights > 0
    low = np.where(used, cond, np.inf).min(axis=-1)
    high = np.where(used, cond, -np.inf).max(axis=-1)
    outside = np.maximum(np.maximum(low - p, p - high), 0.0)
    within = np.clip(implied, 0.0, 1.0)  # weights as stated may sum to more than one
    n_undefined = int(undefined.sum())
    return Lie(
        implied=implied[()],
        implied_raw=raw[()],
        weight_sum=weight_sum[()],
        signed=signed[()],
        delta=delta[()],
        ratio=np.where(undefined, np.nan, ratio)[()],
        logit_difference=(clipped_logit(p, "p")[0] - clipped_logit(within, "implied")[0])[()],
        outside_hull=np.where(undefined, np.nan, outside)[()],
        **row_counts(p.size - n_undefined, n_undefined),
        status="ok" if n_undefined < p.size else "undefined",
        params={"renormalise": renormalise},
    )


class MedianCi(Score, headline="median"):
    """METRICS E9."""

    median: float = NAN
    lo: float = NAN
    hi: float = NAN
    coverage: float = NAN
    """Exact chance that (lo, hi) covers, whatever the law; NaN for the bootstrap, whose level is nominal."""


def median_ci(x: ArrayLike, groups: ArrayLike | None = None, *, how: Resampling = RESAMPLING) -> MedianCi:
    """Median, and the tightest symmetric order statistics that cover with `conf` or more (METRICS E9).

    Args:
        x: [n] real values, Inf allowed; NaN is dropped.
        groups: [n] context. If it repeats, the interval is a cluster bootstrap instead.

    Too few values for the level (five at .95) have no interval.

    >>> found = median_ci([1, 2, 3, 4, 5, 6])
    >>> found.median, found.lo, found.hi, found.coverage  # all but 2 of 2**6
    (3.5, 1.0, 6.0, 0.96875)
    """
    rows = complete_rows(groups, x=floats(x))
    (x,), n, n_clusters = rows.columns, rows.n, rows.n_clusters
    if not n:
        return MedianCi(status="too_few", **rows.counts)
    fields: dict[str, Any] = {"median": _median(x), **rows.counts}
    if n_clusters < n:
        lo = hi = NAN
        method, params = f"none: {n_clusters} clusters", {"conf": how.level}
        if n_clusters >= MIN_BOOTSTRAP_CLUSTERS:
            resampled = bootstrap_rows(lambda picked: _median(x[picked]), rows.codes, how=how)
            ends = [(1 - how.level) / 2, (1 + how.level) / 2]
            lo, hi = np.quantile(resampled, ends, method="inverted_cdf").tolist()  # Inf cannot be interpolated
            method, params = BOOTSTRAP, {"conf": how.level, "draws": how.n_draws, "seed": how.seed}
        return MedianCi(lo=lo, hi=hi, ci_lo=lo, ci_hi=hi, ci_method=method, params=params, **fields)
    ranks = np.arange(1, n // 2 + 1)
    coverages = 1 - 2 * scipy.stats.binom.cdf(ranks - 1, n, 0.5)
    usable = ranks[coverages >= how.level - TIE]
    fields["params"] = {"conf": how.level}
    if not len(usable):
        return MedianCi(ci_method="none: too few values", status="too_few", **fields)
    rank = int(usable[-1])
    ordered = np.sort(x)
    lo, hi = float(ordered[rank - 1]), float(ordered[n - rank])
    return MedianCi(
        lo=lo,
        hi=hi,
        coverage=float(coverages[rank - 1]),
        ci_lo=lo,
        ci_hi=hi,
        ci_method=f"order statistics {rank} and {n - rank + 1} of {n}",
        **fields,
    )


def _median(x: Any) -> float:
    """np.median, with Inf between two Infs instead of NaN."""
    ordered = np.sort(x)
    low, high = ordered[(len(x) - 1) // 2], ordered[len(x) // 2]
    return float(low if low == high else (low + high) / 2)


AT_ONCE = 256
"""Sets of prices in one linear program; of so many, the overhead of a program is small beside its work."""


class DutchBook(Score, headline="loss"):
    """METRICS W7. Floats and [bets] for one set of prices, arrays [n] and [n, bets] for a batch."""

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
        distances[rows] = [_shortest(cost) for cost in costs]
    fields: dict[str, Any] = {"loss": losses, "loss_per_bet": losses / bets, "quadratic": distances, "stakes": stakes}
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
    solution: Any = scipy.optimize.linprog(
        np.tile(np.append(np.zeros(bets), -1.0), n),
        A_ub=costs_of_all,
        b_ub=np.zeros(n * worlds),
        bounds=[*[(-1, 1)] * bets, (None, None)] * n,
    )
    return np.clip(solution.x.reshape(n, bets + 1)[:, :-1], -1.0, 1.0)


def _shortest(costs: Floats) -> float:
    """Length of the shortest vector in the convex hull of the rows.

    By duality it is the sure gain of stakes in the unit ball. Non-negative weights l minimise |costs' l|^2 +
    (1 - sum l)^2, whose minimum lies along the shortest vector (Wolfe).
    """
    weights = scipy.optimize.nnls(np.vstack([costs.T, np.ones(len(costs))]), np.append(np.zeros(costs.shape[1]), 1.0))[
        0
    ]
    return float(np.linalg.norm(costs.T @ weights / weights.sum()))
