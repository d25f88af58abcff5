"""Calibration of beliefs at each position by itself, and what the errors of a probe do to the slope of an update,
with the way back (PROBES 6, METRICS A5).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ...base.text import listed
from ...metrics.beliefs import condition_columns, read_exactly
from ...metrics.contract import NAN, RESAMPLING, Floats, Resampling, Score, floats
from ...metrics.divergence import clipped_logit
from ...metrics.inference.clusters import complete_rows
from ...metrics.inference.equivalence import Equivalence, tost
from ...metrics.inference.intervals import moment_interval
from ..dataset import EPS, READ_BY, READINGS
from .crossfit import Refitted, logistic_line

SLOPE_BAND = (0.8, 1.25)
"""A slope whose interval lies within is called calibrated."""
SHIFT_MARGINS = {"intercept": 0.25, "slope": 0.25}
"""Smallest shifts of interest between two positions, in log-odds and in slope (TOST)."""


class Calibration(NamedTuple):
    """log-odds of the truth = intercept + slope * log-odds of the belief; 0 and 1 are calibrated."""

    slope: float
    """Below 1: over-confident; above: shrunken."""
    intercept: float


def calibrate(logit: ArrayLike, y: ArrayLike) -> Calibration:
    """Of beliefs in log-odds [n] against soft labels [n]; NaN if either is constant."""
    logit, y = floats(logit), floats(y)
    if len(y) < 2 or np.ptp(logit) == 0 or np.ptp(y) == 0:
        return Calibration(float("nan"), float("nan"))
    return Calibration(*logistic_line(logit, y))


def by_level(logit: Floats, y: Floats, levels: ArrayLike) -> dict[str, float]:
    """Slope and intercept at each level, and by how much each level differs from the first."""
    labels = np.asarray(levels).astype(str)
    names = sorted(set(labels))
    fits = {name: calibrate(logit[labels == name], y[labels == name]) for name in names}
    numbers = {f"{what}[{name}]": getattr(fit, what) for name, fit in fits.items() for what in SHIFT_MARGINS}
    for name in names[1:]:
        for what in SHIFT_MARGINS:
            numbers[f"{what}[{name} - {names[0]}]"] = getattr(fits[name], what) - getattr(fits[names[0]], what)
    return numbers


def shift_test(shift: Refitted, what: str) -> Equivalence:
    """Whether a shift of `slope` or `intercept` between two positions is smaller than its margin."""
    margin = SHIFT_MARGINS[what]
    se = shift.se if shift.known else float("nan")
    return tost(shift.value, se, max(shift.n_groups - 1, 1), -margin, margin)


# What a probe does not know of its target draws its log-odds together (PROBES 6).
#
# A calibrated reading is the mean of the target given the activations, whose variance is R2 of the target's. It is not
# divided by that: then a probe would spread as far as its target, whatever the model holds.

SPREAD = 0.95
"""Of the target's log-odds, below which a reading is called drawn together: R2 of .9."""
WIDE = 0.1
"""Width of the interval of a spread above which nothing is told of one that is not shown to be off."""
OTHER = "other"
"""The levels of a condition that are met in fewer than half of the groups, together."""
CONSTANT = 1e-9
"""Variance of log-odds below which they are called constant: their rounding."""
SPREADS = frozenset({"c2", "c3", "rms_logodds", "framing_bias", "excess", "b_excess", "top_b"})
SPREADS |= {"rmse_clip", "rmse_coherent", "sycophancy_error", "information_gap"}
"""Numbers that shrink with it: differences of beliefs, or of their log-odds, and"""
BETS = ("dutch_book_", "arbitrage_", "frequentist_")
"""how the names of those begin that are lost for such differences."""
RAISED = frozenset({"rms_logodds", "rmse_clip", "rmse_coherent", "sycophancy_error", "information_gap"})
LOWERED = frozenset({"c2", "c3", "kappa", "kappa_word", "M"})
"""Numbers that are raised, as those of bets are, and lowered by errors of a reading, which make a coherent belief look
incoherent."""


def by_errors(metric: str, less: float) -> bool:
    """Whether what a probe's number is `less` than another kind's can be due to the errors of its readings alone."""
    return less < 0 if metric in RAISED or metric.startswith(BETS) else less > 0 and metric in LOWERED


class LogoddsSpread(NamedTuple):
    """How far log-odds that are read spread, of those that are known, within cells; NaN where these do not vary."""

    ratio: float
    """Of the standard deviations; the root of R2 where the reading is calibrated."""
    lo: float
    hi: float
    """Interval of the ratio over groups; NaN where there is none."""
    slope: float
    """Of what is read on what is known: R2 where the reading is calibrated, 0 where it knows nothing."""
    slope_hi: float
    """Upper end of its interval."""

    @property
    def fault(self) -> tuple[str, float]:
        """In words what is wrong with it, of what an interval lies beyond its bound, with a place for the number, and
        that number; empty where of nothing.
        """
        if self.hi < SPREAD:
            return "drawn together: its log-odds have {} of the spread of the exact ones", self.ratio
        if self.lo > 1 / SPREAD:
            return "spread too far: its log-odds have {} times the spread of the exact ones", self.ratio
        if self.slope_hi < SPREAD**2:
            return "apart from the exact belief: its log-odds move by {} where the exact ones move by 1", self.slope
        return "", NAN

    @property
    def known(self) -> bool:
        """Whether the interval is narrow enough to tell."""
        return bool(self.fault[0]) or self.hi - self.lo <= WIDE


