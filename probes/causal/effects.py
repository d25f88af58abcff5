"""Effects of steering: causal gain, dose response, random directions and controls (PROBES 9)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ...metrics.inference.means import ClusterMean, cluster_mean
from ...metrics.inference.permutation import tail_p
from ...metrics.inference.ratio import Ratio, ratio_of_sums
from ...metrics.inference.tails import t_interval
from ...metrics.validation import TIE, Floats, floats
from ...metrics.whitebox.transfer import TransferFraction, transfer_fraction
from .data import EXACT, PLAIN, PROBE, Arm, CausalData
from .plan import CausalPlan


def slope_through_zero(
    x: ArrayLike, y: ArrayLike, groups: ArrayLike, *, seed: int, draws: int = 2000, level: float = 0.95
) -> Ratio:
    """Least-squares slope of changes y [n] on changes x [n], both 0 where nothing is done: sum xy / sum xx, with a
    clustered interval. Rows that are not finite are dropped and counted.
    """
    x, y, groups = floats(x), floats(y), np.asarray(groups)
    kept = np.isfinite(x) & np.isfinite(y)
    columns = np.column_stack([x * y, x * x])[kept]
    made = ratio_of_sums(columns, groups[kept], seed=seed, draws=draws, level=level)
    dropped = int((~kept).sum())
    return replace(made, n_dropped=dropped, reasons={"not finite": dropped} if dropped else {})


def slope_within(
    x: ArrayLike, y: ArrayLike, groups: ArrayLike, *, seed: int, draws: int = 2000, level: float = 0.95
) -> Ratio:
    """The same of x [n, k] and y [n, k] about their means in each of n contexts [n] with its group; a context with a
    hole is dropped.
    """
    x, y = floats(x), floats(y)
    whole = np.isfinite(x + y).all(axis=1, keepdims=True)
    u, v = (
        np.where(whole, one - np.where(whole, one, 0).mean(axis=1, keepdims=True), np.nan).ravel() for one in (x, y)
    )
    return slope_through_zero(u, v, np.repeat(groups, x.shape[1]), seed=seed, draws=draws, level=level)


def causal_gain(data: CausalData, direction: str, plan: CausalPlan, doses: Sequence[float] = ()) -> Ratio:
    """Slope of the change of the exact belief on the change of what the probe reads, in log-odds on both sides, over
    all contexts and doses. 1: the probe reads the variable that the model uses; 0: what it reads is not used.

    Doses go both ways, so that what any disturbance of that size does cancels. The interval of the registered direction
    carries its estimation, too, where the probe's fits without each fold were steered along.
    """
    arms = [Arm("steer", direction, dose) for dose in doses or plan.signed]
    moved, answered = (np.concatenate([data.change(arm, outcome) for arm in arms]) for outcome in (PROBE, EXACT))
    groups = np.tile(data.groups, len(arms))
    made = slope_through_zero(moved, answered, groups, seed=plan.seed, draws=plan.draws, level=plan.level)
    if direction != plan.directions[0]:
        return made
    return with_estimation(made, effects_by_fold(data, EXACT, plan) / [*data.by_fold.values()], plan.level)


def effects_by_fold(data: CausalData, outcome: str, plan: CausalPlan) -> Floats:
    """[folds] mean effect at the registered dose along the direction of the probe that was fitted without each fold."""
    effects = (data.effect(Arm("fold", k, plan.dose), outcome) for k in data.by_fold)
    return np.array([float(np.nanmean(one)) if np.isfinite(one).any() else np.nan for one in effects])


Effect = TypeVar("Effect", Ratio, ClusterMean)


def with_estimation(made: Effect, without: Floats, level: float) -> Effect:
    """A gain, a change for each dose, or a mean effect, whose interval also says that its direction is an estimate.

    All contexts share one direction, so that an interval over contexts is of the gain along that direction, not along
    the one that more data would give: of a probe of what is not used, any part of the estimate that lies along what is
    used shows as a gain. The same `without` [folds] each fold gives its variance (delete-a-group jackknife, Kott 2001);
    the two distances from the estimate are added in squares (MOVER, Zou and Donner 2008), since other contexts were
    steered in than the direction was fitted on, or the fits of those are without them. A fold whose effect is not known
    leaves no interval.
    """
    if len(without) < 2 or not np.isfinite(made.ci_lo):
        return made
    if not np.isfinite(without).all():
        return replace(made, se=np.nan, ci_lo=np.nan, ci_hi=np.nan, ci_method="none: a fold's effect is not known")
    se = float(np.sqrt((len(without) - 1) * without.var()))
    reach = t_interval(0.0, se, len(without) - 1, level)[1]
    return replace(
        made,
        se=float(np.hypot(made.se, se)),
        ci_lo=made.estimate - float(np.hypot(made.estimate - made.ci_lo, reach)),
        ci_hi=made.estimate + float(np.hypot(made.ci_hi - made.estimate, reach)),
        ci_method=f"{made.ci_method}, and a jackknife of the direction",
        params={**made.params, "folds": len(without), "se_direction": se},
    )


def per_dose(data: CausalData, outcome: str, plan: CausalPlan) -> Ratio:
    """Change of an outcome for each standard deviation of the registered direction, over all doses. The interval
    carries the direction's estimation, as that of the gain does.
    """
    arms = [Arm("steer", plan.directions[0], dose) for dose in plan.signed]
    dose = np.repeat([arm.dose for arm in arms], len(data.groups))
    answered = np.concatenate([data.change(arm, outcome) for arm in arms])
    groups = np.tile(data.groups, len(arms))
    made = slope_through_zero(dose, answered, groups, seed=plan.seed, draws=plan.draws, level=plan.level)
    return with_estimation(made, effects_by_fold(data, outcome, plan) / plan.dose, plan.level)


def swapped(data: CausalData, plan: CausalPlan) -> TransferFraction | None:
    """Share of the difference in exact belief between paired contexts that comes along when what the probe reads is
    swapped between them, along the registered direction (METRICS W2). No value is set that does not occur. Its interval
    is of this direction as it was estimated. None without pairs.
    """
    arm = Arm("swap", plan.directions[0])
    if arm not in data.readings or not len(data.pairs):
        return None
    low, high = data.pairs.T
    plain, patched = data.of(PLAIN, EXACT), data.of(arm, EXACT)
    settings = {"seed": plan.seed, "draws": plan.draws, "level": plan.level}
    return transfer_fraction(plain[low], patched[low], plain[high], data.groups[low], patched[high], **settings)


class DoseResponse(NamedTuple):
    """Of the registered direction."""

    doses: tuple[float, ...]
    """With zero, ascending."""
    changes: Mapping[str, Sequence[ClusterMean]]
    """Outcome -> mean change at each dose."""
    trend: ClusterMean
    """Mean over contexts of Kendall's tau of the exact belief on the dose: 1 rises at every step, 0 goes nowhere. Its
    interval is of this direction, not of the one that more data would give."""
    reversal: float
    """Largest fall of the mean exact belief below what a smaller dose has reached, as a share of the curve's range."""


