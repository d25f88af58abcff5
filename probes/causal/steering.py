"""Effects of steering: causal gain, dose response, random directions and controls, and belief surgery, where the
probe's belief is set to p and what follows is compared with what Bayes' rule and expected utility ask for at p
(PROBES 9).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from ...metrics import Resampling
from ...metrics.consistency.evidence_response import Responding, items_responding
from ...metrics.contract import RESAMPLING, TIE, Floats, floats
from ...metrics.inference.intervals import t_interval
from ...metrics.inference.means import UNIT, ClusterMean, Ratio, cluster_mean, ratio_of_sums
from ...metrics.inference.randomisation import tail_p
from ...metrics.whitebox.transfer import TransferFraction, transfer_fraction
from .plan import ACTION, EXACT, PLAIN, PROBE, VERBAL, Arm, CausalData, CausalPlan


def slope_through_zero(x: ArrayLike, y: ArrayLike, groups: ArrayLike, *, how: Resampling = RESAMPLING) -> Ratio:
    """Least-squares slope of changes y [n] on changes x [n], both 0 where nothing is done: sum xy / sum xx, with a
    clustered interval. Rows that are not finite are dropped and counted.
    """
    x, y, groups = floats(x), floats(y), np.asarray(groups)
    kept = np.isfinite(x) & np.isfinite(y)
    columns = np.column_stack([x * y, x * x])[kept]
    ratio = ratio_of_sums(columns, groups[kept], how=how)
    dropped = int((~kept).sum())
    return replace(ratio, n_dropped=dropped, reasons={"not finite": dropped} if dropped else {})


def slope_within(x: ArrayLike, y: ArrayLike, groups: ArrayLike, *, how: Resampling = RESAMPLING) -> Ratio:
    """The same of x [n, k] and y [n, k] about their means in each context [n]; a context with a hole is dropped."""
    x, y = floats(x), floats(y)
    whole = np.isfinite(x + y).all(axis=1, keepdims=True)
    u, v = (
        np.where(whole, values - np.where(whole, values, 0).mean(axis=1, keepdims=True), np.nan).ravel()
        for values in (x, y)
    )
    return slope_through_zero(u, v, np.repeat(groups, x.shape[1]), how=how)


def causal_gain(data: CausalData, direction: str, plan: CausalPlan) -> Ratio:
    """Slope of the change of the exact belief on the change of what the probe reads, in log-odds on both sides, over
    all contexts and doses. 1: the probe reads the variable that the model uses; 0: what it reads is not used.

    Doses go both ways, so that what any disturbance of that size does cancels. The interval of the registered direction
    carries its estimation, too, where the probe's fits without each fold were steered along.
    """
    arms = [Arm("steer", direction, dose) for dose in plan.signed]
    moved, answered = (np.concatenate([data.change(arm, outcome) for arm in arms]) for outcome in (PROBE, EXACT))
    groups = np.tile(data.groups, len(arms))
    gain = slope_through_zero(moved, answered, groups, how=Resampling(plan.seed, plan.draws, plan.level))
    if direction != plan.directions[0]:
        return gain
    return with_estimation(gain, effects_by_fold(data, EXACT, plan) / [*data.by_fold.values()], plan.level)


def effects_by_fold(data: CausalData, outcome: str, plan: CausalPlan) -> Floats:
    """[folds] mean effect at the registered dose along the direction of the probe that was fitted without each fold."""
    effects = (data.effect(Arm("fold", k, plan.dose), outcome) for k in data.by_fold)
    return np.array([float(np.nanmean(of_fold)) if np.isfinite(of_fold).any() else np.nan for of_fold in effects])


Effect = TypeVar("Effect", Ratio, ClusterMean)


def with_estimation(effect: Effect, without: Floats, level: float) -> Effect:
    """A gain, a change for each dose, or a mean effect, whose interval also says that its direction is an estimate.

    All contexts share one direction, so that an interval over contexts is of the gain along that direction, not along
    the one that more data would give: of a probe of what is not used, any part of the estimate that lies along what is
    used shows as a gain. The same `without` [folds] each fold gives its variance (delete-a-group jackknife, Kott 2001);
    the two distances from the estimate are added in squares (MOVER, Zou and Donner 2008), since other contexts were
    steered in than the direction was fitted on, or the fits of those are without them. A fold whose effect is not known
    leaves no interval.
    """
    if len(without) < 2 or not np.isfinite(effect.ci_lo):
        return effect
    if not np.isfinite(without).all():
        return replace(effect, se=np.nan, ci_lo=np.nan, ci_hi=np.nan, ci_method="none: a fold's effect is not known")
    se = float(np.sqrt((len(without) - 1) * without.var()))
    reach = t_interval(0.0, se, len(without) - 1, level)[1]
    return replace(
        effect,
        se=float(np.hypot(effect.se, se)),
        ci_lo=effect.estimate - float(np.hypot(effect.estimate - effect.ci_lo, reach)),
        ci_hi=effect.estimate + float(np.hypot(effect.ci_hi - effect.estimate, reach)),
        ci_method=f"{effect.ci_method}, and a jackknife of the direction",
        params={**effect.params, "folds": len(without), "se_direction": se},
    )


def per_dose(data: CausalData, outcome: str, plan: CausalPlan) -> Ratio:
    """Change for each standard deviation along the registered direction, whose estimation the interval carries."""
    arms = [Arm("steer", plan.directions[0], dose) for dose in plan.signed]
    dose = np.repeat([arm.dose for arm in arms], len(data.groups))
    answered = np.concatenate([data.change(arm, outcome) for arm in arms])
    groups = np.tile(data.groups, len(arms))
    slope = slope_through_zero(dose, answered, groups, how=Resampling(plan.seed, plan.draws, plan.level))
    return with_estimation(slope, effects_by_fold(data, outcome, plan) / plan.dose, plan.level)


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
    how = Resampling(plan.seed, plan.draws, plan.level)
    return transfer_fraction(plain[low], patched[low], plain[high], data.groups[low], patched[high], how=how)


class DoseResponse(NamedTuple):
    """Of the registered direction."""

    doses: tuple[float, ...]
    """With zero, ascending."""
    changes: Mapping[str, Sequence[ClusterMean]]
    """Outcome -> mean change at each dose."""
    trend: ClusterMean
    """Mean over contexts of Kendall's tau of the exact belief on the dose: 1 rises at every step, 0 goes nowhere. Its
    interval is of this direction, not of the one that more data would give."""
    share: Responding
    """Of the groups of contexts whose exact belief rises with the dose, less those in which it falls (METRICS W4): a
    mean that a few of them make is no response of the model."""
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
        how = Resampling(plan.seed, plan.draws, plan.level)
        return cluster_mean(values, data.groups, within=within, how=how)

    changes = {outcome: [mean(data.change(arm, outcome)) for arm in arms] for outcome in outcomes}
    trend = mean(kendall(np.column_stack([data.of(arm, EXACT) for arm in arms])), (-1.0, 1.0))
    curve = np.array([change.mean for change in changes[EXACT]])
    fall = float((np.maximum.accumulate(curve) - curve).max())
    spread = float(np.ptp(curve))
    moved = np.concatenate([data.change(arm, EXACT) for arm in arms])
    of_dose = np.repeat(doses, len(data.groups)), np.tile(data.groups, len(arms))
    share = items_responding(moved, *of_dose, how=Resampling(level=2 * plan.level - 1))
    return DoseResponse(doses, changes, trend, share, fall / spread if spread > 0 else float("nan"))


def enough(n: int, level: float) -> bool:
    """Whether so many random directions can tell an effect that only a share 1 - level of them would have.

    >>> enough(18, 0.95), enough(19, 0.95)
    (False, True)
    """
    return (n + 1) * (1 - level) >= 1 - TIE


def exceeded_by_few(values: ArrayLike, level: float) -> float:
    """The value [n] that another like them exceeds with chance 1 - level at most; of few, the largest."""
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
    along = data.effect(Arm("steer", plan.directions[0], plan.dose), EXACT)
    others = np.column_stack([data.effect(arm, EXACT) for arm in arms])
    there = np.isfinite(others).all(axis=1) & np.isfinite(along)
    if not there.any():
        return None
    effects, effect = others[there].mean(axis=0), float(along[there].mean())
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
    how = Resampling(plan.seed, plan.draws, plan.level)
    along, other = data.effect(Arm("steer", plan.directions[0], plan.dose), EXACT), data.effect(arm, EXACT)
    effect = cluster_mean(other, data.groups, how=how)
    sign = -1.0 if effect.mean < 0 else 1.0
    more = cluster_mean(along - sign * other, data.groups, how=how)
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
    steered = [Arm("steer", plan.directions[0], sign * plan.dose) for sign in (-1, 1)]
    if not all(arm in data.kl for arm in steered):
        return None
    every = [float(np.mean(values)) for arm, values in data.kl.items() if arm.kind == "random"]
    bound = exceeded_by_few(every, plan.level) if every else float("nan")
    kl = float(np.mean([data.kl[arm] for arm in steered]))
    middle = float(np.median(every)) if every else float("nan")
    return OffTarget(kl, bound, middle, len(data.kl[steered[0]]), len(every))


# Belief surgery: the probe's belief is set to p, and what the model then believes, says and does is compared with what
# Bayes' rule and expected utility ask for at p.


class AtBelief(NamedTuple):
    """One belief that was set."""

    p: float
    asked: float
    """Mean posterior that Bayes' rule makes of it with the evidence that comes after."""
    read: float
    """Mean belief that the probe reads afterwards: p, unless the edit did not take."""
    exact: ClusterMean
    verbal: ClusterMean | None
    action: ClusterMean | None
    reach: float
    """Mean size of the movement that it took, in standard deviations of the projection."""


