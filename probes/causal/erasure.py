"""What is left after a concept was erased: of what can be decoded, and of how the belief depends on it (PROBES 9)."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...metrics.contract import Floats, Resampling
from ...metrics.inference.clusters import cluster_codes
from ...metrics.inference.regression import Contrast, linear_fit
from ..dataset import Target, make_target
from ..evidence.crossfit import Refitted, cross_fit, out_of_fold_r2, refit
from .plan import ACTION, EXACT, HERE, LATER, PLAIN, Arm, CausalData, CausalPlan


class Dependence(NamedTuple):
    """Slope of an outcome on the target's log-odds, over contexts."""

    before: Contrast
    after: Contrast
    fall: Contrast
    """Slope before less slope after, on the same contexts."""
    total: Contrast
    """Slope before and slope after."""

    @property
    def weaker(self) -> tuple[Contrast, Contrast, Contrast]:
        """Has the sign of the slope before if an outcome depends less than it did; not if it turns round and grows."""
        return self.before, self.fall, self.total


class ErasedBy(NamedTuple):
    """By one eraser. Each context is erased by a fit without its fold; the intervals are of these fits as they are."""

    decoded: Mapping[str, tuple[Refitted, Refitted, Refitted]]
    """Place -> out-of-fold R2 of the target before and after, and the fall."""
    depends: Mapping[str, Dependence]
    """Outcome -> how it depends on the target."""


def erasures(data: CausalData, plan: CausalPlan) -> dict[str, ErasedBy]:
    """Eraser -> what it did; empty if nothing was erased."""
    if data.folds is None:
        return {}
    known = np.isfinite(data.target)
    target = make_target("target", data.target[known])
    folds, groups = data.folds[known], data.groups[known]
    names = [arm.name for arm in data.readings if arm.kind == "erase"]
    return {
        name: ErasedBy(
            {
                place: _decoded(
                    data.features["", place][known], data.features[name, place][known], target, folds, groups, plan
                )
                for place in (HERE, LATER)
                if (name, place) in data.features
            },
            {
                outcome: dependence(
                    data.of(PLAIN, outcome)[known], data.of(Arm("erase", name), outcome)[known], target.logit, groups
                )
                for outcome in (EXACT, ACTION)
                if data.asked(outcome)
            },
        )
        for name in names
    }


def _decoded(
    before: Floats,
    after: Floats,
    target: Target,
    folds: NDArray[np.intp],
    groups: NDArray[np.object_],
    plan: CausalPlan,
) -> tuple[Refitted, Refitted, Refitted]:
    """R2 of a fresh probe of what was and of what is left, and the fall, by refits on the same resamples."""

    def statistic(rows: NDArray[np.intp], fold_of: NDArray[np.intp]) -> dict[str, float]:
        drawn = Target(target.name, target.prob[rows], target.logit[rows], 0)
        r2 = []
        for x in (before, after):
            crossed = cross_fit(x[rows], drawn, fold_of, plan.penalties)
            r2.append(out_of_fold_r2(drawn.logit, crossed.score, crossed.train_logit))
        return {"before": r2[0], "after": r2[1], "fall": r2[0] - r2[1]}

    refits = refit(statistic, groups, folds, how=Resampling(plan.seed, plan.refits, plan.level))
    return refits["before"].within(-np.inf, 1), refits["after"].within(-np.inf, 1), refits["fall"]


def dependence(before: Floats, after: Floats, x: Floats, groups: NDArray[np.object_]) -> Dependence:
    """Slopes on x by least squares with CR3 errors; that of the difference is the difference of the slopes."""
    kept = np.isfinite(before) & np.isfinite(after)
    codes, _ = cluster_codes(groups[kept], int(kept.sum()))
    design = np.column_stack([np.ones(int(kept.sum())), x[kept]])

    def slope(y: Floats) -> Contrast:
        return linear_fit(y, design, se="CR3", codes=codes).contrast(np.array([0.0, 1.0]))

    before, after = before[kept], after[kept]
    return Dependence(slope(before), slope(after), slope(before - after), slope(before + after))