def kendall(values: Floats) -> Floats:
    """[n] Kendall's tau-a of each row of values [n, k] with the order of its columns; NaN for a row with a hole."""
    first, second = np.triu_indices(values.shape[1], 1)
    steps = values[:, second] - values[:, first]
    ties = np.abs(steps) <= TIE
    tau = np.where(ties, 0.0, np.sign(steps)).mean(axis=1)
    return np.where(np.isfinite(values).all(axis=1), tau, np.nan)


def dose_response(data: CausalData, outcomes: Sequence[str], plan: CausalPlan) -> DoseResponse:
    """Mean changes at each dose, their trend within contexts, and whether the mean turns back."""
    doses = tuple(sorted((0.0, *plan.signed)))
    arms = [Arm("steer", plan.directions[0], dose) if dose else PLAIN for dose in doses]

    def mean(values: Floats, within: tuple[float, float] = (-np.inf, np.inf)) -> ClusterMean:
        settings = {"seed": plan.seed, "draws": plan.draws, "level": plan.level}
        return cluster_mean(values, data.groups, within=within, **settings)

    changes = {outcome: [mean(data.change(arm, outcome)) for arm in arms] for outcome in outcomes}
    trend = mean(kendall(np.column_stack([data.of(arm, EXACT) for arm in arms])), (-1.0, 1.0))
    curve = np.array([one.mean for one in changes[EXACT]])
    fall = float((np.maximum.accumulate(curve) - curve).max())
    spread = float(np.ptp(curve))
    return DoseResponse(doses, changes, trend, fall / spread if spread > 0 else float("nan"))


