"""Probabilities of several options against the one that is true: proper scores and calibration (METRICS E14-E16)."""

from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score, distributions, floats, outcomes, probabilities
from ..inference.clusters import cluster_sums, complete_numbers
from ..inference.equivalence import surprises
from ..inference.regression import herfindahl
from .prediction import LOG_EPS
from .strata import quantile_bins

MOST_BINS, PER_BIN = 10, 15
"""Bins of a reliability diagram, and the fewest questions for which there is another one."""
STILL = 0.05
"""An order that moves a belief by less than this (total variation) leaves it where it is: to be undecided in every
order is to be undecided, whatever makes up the little by which options differ."""


class OptionScores(NamedTuple):
    """[n] each; NaN where the truth or the belief is unknown."""

    correct: Floats
    """1 if the likeliest option is the true one; tied options share the credit (METRICS C8)."""
    brier: Floats
    """Sum over options of the squared distance from the truth, in [0, 2]."""
    log_loss: Floats
    """-log of the probability of the true option, nats; one below 1e-15 counts as that."""
    confidence: Floats
    """Probability of the likeliest option."""
    hit: Floats
    """1 if the first of the likeliest options is the true one: what the confidence is the probability of."""


def option_scores(p: ArrayLike, truth: ArrayLike) -> OptionScores:
    """Score beliefs over options, question by question (METRICS E14).

    Args:
        p: [n, k] probabilities; an option that a question lacks has 0.
        truth: [n] index of the true option; NaN if unknown.

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
    scores = OptionScores(
        correct=tied[rows, index] / np.maximum(tied.sum(axis=1), 1),
        brier=(beliefs**2).sum(axis=1) - 2 * at_truth + 1,
        log_loss=-np.log(np.maximum(at_truth, LOG_EPS)),
        confidence=top,
        hit=(np.where(known[:, None], beliefs, 0).argmax(axis=1) == index).astype(np.float64),
    )
    return OptionScores(*(np.where(known, values, NAN) for values in scores))


def option_losses(p: ArrayLike) -> tuple[Floats, Floats]:
    """What beliefs [n, k] over options lose by each of them, were it the true one: Brier score and log-loss, [n, k]
    each, as in `OptionScores` (METRICS E14).

    >>> option_losses([[0.75, 0.25]])[0].tolist()
    [[0.125, 1.125]]
    """
    beliefs = distributions(p, "p")
    return (beliefs**2).sum(axis=-1, keepdims=True) - 2 * beliefs + 1, -np.log(np.maximum(beliefs, LOG_EPS))


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


class CalibrationError(Score, headline="rms"):
    """METRICS E15: root mean square distance of frequencies from confidences over bins, without what chance adds."""

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
    how: Resampling = RESAMPLING,
) -> CalibrationError:
    """Does what is believed with confidence c come true in a share c of the questions? (METRICS E15)

    Args:
        confidence: [n] probability of the likeliest option, or of any event.
        correct: [n] whether it came true: 0, 1, or NaN if unknown.
        groups: [n] what was sampled; without it every row by itself.
        bins: of equal counts; None: one for each 15 questions, up to ten, and at least two.

    The squared distance of each bin is taken less its cluster-robust variance (Kumar, Liang & Ma 2019, for
    dependent rows), so that it is unbiased. The interval inverts a noncentral chi2 of the squared distances for
    fixed bins, whose variance is no smaller than the binomial one of a calibrated model: where errors are rare,
    those that were seen hardly vary. `too_few`: not enough rows for two bins. `few_surprises`: too few errors are
    to be expected for any interval. `one_cluster_in_a_bin` says that a variance is not known.

    >>> round(calibration_error([0.9] * 10, [1] * 6 + [0] * 4, bins=1).ece, 6)  # nine in ten is believed, six are right
    0.3
    """
    rows = complete_numbers(groups, confidence=probabilities(confidence, "confidence"), y=outcomes(correct, "correct"))
    s, y = rows.columns
    if not rows.n or (bins is None and rows.n < 2 * PER_BIN):
        return CalibrationError(status="too_few", **rows.counts)
    n_bins = min(MOST_BINS, rows.n // PER_BIN) if bins is None else bins
    labels = quantile_bins(s, n_bins)
    member = labels[:, None] == np.unique(labels)
    size = cluster_sums(member.astype(np.float64), rows.codes, rows.n_clusters)
    miss = cluster_sums(member * (y - s)[:, None], rows.codes, rows.n_clusters)
    total = size.sum(axis=0)
    gap, weight = miss.sum(axis=0) / total, total / rows.n
    spread = _covariance(size, miss, gap)
    variance, by_chance = np.diag(spread), _by_chance(member, s, y, rows.codes)
    fields: dict[str, Any] = {
        "ece": float(weight @ np.abs(gap)),
        "ece_by_chance": float(weight @ np.sqrt(2 / np.pi * variance)),
        "bins": _bins(member, s, y, by_chance, how.level),
        "params": {"bins": member.shape[1], "level": how.level},
        **rows.counts,
    }
    squared = float(weight @ (gap**2 - variance))
    if not np.isfinite(squared):
        status = "one_cluster" if rows.n_clusters < 2 else "one_cluster_in_a_bin"
        return CalibrationError(status=status, ci_method=f"none: {status.replace('_', ' ')}", **fields)
    spread[np.diag_indices_from(spread)] = np.maximum(variance, by_chance)
    df = max(herfindahl(np.bincount(rows.codes) / rows.n) - 1, 1.0)
    root = np.sqrt(weight)
    lo, hi = _distances(root * gap, root[:, None] * spread * root, df, how.level)
    foreseen = surprises(np.column_stack([1 - s, s]), np.tile([0.0, 1.0], (rows.n, 1)), rows.codes)
    rms = float(np.sqrt(max(0.0, squared)))
    return CalibrationError(
        rms=rms,
        squared=squared,
        ci_lo=min(lo, rms),
        ci_hi=max(hi, rms),
        ci_method=f"noncentral chi2, t({df:.3g})",
        status="few_surprises" if foreseen.few else "ok",
        **fields,
    )


def _covariance(size: Floats, miss: Floats, gap: Floats) -> Floats:
    """[bins, bins] of the gaps, over clusters [G, bins] of rows and misses; NaN where one cluster fills a bin."""
    off = (miss - gap * size) / size.sum(axis=0)
    clusters = (size > 0).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.sqrt(np.where(clusters > 1, clusters / (clusters - 1), NAN))
    return (off * scale).T @ (off * scale)


def _by_chance(member: Any, s: Floats, y: Floats, codes: Any) -> Floats:
    """[bins] variance of the gap of a calibrated model: binomial, times the design effect of the clusters."""
    residual = y - s
    independent = (residual**2).sum()
    clustered = (cluster_sums(residual, codes, int(codes.max()) + 1) ** 2).sum()
    design = max(1.0, clustered / independent) if independent > 0 else 1.0
    return design * (s * (1 - s)) @ member / member.sum(axis=0) ** 2


def _distances(gaps: Floats, spread: Floats, df: float, level: float) -> tuple[float, float]:
    """Interval of the length of the true gaps, from those seen [bins] and their covariance [bins, bins].

    The squared length is scaled to a noncentral chi2 of the same mean, and of a variance no smaller: with no gap, or
    along the gaps that were seen. The noncentralities are taken of which the length that was seen is as low, or as
    high, as the level allows. An end is 0 where none is. For one bin far off these are the ends of t(`df`), by whose
    quantile over the normal's the errors grow.
    """
    tail = (1 + level) / 2
    spread = spread * (scipy.stats.t.ppf(tail, df) / scipy.stats.norm.ppf(tail)) ** 2
    total, mean = float(gaps @ gaps), float(np.trace(spread))
    if not mean > 0:
        return float(np.sqrt(total)), float(np.sqrt(total))
    scale = max(float((spread**2).sum()) / mean, float(gaps @ spread @ gaps) / total if total > 0 else 0.0)
    df_of_sum, seen = mean / scale, total / scale

    def at(share: float) -> float:
        """The noncentrality under which what was seen is at this share of the distribution."""

        def above(nc: float) -> float:
            return float(scipy.special.chndtr(seen, df_of_sum, nc)) - share

        if above(0.0) <= 0:
            return 0.0
        high = 1.0
        while above(high) > 0:
            high *= 2
        return float(scipy.optimize.brentq(above, 0.0, high))

    lo, hi = (float(np.sqrt(scale * at(share))) for share in (tail, 1 - tail))
    return lo, hi


def _bins(member: Any, s: Floats, y: Floats, by_chance: Floats, level: float) -> tuple[ReliabilityBin, ...]:
    """The bins with the band of a calibrated model."""
    reach = float(scipy.stats.norm.ppf((1 + level) / 2)) * np.sqrt(by_chance)
    bins = []
    for inside, far in zip(member.T, reach.tolist(), strict=True):
        n, mean = int(inside.sum()), float(s[inside].mean())
        bins.append(ReliabilityBin(n, mean, float(y[inside].mean()), max(0.0, mean - far), min(1.0, mean + far)))
    return tuple(bins)


class OrderEffect(NamedTuple):
    """What the order in which options are listed does to one belief."""

    moved: float
    """Mean total variation between an order's distribution and the mean over orders, in [0, 1]."""
    of_order: float
    """Mean square over options and orders that the order makes."""
    of_options: float
    """Mean square of all distributions about equally likely options; `of_order` over it is the order's share."""

    @property
    def follows_place(self) -> float:
        """1 if the belief follows the place of the options: their order moves it by `STILL` or more, and makes more of
        what tells options apart than they do themselves. 0 if not; NaN where no second order was read.
        """
        if np.isnan(self.moved):
            return NAN
        return float(self.moved >= STILL and self.of_order > self.of_options / 2)


def order_effect(by_order: ArrayLike) -> OrderEffect:
    """From the distributions over options [orders, k] of one question in several orders (METRICS E16). One order has
    none: NaN.

    >>> order_effect([[0.75, 0.25], [0.25, 0.75]])
    OrderEffect(moved=0.25, of_order=0.0625, of_options=0.0625)
    """
    p = distributions(by_order, "by_order")
    if len(p) < 2:
        return OrderEffect(NAN, NAN, NAN)
    apart = p - p.mean(axis=0)
    return OrderEffect(
        float(np.abs(apart).sum(axis=1).mean() / 2), float((apart**2).mean()), float(((p - 1 / p.shape[1]) ** 2).mean())
    )
