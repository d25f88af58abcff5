"""Could any expected-utility maximiser with random shocks have these exact choices? (METRICS E12, E13)"""

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..inference.intervals import moment_interval
from ..inference.permutation import tail_p
from ..inference.rows import complete_rows
from ..score import NAN, Score
from ..validation import TIE, Floats, check_draws, distributions, probabilities
from .prediction import isotonic_fit

GRID = 101
"""Values of a middle action's utility slope that are tried."""
PERMUTATIONS = 199


@dataclass(frozen=True, kw_only=True)
class CyclicMonotonicity(Score):
    """METRICS E12. Descriptive but for p: exact choices have no sampling noise."""

    headline: ClassVar[str] = "rms"
    rms: float = NAN
    """Least root mean square distance, over utilities, of the utility slope of what is chosen from a rising function of
    the belief. 0: cyclic monotonicity holds, so some agent with some utilities chooses so. At most 1/2."""
    discordant: float = NAN
    """Share of pairs of contexts that are ordered against each other under the same utilities."""
    slopes: tuple[float, ...] = ()
    """[k] utility slope in the belief of each action, from 0 to 1, with which that distance is reached."""


def cyclic_monotonicity(belief: ArrayLike, policy: ArrayLike, *, draws: int = PERMUTATIONS, seed: int = 0) -> (
    CyclicMonotonicity
):  # fmt: skip
    """Cyclic monotonicity of exact choices among three actions, without IIA (METRICS E12; rational-agents, Remark 2).

    An agent who adds shocks to utilities u_a + w(p) d_a chooses with probabilities pi(p) that are a subgradient of a
    convex function of these utilities (McFadden 1981), so every cycle of beliefs p_1, ..., p_m has
    sum_i <pi(p_i), d> (w(p_i) - w(p_{i+1})) >= 0. Utilities move along a line, hence that is the same as
    <pi(p), d> rising in p: there must be slopes d, not all equal, with which it does. The slopes are free but for
    their order, as the paper has it.

    Args:
        belief: [n] in [0, 1].
        policy: [n, 3] exact probabilities, from the action that a low belief favours (slope 0) to that which a high
            one does (slope 1). Two actions need no slopes.
        draws: permutations of the beliefs, for p: would beliefs that have nothing to do with the choices come as near?
        seed: of these.

    Policies that are the same everywhere are `constant`.

    >>> p = np.linspace(0.1, 0.9, 9)
    >>> policy = np.column_stack([(1 - p) ** 2, 2 * p * (1 - p), p**2])
    >>> cyclic_monotonicity(p, policy).rms < 1e-9
    True
    >>> cyclic_monotonicity(p, policy[::-1]).rms > 0.1
    True
    """
    check_draws(draws)
    rows = complete_rows(belief=probabilities(belief, "belief"), policy=distributions(policy, "policy"))
    p, pi = rows.columns
    if rows.n < 3:
        return CyclicMonotonicity(status="too_few", **rows.counts)
    if pi.shape[1] not in (2, 3):
        raise ValueError(f"policy: {pi.shape[1]} actions; give two or three")
    if np.ptp(pi, axis=0).max() <= TIE or np.ptp(p) <= TIE:
        return CyclicMonotonicity(status="constant", **rows.counts)
    rms, slopes = _nearest(p, pi)
    chosen = pi @ np.array(slopes)
    rng = np.random.default_rng(seed)
    null = np.array([-_nearest(rng.permutation(p), pi, coarse=True)[0] for _ in range(draws)])
    return CyclicMonotonicity(
        rms=rms,
        discordant=_discordant(p, chosen),
        slopes=slopes,
        p=tail_p(-_nearest(p, pi, coarse=True)[0], null, exact=False, slack=TIE),
        p_method=f"permuted beliefs come as near, {draws} draws",
        params={"draws": draws, "seed": seed},
        **rows.counts,
    )


def _nearest(p: Floats, pi: Floats, *, coarse: bool = False) -> tuple[float, tuple[float, ...]]:
    """The least distance, and the slopes of it."""
    tried = [(0.0, 1.0)] if pi.shape[1] == 2 else [(0.0, x, 1.0) for x in np.linspace(0, 1, 5 if coarse else GRID)]
    found = []
    for slopes in tried:
        chosen = pi @ np.array(slopes)
        found.append((float(np.sqrt(np.mean((chosen - isotonic_fit(p, chosen, p)) ** 2))), slopes))
    least = min(rms for rms, _ in found)
    return next((rms, tuple(map(float, slopes))) for rms, slopes in found if rms <= least + TIE)


def _discordant(p: Floats, chosen: Floats) -> float:
    """Share of pairs, tied in neither, that are ordered against each other."""
    first, second = np.triu_indices(len(p), 1)
    dp, ds = p[first] - p[second], chosen[first] - chosen[second]
    untied = (np.abs(dp) > TIE) & (np.abs(ds) > TIE)
    return float((dp * ds < 0)[untied].mean()) if untied.any() else NAN


def cyclic_monotonicity_plain(utilities: ArrayLike, policy: ArrayLike, longest: int = 3) -> float:
    """The definition: the most negative sum over cycles of at most `longest` contexts, of policies [n, k] at known
    utilities [n, k]; 0 if none is negative.

    >>> cyclic_monotonicity_plain([[0, 0], [0, 1]], [[0.5, 0.5], [0.9, 0.1]])
    -0.4
    """
    v, pi = np.asarray(utilities, dtype=np.float64), np.asarray(policy, dtype=np.float64)
    gain = (pi * v).sum(axis=1)[:, None] - pi @ v.T  # [i, j] what i loses by the utilities of j
    least = 0.0
    for m in range(2, longest + 1):
        for some in combinations(range(len(v)), m):
            for turned in (some, some[::-1]):
                least = min(least, float(sum(gain[turned[i], turned[(i + 1) % m]] for i in range(m))))
    return round(least, 12)