def enough(n: int, level: float) -> bool:
    """Whether so many random directions can tell an effect that only a share 1 - level of them would have.

    >>> enough(18, 0.95), enough(19, 0.95)
    (False, True)
    """
    return (n + 1) * (1 - level) >= 1 - TIE


def exceeded_by_few(values: ArrayLike, level: float) -> float:
    """The one of values [n] that another drawn like them exceeds with a chance of at most 1 - level; the largest if n
    is not `enough` for that.
    """
    ranked = np.sort(floats(values))
    return float(ranked[min(len(ranked), int(np.ceil((len(ranked) + 1) * level - TIE))) - 1])


class RandomBand(NamedTuple):
    """The effect of the registered direction among those of random ones, on the same contexts."""

    effect: float
    """Mean over contexts, at the registered dose, in log-odds of the exact belief."""
    half: float
    """Of the band about zero in which the share `level` of the random effects lies."""
    level: float
    p: float
    """(1 + random effects at least as large) / (1 + random directions)."""
    effects: Floats
    """[directions] mean effects of the random ones; their signs are arbitrary."""
    n_contexts: int

    @property
    def outside(self) -> bool:
        """Whether the effect is upward, and beyond the band."""
        return self.effect > self.half


def random_band(data: CausalData, plan: CausalPlan) -> RandomBand | None:
    """The band of the random directions; None without any."""
    arms = [arm for arm in data.readings if arm.kind == "random" and arm.dose > 0]
    if not arms:
        return None
    own = data.effect(Arm("steer", plan.directions[0], plan.dose), EXACT)
    others = np.column_stack([data.effect(arm, EXACT) for arm in arms])
    there = np.isfinite(others).all(axis=1) & np.isfinite(own)
    if not there.any():
        return None
    effects, effect = others[there].mean(axis=0), float(own[there].mean())
    half = exceeded_by_few(np.abs(effects), plan.level)
    p = tail_p(abs(effect), np.abs(effects), exact=False, slack=TIE)
    return RandomBand(effect, half, plan.level, p, effects, int(there.sum()))


class Control(NamedTuple):
    """The effect of a control at the registered dose, and by how much the registered direction moves beliefs more."""

    effect: ClusterMean
    more: ClusterMean
    """The registered direction's effect less that of the control, with the sign in which that moves beliefs up. Its
    interval carries the estimation of the registered direction, as that of the gain does."""


def control(data: CausalData, arm: Arm, plan: CausalPlan) -> Control | None:
    """Of an arm at the registered dose; None if it was not read."""
    if arm not in data.readings:
        return None
    settings = {"seed": plan.seed, "draws": plan.draws, "level": plan.level}
    own, other = data.effect(Arm("steer", plan.directions[0], plan.dose), EXACT), data.effect(arm, EXACT)
    effect = cluster_mean(other, data.groups, **settings)
    sign = -1.0 if effect.mean < 0 else 1.0
    more = cluster_mean(own - sign * other, data.groups, **settings)
    return Control(effect, with_estimation(more, effects_by_fold(data, EXACT, plan), plan.level))


class OffTarget(NamedTuple):
    """What steering does to neutral prompts, by the registered direction and by random ones of the same length."""

    kl: float
    """Mean over prompts and both signs, in nats."""
    bound: float
    """What another random direction exceeds with a chance of at most 1 - level."""
    median: float
    """Of the random directions."""
    n_prompts: int
    n_random: int


def off_target(data: CausalData, plan: CausalPlan) -> OffTarget | None:
    """None without neutral prompts."""
    own = [Arm("steer", plan.directions[0], sign * plan.dose) for sign in (-1, 1)]
    if not all(arm in data.kl for arm in own):
        return None
    every = [float(np.mean(values)) for arm, values in data.kl.items() if arm.kind == "random"]
    bound = exceeded_by_few(every, plan.level) if every else float("nan")
    kl = float(np.mean([data.kl[arm] for arm in own]))
    middle = float(np.median(every)) if every else float("nan")
    return OffTarget(kl, bound, middle, len(data.kl[own[0]]), len(every))
