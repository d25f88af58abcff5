"""Beliefs of every row by probes that saw nothing of its group, recalibrated in the training folds (PROBES 6, 7)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ...metrics.validation import Floats
from ..estimators.logistic import soft_logistic
from ..estimators.readout import LinearReadout
from ..selection.nested import PENALTIES, nested_ridge
from ..targets import Target

CALIBRATION_PENALTY = 1e-2
"""Keeps the slope of scores that separate the labels finite."""


@dataclass(frozen=True)
class CrossFitted:
    """[n] rows, each read by a probe that was fitted, and recalibrated, without its fold."""

    score: Floats
    """[n] log-odds before the recalibration."""
    logit: Floats
    """[n] after it."""
    penalties: Floats
    """[K] chosen without each fold."""
    readouts: tuple[LinearReadout, ...]
    """[K]."""
    train_logit: Floats
    """[n] mean target, in log-odds, of the rows that a row's probe was fitted on."""
    train_prob: Floats
    """[n] and as a probability."""
    signals: Floats
    """[K, n] in row k, of the rows of fold k their score, of each other row that of a fit without fold k and its own:
    less the mean target of what was fitted on, which would tell the labels of the fold left out."""

    @property
    def belief(self) -> Floats:
        """[n] in (0, 1)."""
        return expit(self.logit)


def cross_fit(
    x: Floats, target: Target, folds: NDArray[np.intp], penalties: Sequence[float] = PENALTIES
) -> CrossFitted:
    """Ridge on log-odds, with penalty and recalibration from the inner folds."""
    found = nested_ridge(x, target.logit[:, None], folds, penalties)
    logit = np.empty(len(x))
    train_logit, train_prob = np.empty(len(x)), np.empty(len(x))
    readouts, signals = [], found.inner_score.copy()
    for k, readout in enumerate(found.readouts):
        mine = folds == k
        slope, intercept = recalibration(found.inner_score[k, ~mine], target.prob[~mine])
        logit[mine] = intercept + slope * found.score[mine]
        readouts.append(readout.calibrated(slope, intercept))
        train_logit[mine], train_prob[mine] = target.logit[~mine].mean(), target.prob[~mine].mean()
        signals[k, mine] = found.score[mine] - train_logit[mine]
        for j in set(range(len(found.readouts))) - {k}:
            signals[k, folds == j] -= target.logit[~mine & (folds != j)].mean()
    chosen = np.asarray(penalties, dtype=np.float64)[found.chosen[:, 0]]
    return CrossFitted(found.score, logit, chosen, tuple(readouts), train_logit, train_prob, signals)


def recalibration(score: Floats, y: Floats) -> tuple[float, float]:
    """Slope and intercept that turn scores [n] into calibrated log-odds of probabilities [n]."""
    unit = float(score.std()) or 1.0
    w, intercept = soft_logistic(score[:, None] / unit, y, CALIBRATION_PENALTY)
    return float(w[0]) / unit, intercept
