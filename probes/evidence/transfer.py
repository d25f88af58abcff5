"""From one template, domain or polarity to another: train on the rows of one level, read those of another (PROBES 8).

No group is on both sides, also where levels share groups: each fold is read by a fit on the other folds alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...metrics.validation import Floats
from ..estimators.ridge import RidgeOnLogOdds
from ..targets import BINARY, Target
from .refit import Refitted, refit
from .skill import auc

MIN_ROWS = 8
"""Of a level in the training folds; fewer give no fit."""


class Transfer(NamedTuple):
    """Train level by row, test level by column."""

    by: str
    levels: tuple[str, ...]
    measure: str
    """`AUC` of a binary target (chance .5), `correlation` of a graded one (chance 0)."""
    cells: tuple[tuple[Refitted, ...], ...]
    off_diagonal: Refitted
    """Mean of the cells that transfer."""

    @property
    def chance(self) -> float:
        """What a probe that reads nothing has."""
        return 0.5 if self.measure == "AUC" else 0.0


def transfer_matrix(
    x: Floats,
    target: Target,
    groups: ArrayLike,
    folds: NDArray[np.intp],
    by: str,
    levels: ArrayLike,
    penalties: Sequence[float],
    *,
    draws: int,
    seed: int,
    level: float = 0.95,
) -> Transfer:
    """Every level read by probes that were trained on every level.

    Args:
        x: [n, d] features.
        target: [n].
        groups: [n].
        folds: [n] grouped, 0 to K - 1.
        by: what the levels are of.
        levels: [n].
        penalties: [K] those chosen without each fold.
        draws: refits on resampled groups.
        seed: of them.
        level: of the intervals.
    """
    labels = np.asarray(levels).astype(str)
    names = tuple(sorted(set(labels)))
    measure = "AUC" if target.kind == BINARY else "correlation"

    def statistic(rows: NDArray[np.intp], mine: NDArray[np.intp]) -> dict[str, float]:
        found = {}
        for name in names:
            score = _scores(x[rows], target.prob[rows], mine, labels[rows] == name, penalties)
            for other in names:
                here = (labels[rows] == other) & np.isfinite(score)
                found[f"{name}\0{other}"] = _measured(measure, target.prob[rows][here], score[here])
        away = [value for key, value in found.items() if len(set(key.split("\0"))) > 1 and np.isfinite(value)]
        found["mean"] = float(np.mean(away)) if away else float("nan")
        return found

    every = refit(statistic, groups, folds, draws=draws, seed=seed, level=level)
    found = {name: one.within(0.0 if measure == "AUC" else -1.0, 1.0) for name, one in every.items()}
    cells = tuple(tuple(found[f"{name}\0{other}"] for other in names) for name in names)
    return Transfer(by, names, measure, cells, found["mean"])


def _scores(
    x: Floats, y: Floats, folds: NDArray[np.intp], trained: NDArray[np.bool_], penalties: Sequence[float]
) -> Floats:
    """[n] scores by fits on the level's rows in the other folds; NaN where there are too few of them, or one class."""
    score = np.full(len(x), np.nan)
    for k in range(int(folds.max()) + 1):
        test, train = folds == k, (folds != k) & trained
        if train.sum() >= MIN_ROWS and np.ptp(y[train]) > 0:
            fit = RidgeOnLogOdds(penalties[min(k, len(penalties) - 1)]).fit(x[train], y[train])
            score[test] = fit.score(x[test])
    return score


def _measured(measure: str, y: Floats, score: Floats) -> float:
    if len(y) < 2 or np.ptp(y) == 0 or np.ptp(score) == 0:
        return float("nan")
    return auc(y, score) if measure == "AUC" else float(np.corrcoef(y, score)[0, 1])