@dataclass(frozen=True, kw_only=True)
class ProbabilityWeighting(Score):
    """METRICS E13. The interval is over contexts."""

    headline: ClassVar[str] = "gamma"
    gamma: float = NAN
    """Exponent of the weighting; 1: beliefs are used as they are; below 1 small ones count for too much and large ones
    for too little."""
    slope: float = NAN
    """Of the action's log-odds on the weighted belief."""
    r2: float = NAN
    """Share of the variance of the log-odds that the fit explains."""


LOGS = np.arange(-120, 121) * (np.log(10) / 120)
GAMMAS = np.exp(LOGS)
CLIP = 1e-6


def probability_weighting(
    belief: ArrayLike,
    share: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    seed: int = 0,
    draws: int = 2000,
    level: float = 0.95,
) -> ProbabilityWeighting:
    """The weighting w(p) = exp(-(-ln p)^gamma) of a prospect-theoretic agent (METRICS E13; rational-agents,
    Definition 2; Prelec 1998).

    Fits log-odds of the choice = a + b w(p), b >= 0, by least squares: shocks are taken to be logistic, utilities are
    free. `share` is the exact probability of the action that a high belief favours, against one other.

    Args:
        belief: [n]; clipped to [1e-6, 1 - 1e-6].
        share: [n]; likewise.
        groups: [n] context. None: every row its own.
        seed: of the bootstrap, like `draws` and `level`.
        draws: resamples.
        level: of the interval.

    Choices or beliefs that do not vary, or fall with the belief, have no weighting (`flat`); an exponent at an end of
    what is tried, 0.1 to 10, is `at_end`: the data do not say where it ends.

    >>> p = np.linspace(0.02, 0.98, 50)
    >>> weighted = np.exp(-((-np.log(p)) ** 0.5))
    >>> round(probability_weighting(p, 1 / (1 + np.exp(2 - 4 * weighted))).gamma, 1)
    0.5
    """
    rows = complete_rows(groups, belief=probabilities(belief, "belief"), share=probabilities(share, "share"))
    p, s = (np.clip(values, CLIP, 1 - CLIP) for values in rows.columns)
    if rows.n < 4:
        return ProbabilityWeighting(status="too_few", **rows.counts)
    y = np.log(s) - np.log1p(-s)
    w = np.exp(-((-np.log(p))[:, None] ** GAMMAS))
    moments = np.hstack([np.ones((rows.n, 1)), y[:, None], y[:, None] ** 2, w, w**2, w * y[:, None]])
    logs, slopes, r2 = _weights(moments.sum(axis=0)[None])
    if not np.isfinite(logs[0]):
        return ProbabilityWeighting(status="flat", **rows.counts)
    found = moment_interval(moments, rows.codes, lambda sums: _weights(sums)[0], seed=seed, draws=draws, level=level)
    fields = found.fields() | found.test_of_zero(float(logs[0]))
    lo, hi = np.exp(np.clip([found.lo, found.hi], LOGS[0], LOGS[-1]))  # nothing beyond was tried
    fields |= {"se": found.se * float(np.exp(logs[0])), "ci_lo": float(lo), "ci_hi": float(hi)}
    at_end = abs(logs[0]) >= LOGS[-1] - TIE
    return ProbabilityWeighting(
        gamma=float(np.exp(logs[0])),
        slope=float(slopes[0]),
        r2=float(r2[0]),
        status="at_end" if at_end else "ok",
        **rows.counts,
        **fields,
    )


def _weights(sums: Floats) -> tuple[Floats, Floats, Floats]:
    """Sums [m, 3 + 3 gammas] -> log gamma, slope and r2 [m]; NaN where no exponent explains anything."""
    n, sy, syy = (sums[:, i][:, None] for i in range(3))
    sw, sww, swy = np.split(sums[:, 3:], 3, axis=1)
    total = syy - sy**2 / n
    spread, common = sww - sw**2 / n, swy - sw * sy / n
    with np.errstate(divide="ignore", invalid="ignore"):
        explained = np.where((spread > TIE) & (common > 0), common**2 / spread, 0.0)
        best = explained.argmax(axis=1)
        at = np.arange(len(sums)), best
        r2 = explained[at] / total[:, 0]
        slope = common[at] / spread[at]
    none = ~(total[:, 0] > TIE) | ~(explained[at] > 0)
    return tuple(np.where(none, np.nan, values) for values in (LOGS[best], slope, r2))  # pyright: ignore[reportReturnType]


def menu_shift(two: ArrayLike, three: ArrayLike) -> Floats:
    """[n] change of the share of the first of two actions when a third joins the menu (METRICS E12; rational-agents,
    Definition 3). 0: independence of irrelevant alternatives.

    Args:
        two: [n, 2] exact probabilities.
        three: [n, 3], the third action last.

    A menu none of whose first two actions is ever chosen gives NaN.

    >>> menu_shift([[0.5, 0.5]], [[0.4, 0.1, 0.5]]).round(2).tolist()
    [0.3]
    """
    few, more = np.asarray(two, dtype=np.float64), np.asarray(three, dtype=np.float64)[:, :2]
    with np.errstate(divide="ignore", invalid="ignore"):
        return more[:, 0] / more.sum(axis=1) - few[:, 0] / few.sum(axis=1)
