"""How good beliefs are on rows that nothing of them was fitted on (PROBES 2, 6)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from ...metrics.validation import Floats, floats

LOSS_EPS = 1e-6
"""Beliefs are moved this far off 0 and 1 before their log-loss is taken."""


class Recall(NamedTuple):
    """A detector's number: how much of what is true is found at a given rate of false alarms."""

    recall: float
    """NaN with fewer negatives than one false alarm at this rate takes."""
    threshold: float
    n_negatives: int


def out_of_fold_r2(y: ArrayLike, pred: ArrayLike, train_means: ArrayLike) -> float:
    """1 - summed squared error / that of the training folds' means; negative if worse than them (PROBES 2, P3).

    Args:
        y: [n] targets.
        pred: [n] out-of-fold predictions.
        train_means: [n] mean target of the rows that each prediction was fitted on.
    """
    y, pred, train_means = floats(y), floats(pred), floats(train_means)
    spread = float(((y - train_means) ** 2).sum())
    return 1 - float(((y - pred) ** 2).sum()) / spread if spread > 0 else float("nan")


def log_loss(y: ArrayLike, belief: ArrayLike) -> Floats:
    """[n] cross-entropy in nats of beliefs [n] with soft labels [n]."""
    y, p = floats(y), np.clip(floats(belief), LOSS_EPS, 1 - LOSS_EPS)
    return -(y * np.log(p) + (1 - y) * np.log1p(-p))


def log_loss_skill(y: ArrayLike, belief: ArrayLike, train_means: ArrayLike) -> float:
    """1 - log-loss / that of the training folds' means; the entropy of soft labels is in both. NaN where labels do
    not vary, and there is nothing to tell."""
    if np.ptp(floats(y)) == 0:
        return float("nan")
    return 1 - float(log_loss(y, belief).mean()) / float(log_loss(y, train_means).mean())


def auc(y: ArrayLike, score: ArrayLike) -> float:
    """P(a true row scores above a false one), ties a half; soft labels weigh a row on both sides. NaN for one class."""
    y, score = floats(y), floats(score)
    true, false = float(y.sum()), float((1 - y).sum())
    if true <= 0 or false <= 0:
        return float("nan")
    if ((y == 0) | (y == 1)).all():
        ranks = rankdata(score)
        return float((ranks[y == 1].sum() - true * (true + 1) / 2) / (true * false))
    order = np.argsort(score, kind="stable")
    _, first, counts = np.unique(score[order], return_index=True, return_counts=True)
    weights_false = np.add.reduceat((1 - y)[order], first)
    weights_true = np.add.reduceat(y[order], first)
    below = np.concatenate([[0.0], np.cumsum(weights_false)[:-1]])
    assert len(counts) == len(first)
    same = float((y * (1 - y)).sum())  # a row is not compared with itself
    return float((weights_true @ (below + weights_false / 2) - same / 2) / (true * false - same))


def recall_at(score_true: ArrayLike, score_negative: ArrayLike, rate: float = 0.01) -> Recall:
    """The share of true rows above the threshold that at most a share `rate` of the negatives reaches.

    >>> recall_at([3.0, 1.0], [0.0, 1.5], rate=0.5).recall
    1.0
    """
    true, negative = floats(score_true), np.sort(floats(score_negative))[::-1]
    allowed = int(np.floor(rate * len(negative) + 1e-9))
    if allowed < 1 or not len(true):
        return Recall(float("nan"), float("nan"), len(negative))
    threshold = float(negative[allowed]) if allowed < len(negative) else -np.inf
    return Recall(float((true > threshold).mean()), threshold, len(negative))