class Surgery(NamedTuple):
    """On a grid of beliefs. Its intervals are of the direction as it was estimated: no belief is set along those of the
    fits without a fold."""

    grid: tuple[AtBelief, ...]
    exact: Ratio
    """Slope of the exact belief's log-odds on those that Bayes' rule asks for, within contexts; 1 obeys."""
    verbal: Ratio | None
    """Slope of the stated belief on the posterior that is asked for, both as probabilities; 1 obeys."""
    error: ClusterMean
    """Mean |exact belief - posterior that is asked for|."""
    regret: ClusterMean | None
    """Expected utility that the action loses, in units of the stake: P(wrong action) times the distance of the
    posterior that is asked for from the break-even."""
    unmoved: ClusterMean | None
    """The same of what the model does without surgery, at the same posteriors: what ignoring it costs."""


def surgery(data: CausalData, plan: CausalPlan, per_sd: float) -> Surgery | None:
    """What was read on the grid; None if nothing was set.

    Args:
        per_sd: what the probe reads more for each standard deviation along the direction that was moved along.
    """
    arms = [arm for p in plan.surgery if (arm := Arm("set", plan.directions[0], p)) in data.readings]
    if len(arms) < 2:
        return None
    how = Resampling(plan.seed, plan.draws, plan.level)
    p = np.array([arm.dose for arm in arms])
    wanted = logit(p)[None] + data.log_lr[:, None]
    asked = expit(wanted)
    log_odds = np.column_stack([data.of(arm, EXACT) for arm in arms])

    def mean(values: Floats) -> ClusterMean:
        return cluster_mean(values, data.groups, within=UNIT, how=how)

    grid = tuple(
        AtBelief(
            p=arm.dose,
            asked=float(asked[:, i].mean()),
            read=float(np.nanmean(expit(data.of(arm, PROBE)))),
            exact=mean(expit(log_odds[:, i])),
            verbal=mean(data.of(arm, VERBAL)) if data.asked(VERBAL) else None,
            action=mean(data.of(arm, ACTION)) if data.asked(ACTION) else None,
            reach=float(np.nanmean(np.abs(data.change(arm, PROBE) / per_sd))),
        )
        for i, arm in enumerate(arms)
    )
    groups = np.repeat(data.groups, len(arms))
    stated = np.column_stack([data.of(arm, VERBAL) for arm in arms])
    losses = _losses(data, arms, asked)
    return Surgery(
        grid=grid,
        exact=slope_within(wanted, log_odds, data.groups, how=how),
        verbal=slope_within(asked, stated, data.groups, how=how) if data.asked(VERBAL) else None,
        error=cluster_mean(np.abs(expit(log_odds) - asked).ravel(), groups, within=UNIT, how=how),
        **{
            name: cluster_mean(loss.ravel(), groups, how=how) if loss is not None else None
            for name, loss in losses.items()
        },
    )


def _losses(data: CausalData, arms: list[Arm], asked: Floats) -> Mapping[str, Floats | None]:
    """[n, grid] expected utility lost by the action under surgery, and by that without."""
    if not data.asked(ACTION) or not np.isfinite(data.break_even).any():
        return {"regret": None, "unmoved": None}
    stake = asked - data.break_even[:, None]

    def lost(acts: Floats) -> Floats:
        return np.abs(stake) * np.where(stake > 0, 1 - acts, acts)

    done = np.column_stack([data.of(arm, ACTION) for arm in arms])
    plain = np.repeat(data.of(Arm("plain"), ACTION)[:, None], len(arms), axis=1)
    return {"regret": lost(done), "unmoved": lost(plain)}
