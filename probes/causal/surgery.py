"""Belief surgery: the probe's belief is set to p, and what the model then believes, says and does is compared with what
Bayes' rule and expected utility ask for at p.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from ...metrics.inference.means import UNIT, ClusterMean, cluster_mean
from ...metrics.inference.ratio import Ratio
from ...metrics.validation import Floats
from .data import ACTION, EXACT, PROBE, VERBAL, Arm, CausalData
from .effects import slope_within
from .plan import CausalPlan


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
        data: what was read.
        plan: with the grid.
        per_sd: what the probe reads more for each standard deviation along the direction that was moved along.
    """
    arms = [arm for p in plan.surgery if (arm := Arm("set", plan.directions[0], p)) in data.readings]
    if len(arms) < 2:
        return None
    settings = {"seed": plan.seed, "draws": plan.draws, "level": plan.level}
    p = np.array([arm.dose for arm in arms])
    wanted = logit(p)[None] + data.log_lr[:, None]
    asked = expit(wanted)
    log_odds = np.column_stack([data.of(arm, EXACT) for arm in arms])

    def mean(values: Floats) -> ClusterMean:
        return cluster_mean(values, data.groups, within=UNIT, **settings)

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
    said = np.column_stack([data.of(arm, VERBAL) for arm in arms])
    losses = _losses(data, arms, asked)
    return Surgery(
        grid=grid,
        exact=slope_within(wanted, log_odds, data.groups, **settings),
        verbal=slope_within(asked, said, data.groups, **settings) if data.asked(VERBAL) else None,
        error=cluster_mean(np.abs(expit(log_odds) - asked).ravel(), groups, within=UNIT, **settings),
        **{
            name: cluster_mean(loss.ravel(), groups, **settings) if loss is not None else None
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
