"""The registered place by other estimators and poolings, on the same folds (PROBES 2): does it hang on ridge?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from ...metrics.contract import RESAMPLING, Floats, Resampling
from ...metrics.divergence import clipped_logit
from ..dataset import Target
from ..estimators import AttentionPooling, ContrastConsistentSearch, MeanDifference, RidgeOnLogOdds, SoftLogistic
from .crossfit import Refitted, auc, inner_scores, log_loss, log_loss_skill, logistic_line, recalibration, refit

DRAWS = 40
"""Most refits of this table, whose estimators have no shared factorisation."""


class ByEstimator(NamedTuple):
    """One estimator."""

    estimator: str
    skill: Refitted
    """Log-loss skill on held-out groups."""
    auc: Refitted


def compare_estimators(
    x: Floats,
    target: Target,
    groups: ArrayLike,
    folds: NDArray[np.intp],
    penalties: Sequence[float],
    *,
    pooled: Floats | None = None,
    pairs: NDArray[np.intp] | None = None,
    how: Resampling = RESAMPLING,
) -> list[ByEstimator]:
    """Every estimator, its penalty and recalibration from the inner folds; intervals by refits at those penalties.

    Args:
        x: [n, d] features at the registered place.
        target: [n].
        groups: [n].
        folds: [n] grouped, 0 to K - 1.
        pooled: [n, positions, d] features of several positions at that layer.
        pairs: [m, 2] rows of a statement and its negation: what is fitted without labels needs them.
        how: the refits, of which at most 40 are made, and the level of their intervals.
    """
    families: dict[str, tuple[Floats, Sequence[Any]]] = {
        "ridge on log-odds": (x, [RidgeOnLogOdds(penalty) for penalty in penalties]),
        "logistic, soft labels": (x, [SoftLogistic(penalty) for penalty in penalties]),
        "mean difference": (x, [MeanDifference()]),
        "mean difference, covariance corrected": (x, [MeanDifference(corrected=True)]),
    }
    if pooled is not None:
        families["ridge, positions pooled by their mean"] = (
            pooled.mean(axis=1),
            [RidgeOnLogOdds(penalty) for penalty in penalties],
        )
        families["logistic, positions pooled by attention"] = (
            pooled,
            [AttentionPooling(penalty) for penalty in penalties],
        )
    crossed = {name: _Crossed(x_of, makers, target.prob, folds) for name, (x_of, makers) in families.items()}

    def statistic(rows: NDArray[np.intp], mine: NDArray[np.intp]) -> Mapping[str, float]:
        y, measures = target.prob[rows], {}
        base = np.array([y[mine != k].mean() for k in range(int(mine.max()) + 1)])[mine]
        for name, fit in crossed.items():
            belief = fit.beliefs(rows, mine)
            measures[f"{name}\0skill"], measures[f"{name}\0auc"] = log_loss_skill(y, belief, base), auc(y, belief)
        if pairs is not None and len(pairs):
            measures["\0skill"], measures["\0auc"] = _contrast(x, target.prob, pairs, rows, mine, len(folds))
        return measures

    numbers = refit(statistic, groups, folds, how=replace(how, draws=min(how.n_draws, DRAWS)))
    names = {name: name for name in families} | (
        {"": "contrast-consistent search, no labels"} if "\0auc" in numbers else {}
    )
    return [
        ByEstimator(shown, numbers[f"{name}\0skill"].within(-np.inf, 1.0), numbers[f"{name}\0auc"].within(0.0, 1.0))
        for name, shown in names.items()
    ]


class _Crossed:
    """An estimator with the penalty that the inner folds choose for each outer one."""

    def __init__(self, x: Floats, makers: Sequence[Any], y: Floats, folds: NDArray[np.intp]) -> None:
        self.x, self.y = x, y
        every = [inner_scores(x, y, folds, maker) for maker in makers]
        n_folds = int(folds.max()) + 1
        self.chosen, self.calibration = [], []
        for k in range(n_folds):
            train = folds != k
            fits = [recalibration(scores[k, train], y[train]) for scores in every]
            losses = [
                log_loss(y[train], expit(slope * scores[k, train] + intercept)).mean()
                for scores, (slope, intercept) in zip(every, fits, strict=True)
            ]
            best = int(np.argmin(losses))
            self.chosen.append(makers[best])
            self.calibration.append(fits[best])

    def beliefs(self, rows: NDArray[np.intp], folds: NDArray[np.intp]) -> Floats:
        """[rows] each by a fit without its fold."""
        beliefs, y = np.empty(len(rows)), self.y[rows]
        for k in range(int(folds.max()) + 1):
            test = folds == k
            slope, intercept = self.calibration[k]
            fit = self.chosen[k].fit(self.x[rows[~test]], y[~test])
            beliefs[test] = expit(slope * fit.score(self.x[rows[test]]) + intercept)
        return beliefs


def _contrast(
    x: Floats, y: Floats, pairs: NDArray[np.intp], rows: NDArray[np.intp], folds: NDArray[np.intp], n: int
) -> tuple[float, float]:
    """Skill and AUC of a search without labels on statements that have a negation; the training folds give the sign."""
    fold_of = np.full(n, -1)
    fold_of[rows] = folds
    drawn = np.repeat(pairs, np.bincount(rows, minlength=n)[pairs[:, 0]], axis=0)  # as often as the group was drawn
    fold, truth = fold_of[drawn[:, 0]], y[drawn[:, 0]]
    if len(set(fold.tolist())) < 2 or np.ptp(truth) == 0:
        return float("nan"), float("nan")
    belief = np.empty(len(drawn))
    for k in set(fold.tolist()):
        test = fold == k
        search = ContrastConsistentSearch(starts=3).fit(x[drawn[~test, 0]], x[drawn[~test, 1]])
        known = clipped_logit(search.belief(x[drawn[~test, 0]], x[drawn[~test, 1]]), "belief", 1e-6)[0]
        slope, intercept = logistic_line(known, truth[~test])
        logit = clipped_logit(search.belief(x[drawn[test, 0]], x[drawn[test, 1]]), "belief", 1e-6)[0]
        belief[test] = expit(slope * logit + intercept)
    base = np.array([truth[fold != k].mean() for k in fold])
    return log_loss_skill(truth, belief, base), auc(truth, belief)