def spread(read: ArrayLike, known: ArrayLike, cells: ArrayLike, groups: ArrayLike) -> LogoddsSpread:
    """Of what is read [n], and what is known of the same rows [n], all of them probabilities.

    Args:
        read: by a probe.
        known: from elsewhere.
        cells: [n] which option, at which moment, under which condition: what differs between them is no spread.
        groups: [n] unit of the intervals.
    """
    codes = np.unique(np.asarray(cells).astype(str), return_inverse=True)[1]
    within = []
    for prob in (read, known):
        logit = clipped_logit(prob, "belief", EPS)[0]
        within.append(logit - (np.bincount(codes, logit) / np.bincount(codes))[codes])
    of_read, of_known = within
    moments = np.column_stack([of_read**2, of_known**2, of_read * of_known])
    squares, known_squares, product = moments.sum(axis=0)
    if not known_squares > CONSTANT * len(moments):
        return LogoddsSpread(NAN, NAN, NAN, NAN, NAN)
    ratio = moment_interval(moments, groups, lambda sums: np.sqrt(sums[:, 0] / sums[:, 1]), kind="percentile")
    slope = moment_interval(moments, groups, lambda sums: sums[:, 2] / sums[:, 1], kind="percentile")
    return LogoddsSpread(float(np.sqrt(squares / known_squares)), ratio.lo, ratio.hi, product / known_squares, slope.hi)


class Reach(NamedTuple):
    """Whether the log-odds that a probe of the exact belief reads go with the exact ones."""

    text: str = ""
    """What is wrong, or that it cannot be told; empty where nothing is, and of other targets."""
    wrong: bool = False


def reach(target: str, read: pd.DataFrame, beliefs: pd.DataFrame) -> Reach:
    """Of the rows that a probe of a target has `read`, beside the belief table of their run: in each scenario, within
    options and conditions (`cells_of`), such as the word that is ruled out, which moves log-odds further than all that
    a probe may not know.
    """
    exact = read_exactly(beliefs)
    exact = exact.assign(of=exact["readout_id"].astype(str))[["of", "option", "prob"]]
    both = read.merge(exact, on=["of", "option"], suffixes=("", "_exact")).dropna(subset=["prob", "prob_exact"])
    if target != "exact":
        return Reach()
    if both.empty:
        return Reach("not shown to spread as far as the exact belief (none stands beside what it reads)")
    of = {str(name): _spread_of(rows) for name, rows in both.groupby("scenario", observed=True)}
    faults: dict[str, list[tuple[float, str]]] = {}
    for name, found in of.items():
        says, number = found.fault
        faults.setdefault(says, []).append((number, name))
    if wrong := [_in_words(says, where) for says, where in faults.items() if says]:
        return Reach("; ".join(wrong), wrong=True)
    varied = [found for found in of.values() if np.isfinite(found.ratio)]
    if not varied:
        return Reach("not shown to spread as far as the exact belief, which does not vary")
    if all(found.known for found in varied):
        return Reach()
    few = both["cluster"].nunique()
    return Reach(f"not shown to spread as far as the exact belief ({few} groups are too few to tell)")


def _in_words(says: str, where: Sequence[tuple[float, str]]) -> str:
    """A fault, with its number in each scenario."""
    named = [f"`{name}`" for _, name in where if name]
    scenarios = f" (scenario{'s' * (len(named) > 1)} {listed(named)})" if named else ""
    return says.format(listed([f"{number:.2f}" for number, _ in where])) + scenarios


def _spread_of(rows: pd.DataFrame) -> LogoddsSpread:
    return spread(rows["prob"], rows["prob_exact"], cells_of(rows, "option_index"), rows["cluster"].astype(str))


def cells_of(rows: pd.DataFrame, *names: str) -> NDArray[np.intp]:
    """[n] the cell of each row: its scenario, these columns, and its conditions, of which all levels that are met in
    fewer than half of the clusters count as one.
    """
    clusters = rows["cluster"].astype(str)
    shared = {name: rows[name] for name in [*names, *(["scenario"] if "scenario" in rows else [])]}
    for name in condition_columns(rows.drop(columns=["prob_exact", *READ_BY, *READINGS], errors="ignore")):
        levels = rows[name].astype(str)
        common = clusters.groupby(levels, observed=True).transform("nunique") * 2 >= clusters.nunique()
        shared.setdefault(name, levels.where(common, OTHER))
    if not shared:
        return np.zeros(len(rows), dtype=np.intp)
    return np.asarray(rows.groupby([*shared.values()], dropna=False, observed=True).ngroup(), dtype=np.intp)


