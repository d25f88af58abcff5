"""Beliefs of every row by probes that saw nothing of its group, how good they are, and their uncertainty by refits
on resampled groups (PROBES 2, 6, 7).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_softmax, logsumexp, ndtri

from ...metrics.contract import RESAMPLING, Floats, Resampling, floats
from ...metrics.divergence import clipped_logit
from ...metrics.inference.clusters import cluster_codes
from ..cross_validation import PENALTIES, nested_ridge
from ..dataset import Target, belief_over_options, logits_over_options, make_target
from ..estimators import LinearReadout, Multinomial, soft_logistic
from ..groups import MIN_FOLDS

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
    inner: Floats
    """[K, n] the same scores as they are; NaN within fold k."""

    @property
    def belief(self) -> Floats:
        """[n] in (0, 1)."""
        return expit(self.logit)


def cross_fit(
    x: Floats, target: Target, folds: NDArray[np.intp], penalties: Sequence[float] = PENALTIES
) -> CrossFitted:
    """Ridge on log-odds, with penalty and recalibration from the inner folds."""
    fit = nested_ridge(x, target.logit[:, None], folds, penalties)
    logit = np.empty(len(x))
    train_logit, train_prob = np.empty(len(x)), np.empty(len(x))
    readouts, signals = [], fit.inner_score.copy()
    for k, readout in enumerate(fit.readouts):
        test = folds == k
        slope, intercept = recalibration(fit.inner_score[k, ~test], target.prob[~test])
        logit[test] = intercept + slope * fit.score[test]
        readouts.append(readout.calibrated(slope, intercept))
        train_logit[test], train_prob[test] = target.logit[~test].mean(), target.prob[~test].mean()
        signals[k, test] = fit.score[test] - train_logit[test]
        for j in set(range(len(fit.readouts))) - {k}:
            signals[k, folds == j] -= target.logit[~test & (folds != j)].mean()
    chosen = np.asarray(penalties, dtype=np.float64)[fit.chosen[:, 0]]
    return CrossFitted(fit.score, logit, chosen, tuple(readouts), train_logit, train_prob, signals, fit.inner_score)


def recalibration(score: Floats, y: Floats) -> tuple[float, float]:
    """Slope, at least 0, and intercept that turn scores [n], of rows that a probe was not fitted on, into calibrated
    log-odds of probabilities [n]. Scores that fall where these rise know nothing: they are not turned round, and every
    row reads the mean.
    """
    slope, intercept = logistic_line(score, y)
    return (slope, intercept) if slope >= 0 else (0.0, float(clipped_logit(np.array([y.mean()]), "mean")[0][0]))


def logistic_line(score: Floats, y: Floats) -> tuple[float, float]:
    """Slope, of either sign, and intercept under which the logistic of scores [n] has the least cross-entropy with
    probabilities [n].
    """
    unit = float(score.std()) or 1.0
    w, intercept = soft_logistic(score[:, None] / unit, y, CALIBRATION_PENALTY)
    return float(w[0]) / unit, intercept


def softmax_calibration(scores: Floats, prob: Floats) -> tuple[float, Floats]:
    """The slope, shared and at least 0, and the intercepts [k], summing to 0, under which the softmax of scores [n, k]
    has the least cross-entropy with distributions [n, k] over k options. A little penalty on the slope keeps it finite.
    """
    n, k = scores.shape
    unit = float(scores.std()) or 1.0
    z = scores / unit

    def loss(theta: Floats) -> tuple[float, Floats]:
        logits = theta[0] * z + theta[1:]
        logp = logits - logsumexp(logits, axis=1, keepdims=True)
        rest = np.exp(logp) - prob
        penalty = CALIBRATION_PENALTY * (theta**2).sum() / 2
        slopes = np.concatenate([[float((rest * z).sum()) / n], rest.sum(axis=0) / n])
        return float(-(prob * logp).sum() / n + penalty / n), slopes + CALIBRATION_PENALTY * theta / n

    fit = scipy.optimize.minimize(
        loss,
        np.concatenate([[1.0], np.zeros(k)]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None), *[(None, None)] * k],
        options={"gtol": 1e-9},
    )
    intercepts = fit.x[1:] - fit.x[1:].mean()
    return float(fit.x[0]) / unit, intercepts


def softmax_slope(score: Floats, prob: Floats, readout_ids: ArrayLike) -> float:
    """The slope, at least 0, under which the softmax of scores [n] over the options of each read-out [n] has the least
    cross-entropy with shares [n]. At most it gives the scores a standard deviation of 10.
    """
    unit, of = float(score.std()) or 1.0, np.unique(np.asarray(readout_ids), return_inverse=True)[1]

    def loss(slope: float) -> float:
        return -float(prob @ np.log(np.maximum(belief_over_options(slope * score / unit, of), LOSS_EPS)))

    best = scipy.optimize.minimize_scalar(loss, bounds=(0, 10), method="bounded", options={"xatol": 1e-8})
    return float(best.x) / unit if loss(float(best.x)) < loss(0.0) else 0.0


# Distributions over k options: a read-out for each, whose softmax is calibrated, all of it without a row's own fold.


class CrossFittedOptions(NamedTuple):
    """[n] rows, each read by read-outs that were fitted without its fold."""

    score: Floats
    """[n, k] before the calibration."""
    readouts: Sequence[Sequence[LinearReadout]]
    """[K][k], calibrated."""
    penalties: Floats
    """[K, k] chosen without each fold."""


def logits_of_options(prob: Floats) -> Floats:
    """[n, k] the logits of a softmax that gives distributions [n, k]."""
    return logits_over_options(prob.ravel(), np.repeat(np.arange(len(prob)), prob.shape[1])).reshape(prob.shape)


def ridge_of_options(
    x: Floats, prob: Floats, folds: NDArray[np.intp], penalties: Sequence[float]
) -> CrossFittedOptions:
    """Ridge on the logit of each option. Raises UserError for an option whose logit never varies."""
    targets = expit(logits_of_options(prob)).T
    fits = [cross_fit(x, make_target(f"of option {j}", each), folds, penalties) for j, each in enumerate(targets)]
    readouts = []
    for k in range(len(fits[0].readouts)):
        inner = np.column_stack([fit.inner[k] for fit in fits])[folds != k]
        readouts.append(_calibrated([fit.readouts[k] for fit in fits], inner, prob[folds != k]))
    score = np.column_stack([fit.score for fit in fits])
    return CrossFittedOptions(score, readouts, np.column_stack([fit.penalties for fit in fits]))


def multinomial(x: Floats, prob: Floats, folds: NDArray[np.intp], penalties: Sequence[float]) -> CrossFittedOptions:
    """All options at once, at the penalty of the least cross-entropy within the training part of each fold."""
    every = [inner_scores(x, prob, folds, Multinomial(penalty)) for penalty in penalties]
    score, readouts, chosen = np.empty(prob.shape), [], []
    for k in range(int(folds.max()) + 1):
        train = folds != k
        losses = [-(prob[train] * log_softmax(scores[k, train], axis=1)).sum() for scores in every]
        best = int(np.argmin(losses))
        fit = Multinomial(penalties[best]).fit(x[train], prob[train])
        score[~train] = fit.score(x[~train])
        readouts.append(_calibrated(fit, every[best][k, train], prob[train]))
        chosen.append([penalties[best]] * prob.shape[1])
    return CrossFittedOptions(score, readouts, np.array(chosen))


def _calibrated(each: Sequence[LinearReadout], inner: Floats, prob: Floats) -> list[LinearReadout]:
    """Read-outs of options, by scores [n, k] of rows that they were not fitted on."""
    slope, intercepts = softmax_calibration(inner, prob)
    return [readout.calibrated(slope, float(b)) for readout, b in zip(each, intercepts, strict=True)]


def inner_scores(x: Floats, y: Floats, folds: NDArray[np.intp], maker: Any) -> Floats:
    """[K, n, ...] in row k, of each row outside of fold k, its score by a fit of targets [n, ...] without it and k."""
    scores = np.full((int(folds.max()) + 1, *y.shape), np.nan)
    for j, k in combinations(range(len(scores)), 2):
        fit = maker.fit(x[(folds != j) & (folds != k)], y[(folds != j) & (folds != k)])
        scores[k, folds == j], scores[j, folds == k] = fit.score(x[folds == j]), fit.score(x[folds == k])
    return scores


# Uncertainty of what a probe says: groups are resampled and everything is fitted anew (PROBES 7).
#
# The errors of one probe are shared by all its items, so that a bootstrap over items with a fixed probe is too narrow.
# A resample holds fewer different groups than the data, so that its probes are a little worse: the interval is
# therefore
# the estimate and the standard error of the draws, not their percentiles.

Rows = NDArray[np.intp]
Statistic = Callable[[Rows, NDArray[np.intp]], Mapping[str, float]]
"""From row numbers, with repetitions, and the fold of each, to named numbers, everything fitted on those rows."""
METHOD = "groups resampled, probe refitted, normal"


class Refitted(NamedTuple):
    """A number with its interval."""

    value: float
    lo: float
    hi: float
    se: float
    n_groups: int

    def within(self, least: float, most: float) -> "Refitted":
        """The same with its interval cut to the range that the number can have."""
        return self._replace(lo=max(self.lo, least), hi=min(self.hi, most)) if self.known else self

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return bool(np.isfinite(self.se))


def refit(
    statistic: Statistic, groups: ArrayLike, folds: NDArray[np.intp], *, how: Resampling = RESAMPLING
) -> dict[str, Refitted]:
    """Estimates of a statistic on all rows, with intervals from refits on resampled groups.

    A copy of a group stays in the group's fold. A number that is undefined in more than a tenth of the draws has no
    interval.
    """
    codes, n_groups = cluster_codes(groups, len(folds))
    rows_of = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes, minlength=n_groups))[:-1])
    whole = statistic(np.arange(len(folds)), folds)
    rng = np.random.default_rng(how.seed)
    drawn: dict[str, list[float]] = {name: [] for name in whole}
    done = 0
    while done < how.n_draws:
        rows = np.concatenate([rows_of[g] for g in rng.integers(0, n_groups, n_groups)])
        present, renumbered = np.unique(folds[rows], return_inverse=True)
        if len(present) < MIN_FOLDS:
            continue
        done += 1
        for name, value in statistic(rows, renumbered).items():
            drawn[name].append(value)
    z = float(ndtri(0.5 + how.level / 2))
    refits = {}
    for name, value in whole.items():
        values = np.array(drawn[name])
        finite = values[np.isfinite(values)]
        se = float(finite.std(ddof=1)) if len(finite) >= max(2, 0.9 * how.n_draws) else float("nan")
        refits[name] = Refitted(float(value), value - z * se, value + z * se, se, n_groups)
    return refits


# How good beliefs are on rows that nothing of them was fitted on (PROBES 2, 6).

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
        ranks = scipy.stats.rankdata(score)
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
