"""How much of a read-out is the belief, how much the reading (METRICS F5), and how much the wording (METRICS F7)?"""

import math
from dataclasses import field
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..contract import NAN, RESAMPLING, Floats, Resampling, Score, floats
from .clusters import complete_rows
from .intervals import moment_interval
from .regression import EXACT_SS

NOT_ESTIMABLE = "not_estimable"
"""The status of a share of variance whose estimate is negative."""


def estimable(share: float) -> float:
    """A share of variance, as the reliability of a mean is; NaN where its estimate is below 0, which has no lower end
    and is no share: readings of one thing then differ by more than those of different things.

    >>> estimable(0.4), estimable(-10.2)
    (0.4, nan)
    """
    return share if share >= 0 else NAN


def share_text(share: float, lo: float = NAN, hi: float = NAN) -> str:
    """Such a share with its interval, in words where it is not estimable; what lies below 0 is marked.

    >>> share_text(0.4, -2.0, 0.7), share_text(-10.2, -30.0, 0.2), share_text(0.4)
    ('0.400 [<0, 0.700]', 'not estimable', '0.400')
    """
    if not share >= 0:
        return NOT_ESTIMABLE.replace("_", " ")
    return f"{share:.3f}" + ("" if math.isnan(lo) else f" [{'<0' if lo < 0 else f'{lo:.3f}'}, {hi:.3f}]")


class Reliability(Score, headline="icc1"):
    """One-way intraclass correlations."""

    icc1: float = NAN
    """Reliability of one reading, from -1 / (r - 1) on: not cut at zero, a negative one says that readings repel."""
    icc_mean: float = NAN
    """Reliability of the mean of an item's readings (Spearman-Brown); NaN where it is not estimable (`estimable`)."""
    n_readings: int = 0


def reliability_icc(
    readings: ArrayLike, groups: ArrayLike | None = None, *, how: Resampling = RESAMPLING
) -> Reliability:
    """ICC(1) of replicate readings [items, r] (METRICS F5).

    An item with a missing reading is dropped and counted. Without groups the interval is the exact one for
    normal readings (F); with `groups` [items], whose items are not independent, it is over clusters.
    """
    readings = floats(readings)
    if readings.ndim != 2:
        raise ValueError(f"readings: shape {readings.shape}; give [items, readings of each]")
    r = readings.shape[1]
    rows = complete_rows(groups, readings=np.where(np.isfinite(readings), readings, np.nan))
    (x,) = rows.columns
    common: dict[str, Any] = {**rows.counts, "n_readings": r, "params": {"level": how.level}}
    if rows.n < 2:
        return Reliability(status="too_few", **common)
    if r < 2:
        return Reliability(status="one_reading", **common)
    means = x.mean(axis=1)
    within = ((x - means[:, None]) ** 2).sum(axis=1)
    centred = means - means.mean()  # sums of squares of large numbers would lose digits
    moments = np.column_stack([np.ones(rows.n), centred, centred**2, within])
    icc1, icc_mean = (float(v[0]) for v in _icc(moments.sum(axis=0)[None], r))
    if rows.n * means.var() + within.sum() <= EXACT_SS:
        return Reliability(status="zero_variance", **common)
    fields: dict[str, Any] = {"icc1": icc1, "icc_mean": estimable(icc_mean), **common}
    if groups is not None:
        interval = moment_interval(moments, rows.codes, lambda s: _icc(s, r)[0], how=how).within(-np.inf, 1.0, icc1)
        return Reliability(**(fields | interval.fields()))
    between, error = _mean_squares(moments.sum(axis=0)[None], r)
    ratio = float(between[0] / error[0]) if within.sum() > EXACT_SS else np.inf
    df = (rows.n - 1, rows.n * (r - 1))
    ends = [ratio / float(scipy.stats.f.ppf(q, *df)) for q in ((1 + how.level) / 2, (1 - how.level) / 2)]
    lo, hi = (1.0 if np.isinf(f) else (f - 1) / (f + r - 1) for f in ends)
    return Reliability(**fields, ci_lo=lo, ci_hi=hi, ci_method=f"F({df[0]}, {df[1]})")


def _mean_squares(sums: Floats, r: int) -> tuple[Floats, Floats]:
    """Mean squares between and within items, from sums [draws, 4]."""
    n, total, squares, within = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample of one item has none
        return r * (squares - total**2 / n) / (n - 1), within / (n * (r - 1))


def _icc(sums: Floats, r: int) -> tuple[Floats, Floats]:
    between, error = _mean_squares(sums, r)
    with np.errstate(divide="ignore", invalid="ignore"):
        single = (between - error) / (between + (r - 1) * error)
        return single, np.where(between > 0, (between - error) / between, np.nan)


# How much of a reading is the item, and how much the wording it was asked in? (METRICS F7)