# What the errors of a probe do to the slope of an update, and the way back (PROBES 6, METRICS A5).
#
# belief read = a + b * belief + error, at the prior and at the posterior by itself, where the belief is known from
# elsewhere (the exact one, or p* of x); the two errors may be correlated. A classical error makes a martingale look as
# if
# it reverted, a scale that differs between positions as if it drifted; a calibrated probe (Berkson error) does neither.

COLUMNS = ("read0", "read1", "known0", "known1")
PAIRS = [(i, j) for i in range(4) for j in range(i, 4)]


class UpdateBehindProbe(Score, headline="M_behind"):
    """METRICS A5 with an error model in place of a reliability."""

    M_behind: float = NAN
    """Slope of the update on the prior, the probe's errors taken out: fitted on one half of the groups, applied to the
    other, and the reverse."""
    M_read: float = NAN
    """Slope as the probe reads it."""
    M_coherent: float = NAN
    """What the probe would read of a belief that is a martingale."""
    reliability: float = NAN
    """Share of the variance of the prior as read that is the belief's."""
    ratio: float = NAN
    """Scale of the posterior by that of the prior."""
    common: float = NAN
    """Covariance of the errors of prior and posterior, by the variance of the prior as read."""


def update_behind_probe(
    read0: ArrayLike,
    read1: ArrayLike,
    known0: ArrayLike,
    known1: ArrayLike,
    groups: ArrayLike,
    *,
    how: Resampling = RESAMPLING,
) -> UpdateBehindProbe:
    """The slope of the update behind a probe's readings.

    Args:
        read0: [n] prior as the probe reads it.
        read1: [n] posterior.
        known0: [n] the same prior from elsewhere.
        known1: [n] the same posterior.
        groups: [n] question, unit of the interval, in which the error model is fitted anew.
        how: the cluster bootstrap, whose seed is that of the halves, too, and the level of the interval.

    Statuses: `too_few` groups or rows, `no_reliability` where what is read has nothing of what is known.
    """
    given = zip(COLUMNS, (read0, read1, known0, known1), strict=True)
    rows = complete_rows(groups, **{name: floats(x) for name, x in given})
    if rows.n_clusters < 4 or rows.n < 8:
        return UpdateBehindProbe(status="too_few", **rows.counts)
    centred = [column - column.mean() for column in rows.columns]  # for the conditioning of the sums alone
    moments = np.column_stack([np.ones(rows.n), *centred, *(centred[i] * centred[j] for i, j in PAIRS)])
    half = (np.random.default_rng(how.seed).permutation(rows.n_clusters) % 2)[rows.codes][:, None]
    both = np.column_stack([moments * (half == 0), moments * (half == 1)])
    errors = _errors(_covariances(moments.sum(axis=0)[None]))
    estimate = float(_behind(both.sum(axis=0)[None])[0])
    fields: dict[str, Any] = {name: float(value[0]) for name, value in errors.items()} | {"M_behind": estimate}
    if not fields["reliability"] > 0 or np.isnan(estimate):
        fields["M_behind"] = NAN
        return UpdateBehindProbe(status="no_reliability", **rows.counts, **fields)
    interval = moment_interval(both, rows.codes, _behind, how=how)
    return UpdateBehindProbe(**fields, **rows.counts, **interval.fields(), **interval.test_of_zero(estimate))


def _covariances(sums: Floats) -> NDArray[np.float64]:
    """[draws, 4, 4] from sums [draws, 15]."""
    n, means = sums[:, 0], sums[:, 1:5] / sums[:, :1]
    matrices = np.empty((len(sums), 4, 4))
    for column, (i, j) in enumerate(PAIRS, 5):
        matrices[:, i, j] = matrices[:, j, i] = sums[:, column] / n - means[:, i] * means[:, j]
    return matrices


def _errors(c: NDArray[np.float64]) -> dict[str, Floats]:
    """The error model of covariances [draws, 4, 4]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        b0, b1 = c[:, 0, 2] / c[:, 2, 2], c[:, 1, 3] / c[:, 3, 3]
        common = c[:, 0, 1] - b0 * c[:, 2, 1] - b1 * c[:, 3, 0] + b0 * b1 * c[:, 2, 3]
        reliability, ratio, share = b0**2 * c[:, 2, 2] / c[:, 0, 0], b1 / b0, common / c[:, 0, 0]
        return {
            "M_read": c[:, 0, 1] / c[:, 0, 0] - 1,
            "M_coherent": reliability * ratio + share - 1,
            "reliability": reliability,
            "ratio": ratio,
            "common": share,
        }


def _behind(sums: Floats) -> Floats:
    """[draws] corrected slopes from the sums of both halves [draws, 30]."""
    halves = [_errors(_covariances(part)) for part in np.split(sums, 2, axis=1)]
    with np.errstate(divide="ignore", invalid="ignore"):
        corrected = [
            (1 + half["M_read"] - other["common"]) / (other["reliability"] * other["ratio"]) - 1
            for half, other in (halves, halves[::-1])
        ]
    return np.mean(corrected, axis=0)
