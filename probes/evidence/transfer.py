"""From one template, domain or polarity to another, and from a statement to its negation (PROBES 8)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ...metrics.contract import RESAMPLING, Floats, Resampling
from ...metrics.whitebox.readout import framing_bias
from ..dataset import BINARY, Target
from ..estimators import RidgeOnLogOdds
from .crossfit import Refitted, auc, refit

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
    how: Resampling = RESAMPLING,
) -> Transfer:
    """Every level read by probes that were trained on every level.

    Args:
        x: [n, d] features.
        target: [n].
        groups: [n].
        folds: [n] grouped, 0 to K - 1.
        levels: [n].
        penalties: [K] those chosen without each fold.
        how: the refits on resampled groups, and the level of their intervals.
    """
    labels = np.asarray(levels).astype(str)
    names = tuple(sorted(set(labels)))
    measure = "AUC" if target.kind == BINARY else "correlation"

    def statistic(rows: NDArray[np.intp], fold_of: NDArray[np.intp]) -> dict[str, float]:
        measures = {}
        for name in names:
            score = _scores(x[rows], target.prob[rows], fold_of, labels[rows] == name, penalties)
            for other in names:
                here = (labels[rows] == other) & np.isfinite(score)
                measures[f"{name}\0{other}"] = _measured(measure, target.prob[rows][here], score[here])
        away = [value for key, value in measures.items() if len(set(key.split("\0"))) > 1 and np.isfinite(value)]
        measures["mean"] = float(np.mean(away)) if away else float("nan")
        return measures

    every = refit(statistic, groups, folds, how=how)
    measures = {name: refitted.within(0.0 if measure == "AUC" else -1.0, 1.0) for name, refitted in every.items()}
    cells = tuple(tuple(measures[f"{name}\0{other}"] for other in names) for name in names)
    return Transfer(by, names, measure, cells, measures["mean"])


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


# Does a probe hold a statement as true as it holds its negation false? (PROBES 8)


def pair_rows(pairs: ArrayLike, negated: ArrayLike) -> NDArray[np.intp]:
    """[m, 2] the rows of each statement and of its negation.

    Args:
        pairs: [n] what both share; empty: a row without a counterpart.
        negated: [n] whether a row is the negation.
    """
    table = pd.DataFrame({"pair": np.asarray(pairs).astype(str), "negated": np.asarray(negated, dtype=bool)})
    table = table[table["pair"] != ""].reset_index(names="row").drop_duplicates(["pair", "negated"])
    sides = [table[table["negated"] == side].set_index("pair")["row"] for side in (False, True)]
    return pd.concat(sides, axis=1, join="inner").to_numpy(dtype=np.intp)


def complement_gaps(belief: Floats, rows: NDArray[np.intp]) -> Floats:
    """[m] p(X) + p(not X) - 1 of beliefs [n] at pairs of rows [m, 2]."""
    return np.asarray(framing_bias(belief[rows[:, 0]], belief[rows[:, 1]]))
