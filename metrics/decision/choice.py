"""Could any expected-utility maximiser with random shocks have these exact choices (METRICS E12, E13), does what is
paid for a belief move it (METRICS E8), and which belief do choices between bets act on (METRICS E17)?
"""

from dataclasses import replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score, distributions, floats, probabilities
from ..inference.clusters import complete_beliefs, complete_rows
from ..inference.equivalence import MARGINS, tost
from ..inference.intervals import Interval, moment_interval
from ..inference.means import studentised_mean
from ..inference.randomisation import tail_p
from .monotone import monotone_exact_shares
from .prediction import isotonic_fit

GRID = 101
"""Values of a middle action's utility slope that are tried."""
PERMUTATIONS = 199


class CyclicMonotonicity(Score, headline="rms"):
    """METRICS E12. Descriptive but for p: exact choices have no sampling noise."""

    rms: float = NAN
    """Least root mean square distance, over utilities, of the utility slope of what is chosen from a rising function of
    the belief. 0: cyclic monotonicity holds, so some agent with some utilities chooses so. At most 1/2."""
    discordant: float = NAN
    """Share of pairs of contexts that are ordered against each other under the same utilities."""
    slopes: tuple[float, ...] = ()
    """[k] utility slope in the belief of each action, from 0 to 1, with which that distance is reached."""