FEW_WORDINGS = 5
"""Below this the component of the wordings is hardly estimated, and the result says `few_wordings`."""


class WordingStudy(Score, headline="reliability_one"):
    """Variance components of items x wordings, one reading of each. Components are not cut at zero."""

    reliability_one: float = NAN
    """E rho^2 of one wording, from -1 / (w - 1) on: how well it ranks items as other wordings would."""
    reliability_mean: float = NAN
    """E rho^2 of the mean of the wordings that were read; NaN where it is not estimable (`estimable`)."""
    dependability_one: float = NAN
    """Phi: the same, were items to be read in wordings of their own; the wordings' levels then count as noise."""
    item: float = NAN
    """Variance of items, in squared units of the readings."""
    wording: float = NAN
    """Of wordings: what one adds to all items alike."""
    item_by_wording: float = NAN
    """Of item x wording, with whatever noise a single reading has."""
    wording_means: Floats = field(default_factory=lambda: np.zeros(0))
    """[wordings] mean reading of each."""
    mean_lo: float = NAN
    """Interval of `reliability_mean`."""
    mean_hi: float = NAN
    n_wordings: int = 0


def wording_study(
    readings: ArrayLike, groups: ArrayLike | None = None, *, how: Resampling = RESAMPLING
) -> WordingStudy:
    """G-study of readings [items, wordings], both random (METRICS F7).

    Args:
        readings: one reading of each item in each wording, such as beliefs or log-odds; a NaN drops its item.
        groups: [items] cluster of each. None: every item its own.

    From the mean squares of the two-way layout without replication. Deterministic read-outs have no other noise:
    item x wording is then all that stands between one wording and the belief, and slopes on one wording shrink by
    `reliability_one` as if it were reading noise. Statuses: `too_few`, `one_wording`, `zero_variance`,
    `one_cluster`, `few_wordings`, and `weak_reliability` where the interval reaches zero: the wordings then do not
    read one belief.
    """
    x = floats(readings)
    if x.ndim != 2:
        raise ValueError(f"readings: shape {x.shape}; give [items, wordings]")
    k = x.shape[1]
    rows = complete_rows(groups, readings=np.where(np.isfinite(x), x, np.nan))
    (x,) = rows.columns
    common: dict[str, Any] = {**rows.counts, "n_wordings": k, "params": {"level": how.level}}
    if rows.n < 2 or k < 2:
        return WordingStudy(status="too_few" if rows.n < 2 else "one_wording", **common)
    means = x.mean(axis=0)
    centred = x - means.mean()  # sums of squares of large numbers would lose digits
    if float((centred**2).sum()) <= EXACT_SS:
        return WordingStudy(status="zero_variance", wording_means=means, **common)
    mean_of = centred.mean(axis=1)
    moments = np.column_stack([np.ones(rows.n), mean_of, mean_of**2, (centred**2).sum(axis=1), centred])
    whole = _study(moments.sum(axis=0)[None], k)[0].tolist()
    names = ("item", "wording", "item_by_wording", "reliability_one", "reliability_mean", "dependability_one")
    fields: dict[str, Any] = dict(zip(names, whole, strict=True)) | {"wording_means": means}
    fields["reliability_mean"] = estimable(fields["reliability_mean"])
    interval = moment_interval(moments, rows.codes, lambda sums: _study(sums, k)[:, 3], kind="percentile", how=how)
    mean = moment_interval(moments, rows.codes, lambda sums: _study(sums, k)[:, 4], kind="percentile", how=how)
    interval, mean = interval.within(-np.inf, 1.0, whole[3]), mean.within(-np.inf, 1.0, whole[4])
    status = "few_wordings" if k < FEW_WORDINGS else "ok"
    if rows.n_clusters < 2:
        status = "one_cluster"
    elif not interval.lo > 0:
        status = "weak_reliability"
    return WordingStudy(mean_lo=mean.lo, mean_hi=mean.hi, status=status, **fields, **(common | interval.fields()))


def _study(sums: Floats, k: int) -> Floats:
    """[draws, 6] components and coefficients, from sums [draws, 4 + k]."""
    n, sums_of, squares, total = sums[:, :4].T
    columns = sums[:, 4:]
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample of one item has none
        correction = k * sums_of**2 / n
        ss_item = k * squares - correction
        ss_wording = (columns**2).sum(axis=1) / n - correction
        ms_item, ms_wording = ss_item / (n - 1), ss_wording / (k - 1)
        ms_rest = (total - correction - ss_item - ss_wording) / ((n - 1) * (k - 1))
        item, wording = (ms_item - ms_rest) / k, (ms_wording - ms_rest) / n
        ratios = [item / (item + noise) for noise in (ms_rest, ms_rest / k, ms_rest + wording)]
        ratios = [np.where(np.isfinite(ratio), ratio, np.nan) for ratio in ratios]
    return np.column_stack([item, wording, ms_rest, *ratios])
