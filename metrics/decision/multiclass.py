"""Probabilities of several options against the one that is true: proper scores and calibration (METRICS E14, E15)."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..inference.intervals import jackknife_se, t_interval
from ..inference.rows import cluster_sums, complete_numbers
from ..score import NAN, Score
from ..validation import TIE, Floats, check_level, distributions, floats, outcomes, probabilities
from .prediction import LOG_EPS
from .strata import quantile_bins

MOST_BINS, PER_BIN = 10, 15
"""Bins of a reliability diagram, and the fewest questions for which there is another one."""


class OptionScores(NamedTuple):
    """[n] each; NaN where the truth or the belief is unknown."""

    correct: Floats
    """1 if the likeliest option is the true one; tied options share the credit (METRICS C8)."""
    brier: Floats
    """Sum over options of the squared distance from the truth, in [0, 2]."""
    log_loss: Floats
    """-log of the probability of the true option, nats."""
    confidence: Floats
    """Probability of the likeliest option."""
    hit: Floats
    """1 if the first of the likeliest options is the true one: what the confidence is the probability of."""


def option_scores(p: ArrayLike, truth: ArrayLike, eps: float = LOG_EPS) -> OptionScores:
    """Score beliefs over options, question by question (METRICS E14).

    Args:
        p: [n, k] probabilities; an option that a question lacks has 0.
        truth: [n] index of the true option; NaN if unknown.
        eps: a smaller probability of the true option counts as this.

    >>> option_scores([[0.5, 0.3, 0.2]], truth=[0]).brier.round(2).tolist()
    [0.38]
    """
    beliefs, truths = distributions(p, "p"), floats(truth)
    if beliefs.ndim != 2 or truths.shape != (len(beliefs),):
        raise ValueError(f"p: shape {beliefs.shape}, truth: shape {truths.shape}; give [n, k] and [n]")
    known = np.isfinite(truths) & np.isfinite(beliefs).all(axis=1)
    index = np.where(known, truths, 0).astype(np.intp)
    if (index != np.where(known, truths, 0)).any() or (index < 0).any() or (index >= beliefs.shape[1]).any():
        raise ValueError(f"truth: holds a value that is not the index of an option, 0 .. {beliefs.shape[1] - 1}")
    rows = np.arange(len(beliefs))
    at_truth, top = beliefs[rows, index], beliefs.max(axis=1)
    tied = beliefs >= top[:, None] - TIE
    found = OptionScores(
        correct=tied[rows, index] / np.maximum(tied.sum(axis=1), 1),
        brier=(beliefs**2).sum(axis=1) - 2 * at_truth + 1,
        log_loss=-np.log(np.maximum(at_truth, eps)),
        confidence=top,
        hit=(np.where(known[:, None], beliefs, 0).argmax(axis=1) == index).astype(np.float64),
    )
    return OptionScores(*(np.where(known, values, NAN) for values in found))


class ReliabilityBin(NamedTuple):
    """Questions of similar confidence."""

    n: int
    confidence: float
    """Mean."""
    frequency: float
    """Share that was right."""
    lo: float
    """Where the frequency of a calibrated model lies, from here to `hi`, in [0, 1]."""
    hi: float


@dataclass(frozen=True, kw_only=True)
class CalibrationError(Score):
    """METRICS E15: root mean square distance of frequencies from confidences over bins, without what chance adds."""

    headline: ClassVar[str] = "rms"
    rms: float = NAN
    """0 where the squared error below is negative, as for half of all calibrated models."""
    squared: float = NAN
    """Unbiased for given bins: of a calibrated model 0 on average."""
    ece: float = NAN
    """Mean absolute distance as it is published, which few questions in a bin make large."""
    ece_by_chance: float = NAN
    """What `ece` would be on average if the model were calibrated in every bin."""
    bins: tuple[ReliabilityBin, ...] = ()


def calibration_error(
    confidence: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    bins: int | None = None,
    level: float = 0.95,
) -> CalibrationError:
    """Does what is believed with confidence c come true in a share c of the questions? (METRICS E15)

    Args:
        confidence: [n] probability of the likeliest option, or of any event.
        correct: [n] whether it came true: 0, 1, or NaN if unknown.
        groups: [n] what was sampled; without it every row by itself.
        bins: of equal counts; None: one for each 15 questions, up to ten.
        level: of the interval and of the band of the bins.

    The squared distance of each bin is taken less its cluster-robust variance (Kumar, Liang & Ma 2019, for dependent
    rows), so that it is unbiased. Its interval is a delete-one-cluster jackknife for fixed bins; the root has its
    root. `one_cluster_in_a_bin` says that a variance is not known.

    >>> round(calibration_error([0.9] * 10, [1] * 6 + [0] * 4).ece, 6)  # nine in ten is believed, six are right
    0.3
    """
    check_level(level)
    rows = complete_numbers(groups, confidence=probabilities(confidence, "confidence"), y=outcomes(correct, "correct"))
    s, y = rows.columns
    if not rows.n:
        return CalibrationError(status="too_few", **rows.counts)
    n_bins = max(1, min(MOST_BINS, rows.n // PER_BIN)) if bins is None else bins
    labels = quantile_bins(s, n_bins)
    member = labels[:, None] == np.unique(labels)
    size = cluster_sums(member.astype(np.float64), rows.codes, rows.n_clusters)
    miss = cluster_sums(member * (y - s)[:, None], rows.codes, rows.n_clusters)
    sums = np.stack([size, miss, size**2, miss**2, size * miss, (size > 0).astype(np.float64)])
    squared, gap, variance, weight = _squared_error(sums.sum(axis=1))
    found: dict[str, Any] = {
        "ece": float(weight @ np.abs(gap)),
        "ece_by_chance": float(weight @ np.sqrt(2 / np.pi * variance)),
        "bins": _bins(member, s, y, rows.codes, level),
        "params": {"bins": member.shape[1], "level": level},
        **rows.counts,
    }
    if not np.isfinite(squared):
        status = "one_cluster" if rows.n_clusters < 2 else "one_cluster_in_a_bin"
        return CalibrationError(status=status, ci_method=f"none: {status.replace('_', ' ')}", **found)
    others = np.array([_squared_error(one)[0] for one in np.moveaxis(sums.sum(axis=1)[:, None] - sums, 1, 0)])
    se = jackknife_se(others) if np.isfinite(others).all() else NAN
    lo, hi = t_interval(float(squared), se, rows.n_clusters - 1, level) if np.isfinite(se) else (NAN, NAN)
    how = f"root of a jackknife, t({rows.n_clusters - 1})" if np.isfinite(se) else "none: a bin hangs on one cluster"
    root = [float(np.sqrt(max(0.0, x))) if np.isfinite(x) else NAN for x in (squared, lo, hi)]
    return CalibrationError(rms=root[0], squared=float(squared), ci_lo=root[1], ci_hi=root[2], ci_method=how, **found)


def _squared_error(sums: Floats) -> tuple[float, Floats, Floats, Floats]:
    """From sums [6, bins] over clusters (rows, misses, their squares and product, clusters) to the unbiased squared
    error, and of each bin its gap, the variance of that, and its share of the rows.
    """
    size, miss, size2, miss2, both, clusters = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = miss / size
        spread = np.maximum(miss2 - 2 * gap * both + gap**2 * size2, 0)
        variance = np.where(clusters > 1, clusters / (clusters - 1) * spread / size**2, NAN)
    weight = size / size.sum()
    return float(weight @ (gap**2 - variance)), gap, variance, weight


def _bins(member: Any, s: Floats, y: Floats, codes: Any, level: float) -> tuple[ReliabilityBin, ...]:
    """The bins with the band of a calibrated model: binomial, widened by the design effect of the clusters."""
    residual = y - s
    own = (residual**2).sum()
    clustered = (cluster_sums(residual, codes, int(codes.max()) + 1) ** 2).sum()
    design = max(1.0, clustered / own) if own > 0 else 1.0
    z = float(scipy.stats.norm.ppf((1 + level) / 2))
    found = []
    for mine in member.T:
        n, mean = int(mine.sum()), float(s[mine].mean())
        reach = z * float(np.sqrt(design * (s[mine] * (1 - s[mine])).sum())) / n
        found.append(ReliabilityBin(n, mean, float(y[mine].mean()), max(0.0, mean - reach), min(1.0, mean + reach)))
    return tuple(found)


class OrderEffect(NamedTuple):
    """What the order in which options are listed does to one belief."""

    moved: float
    """Mean total variation between an order's distribution and the mean over orders, in [0, 1]."""
    of_order: float
    """Mean square over options and orders that the order makes."""
    of_options: float
    """Mean square of all distributions about equally likely options; `of_order` over it is the order's share."""


def order_effect(by_order: ArrayLike) -> OrderEffect:
    """From the distributions over options [orders, k] of one question in several orders (METRICS E16).

    >>> order_effect([[0.75, 0.25], [0.25, 0.75]])
    OrderEffect(moved=0.25, of_order=0.0625, of_options=0.0625)
    """
    p = distributions(by_order, "by_order")
    apart = p - p.mean(axis=0)
    return OrderEffect(
        float(np.abs(apart).sum(axis=1).mean() / 2),
        float((apart**2).mean()),
        float(((p - 1 / p.shape[1]) ** 2).mean()),
    )