def cyclic_monotonicity(belief: ArrayLike, policy: ArrayLike, *, how: Resampling = RESAMPLING) -> CyclicMonotonicity:
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

    Policies that are the same everywhere are `constant`.

    >>> p = np.linspace(0.1, 0.9, 9)
    >>> policy = np.column_stack([(1 - p) ** 2, 2 * p * (1 - p), p**2])
    >>> cyclic_monotonicity(p, policy).rms < 1e-9
    True
    >>> cyclic_monotonicity(p, policy[::-1]).rms > 0.1
    True
    """
    how = how.drawing(PERMUTATIONS)
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
    rng = np.random.default_rng(how.seed)
    null = np.array([-_nearest(rng.permutation(p), pi, coarse=True)[0] for _ in range(how.n_draws)])
    return CyclicMonotonicity(
        rms=rms,
        discordant=monotone_exact_shares(p, chosen).discordant,
        slopes=slopes,
        p=tail_p(-_nearest(p, pi, coarse=True)[0], null, exact=False, slack=TIE),
        p_method=f"permuted beliefs come as near, {how.n_draws} draws",
        params={"draws": how.n_draws, "seed": how.seed},
        **rows.counts,
    )


def _nearest(p: Floats, pi: Floats, *, coarse: bool = False) -> tuple[float, tuple[float, ...]]:
    """The least distance, and the slopes of it."""
    tried = [(0.0, 1.0)] if pi.shape[1] == 2 else [(0.0, x, 1.0) for x in np.linspace(0, 1, 5 if coarse else GRID)]
    distances = []
    for slopes in tried:
        chosen = pi @ np.array(slopes)
        distances.append((float(np.sqrt(np.mean((chosen - isotonic_fit(p, chosen, p)) ** 2))), slopes))
    least = min(rms for rms, _ in distances)
    return next((rms, tuple(map(float, slopes))) for rms, slopes in distances if rms <= least + TIE)


class ProbabilityWeighting(Score, headline="gamma"):
    """METRICS E13. The interval is over contexts."""

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
    belief: ArrayLike, share: ArrayLike, groups: ArrayLike | None = None, *, how: Resampling = RESAMPLING
) -> ProbabilityWeighting:
    """The weighting w(p) = exp(-(-ln p)^gamma) of a prospect-theoretic agent (METRICS E13; rational-agents,
    Definition 2; Prelec 1998).

    Fits log-odds of the choice = a + b w(p), b >= 0, by least squares: shocks are taken to be logistic, utilities are
    free. `share` is the exact probability of the action that a high belief favours, against one other.

    Args:
        belief: [n]; clipped to [1e-6, 1 - 1e-6].
        share: [n]; likewise.
        groups: [n] context. None: every row its own.

    Choices or beliefs that do not vary, or fall with the belief, have no weighting (`flat`); an exponent at an end of
    what is tried, 0.1 to 10, is `at_end`: the data do not say where it ends.

    >>> p = np.linspace(0.02, 0.98, 50)
    >>> weighted = np.exp(-((-np.log(p)) ** 0.5))
    >>> round(probability_weighting(p, 1 / (1 + np.exp(2 - 4 * weighted))).gamma, 1)
    0.5
    """
    rows = complete_beliefs(groups, belief=belief, share=share)
    p, s = (np.clip(values, CLIP, 1 - CLIP) for values in rows.columns)
    if rows.n < 4:
        return ProbabilityWeighting(status="too_few", **rows.counts)
    y = np.log(s) - np.log1p(-s)
    w = np.exp(-((-np.log(p))[:, None] ** GAMMAS))
    moments = np.hstack([np.ones((rows.n, 1)), y[:, None], y[:, None] ** 2, w, w**2, w * y[:, None]])
    logs, slopes, r2 = _weights(moments.sum(axis=0)[None])
    if not np.isfinite(logs[0]):
        return ProbabilityWeighting(status="flat", **rows.counts)
    interval = moment_interval(moments, rows.codes, lambda sums: _weights(sums)[0], how=how)
    fields = interval.fields() | interval.test_of_zero(float(logs[0]))
    lo, hi = np.exp(np.clip([interval.lo, interval.hi], LOGS[0], LOGS[-1]))  # nothing beyond was tried
    fields |= {"se": interval.se * float(np.exp(logs[0])), "ci_lo": float(lo), "ci_hi": float(hi)}
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
    return tuple(np.where(none, np.nan, values) for values in (LOGS[best], slope, r2))  # type: ignore


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


# Does the stated belief depend on what is paid for it? (METRICS E8)

FEW_CONTEXTS = 100
"""Below this an interval of squared shifts, which are skewed, does not quite hold its level."""


class PrizeIndependence(Score, headline="debiased_ms"):
    """METRICS E8. The interval is of `debiased_ms`, over contexts."""

    debiased_ms: float = NAN
    """rmse_means^2 - noise_floor^2: the mean square effect of the prompt itself, unbiased, maybe negative."""
    debiased_rms: float = NAN
    """Root of what of it is positive."""
    noise_floor: float = NAN
    """What `rmse_means` would be if the prompt had no effect, from the repetitions of both prompts."""
    rmse_means: float = NAN
    """RMS over contexts of the difference of repetition means (the paper's Table 3 caption)."""
    ci_means: tuple[float, float] = (NAN, NAN)
    rmse_per_rep: float = NAN
    """RMS of single alternative answers around the base mean (the paper's text)."""
    sd_pooled: float = NAN
    """Root mean variance of the repetitions of the base prompt, ddof 1."""
    ci_sd: tuple[float, float] = (NAN, NAN)
    sd_mean: float = NAN
    """Mean of their SDs."""
    mean_shift: float = NAN
    """Mean of alternative - base."""
    p_tost_shift: float = NAN
    """Paired TOST of `mean_shift` against the margin, t over contexts. Shifts that cancel pass it."""
    rms_upper: float = NAN
    """95% upper bound of the prompt's RMS effect, from the interval of `debiased_ms`."""
    equivalent: bool
    """`rms_upper` lies within the margin, and so does the mean shift: independence may be claimed."""


def prize_independence(
    p_base: ArrayLike, p_alt: ArrayLike, *, margin: float = MARGINS["rmse"], how: Resampling = RESAMPLING
) -> PrizeIndependence:
    """Beliefs under two prompts that differ in the scoring rule (METRICS E8; rational-agents Table 3).

    Args:
        p_base: [contexts, r0] repeated answers; NaN for one that is missing.
        p_alt: [contexts, r1].
        margin: the smallest RMS effect that matters, in units of probability (METRICS F3).

    A context without an answer under either prompt is dropped. Where nothing was repeated there is no noise
    floor and no bound (`no_replicates`); one context has no equivalence test. The interval is by studentised bootstrap,
    linearised where repetitions are unequal; of fewer than a hundred contexts it misses a little more often than it
    says (`few_contexts`, docs/calibration.md). The bound that `equivalent` rests on lies below the true effect in 4 to
    6% of samples of 20 to 60 contexts that all have some of it, but in 14% of samples of 20 if only one context in ten
    has any: a sample may then hold none. Absolute loss is improper: a rational agent told of it should report 0 or 1.

    >>> base = [[0.5, 0.6], [0.3, 0.4], [0.7, 0.8]]
    >>> paid = [[0.7, 0.8], [0.5, 0.6], [0.9, 1.0]]
    >>> round(prize_independence(base, paid).mean_shift, 3)
    0.2
    """
    base, alt = (probabilities(x, name) for x, name in ((p_base, "p_base"), (p_alt, "p_alt")))
    if base.ndim != 2 or alt.ndim != 2 or len(base) != len(alt):
        raise ValueError(f"p_base {base.shape}, p_alt {alt.shape}; give [contexts, reps] of the same contexts")
    r0, r1 = (floats(np.isfinite(x).sum(axis=1)) for x in (base, alt))
    rows = complete_rows(answered=np.where((r0 > 0) & (r1 > 0), 0.0, np.nan))
    base, alt, r0, r1 = (x[rows.kept] for x in (base, alt, r0, r1))
    n, counts = rows.n, rows.counts
    if not n:
        return PrizeIndependence(equivalent=False, status="too_few", **counts)
    mean0, mean1 = np.nanmean(base, axis=1), np.nanmean(alt, axis=1)
    squares0, squares1 = (np.nansum((x - m[:, None]) ** 2, axis=1) for x, m in ((base, mean0), (alt, mean1)))
    shift2 = (mean1 - mean0) ** 2
    floor = [_floor(squares, r) for squares, r in ((squares0, r0), (squares1, r1))]
    noise = floor[0] + floor[1]
    debiased_ms = float((shift2 - noise).mean())
    repeated = r0 > 1
    sds = np.sqrt(squares0[repeated] / (r0[repeated] - 1))
    interval = bound = Interval()
    if np.isfinite(debiased_ms):
        interval, bound = (
            studentised_mean(shift2 - noise, how=replace(how, level=level)) for level in (how.level, 0.9)
        )
    rmse_means = float(np.sqrt(shift2.mean()))
    sd_pooled = float(np.sqrt(squares0.sum() / (r0 - 1).sum())) if repeated.any() else NAN
    of_means = moment_interval(np.column_stack([shift2, np.ones(n)]), np.arange(n), _root_of_ratio, how=how)
    of_means = of_means.within(0.0, np.inf, rmse_means)
    spread = np.column_stack([squares0, r0 - 1])
    of_sd = moment_interval(spread, np.arange(n), _root_of_ratio, how=how) if repeated.any() else Interval()
    of_sd = of_sd.within(0.0, np.inf, sd_pooled)
    rms_upper = float(np.sqrt(np.maximum(bound.hi, 0.0)))
    shift = mean1 - mean0
    se_shift = float(scipy.stats.sem(shift)) if n > 1 else NAN
    return PrizeIndependence(
        debiased_ms=debiased_ms,
        debiased_rms=float(np.sqrt(max(debiased_ms, 0.0))) if np.isfinite(debiased_ms) else NAN,
        noise_floor=float(np.sqrt(noise.mean())),
        rmse_means=rmse_means,
        ci_means=(of_means.lo, of_means.hi),
        rmse_per_rep=float(np.sqrt(np.nanmean((alt - mean0[:, None]) ** 2))),
        sd_pooled=sd_pooled,
        ci_sd=(of_sd.lo, of_sd.hi),
        sd_mean=float(sds.mean()) if repeated.any() else NAN,
        mean_shift=float(shift.mean()),
        p_tost_shift=tost(float(shift.mean()), se_shift, n - 1, -margin, margin).p,
        rms_upper=rms_upper,
        equivalent=rms_upper < margin,
        status="no_replicates" if np.isnan(debiased_ms) else "few_contexts" if n < FEW_CONTEXTS else "ok",
        **counts,
        **interval.fields(margin=margin),
    )


def _root_of_ratio(sums: Floats) -> Floats:
    """Sums [m, 2] of squares and of what they are divided by -> [m]."""
    return np.sqrt(sums[:, 0] / np.where(sums[:, 1] > 0, sums[:, 1], np.nan))


def _floor(squares: Floats, r: Floats) -> Floats:
    """[contexts] whose mean is the variance of a repetition mean: pooled variance times the mean of 1 / r.

    The pooled variance is a ratio of sums; each context adds what it pulls of it, to first order.
    """
    df = r - 1
    if not df.any():
        return np.full(len(r), np.nan)
    variance = squares.sum() / df.sum()
    return variance / r + (1 / r).mean() * (squares - variance * df) / df.mean()


# The belief that is acted on: where a bet on the event is worth as much as one on a known chance (METRICS E17).


def indifference_point(chance: ArrayLike, log_odds: ArrayLike) -> tuple[float, str]:
    """The chance of a bet at which a bet on the event with the same prize is taken half of the time, and a status.

    Whoever prefers the prize to nothing takes the event's bet if its probability is higher, whatever the utilities;
    with shocks that favour neither, both are taken equally often where the chance is the belief (METRICS E17).

    Args:
        chance: [m] known chances of the other bet, in [0, 1], all different.
        log_odds: [m] natural log-odds of taking the bet on the event.

    Between two chances the log-odds are a straight line. Where they cross 0 nowhere, or only upward, the status is
    `out_of_range`, where more than once, `ambiguous`, and of one that is missing or infinite, `nan`: no number.

    >>> indifference_point([0.2, 0.4, 0.6, 0.8], [3.0, 1.0, -3.0, -4.0])
    (0.45, 'ok')
    >>> indifference_point([0.2, 0.8], [3.0, 1.0])[1], indifference_point([0.1, 0.5, 0.9], [-1.0, 1.0, -1.0])[1]
    ('out_of_range', 'ambiguous')
    """
    c, z = probabilities(chance, "chance"), floats(log_odds)
    if c.ndim != 1 or c.shape != z.shape or len(np.unique(c)) < len(c):
        raise ValueError(f"chance {c.shape} and log_odds {z.shape}: give [m] each, and every chance once")
    if not np.isfinite(z).all():
        return NAN, "nan"
    c, z = c[np.argsort(c)], z[np.argsort(c)]
    turns = np.flatnonzero((z[:-1] > 0) != (z[1:] > 0))
    if len(turns) != 1 or z[0] <= 0:
        return NAN, "ambiguous" if len(turns) > 1 else "out_of_range"
    (i,) = turns
    return float(c[i] + (c[i + 1] - c[i]) * z[i] / (z[i] - z[i + 1])), "ok"
