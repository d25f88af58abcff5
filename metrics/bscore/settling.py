"""From which turn on is the predictive distribution of repeated answers a martingale? (METRICS C9)"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..contract import NAN, RESAMPLING, Floats, Resampling, Score
from ..inference.clusters import Rows, bootstrap_moments, cluster_sums, complete_rows
from ..inference.equivalence import MARGINS
from ..inference.intervals import MIN_BOOTSTRAP_CLUSTERS, Tails, jackknife_se, moment_interval, t_interval

SHORTEST = 3
"""Fewest updates along a conversation from which a start is judged, where it has so many."""
ROUNDING = 1e-14
"""An update below this is none: beliefs that do not move differ by rounding."""


class TurnSlope(Score, headline="M"):
    """Slope of the update at one turn on the belief before it; 0 for a martingale."""

    M: float


class SettlingTurn(Score, headline="turn"):
    """The first turn from which no start shows more than the margin. NaN with status `not_settled` if none is."""

    turn: float = NAN
    never: float = NAN
    """Share of the resamples in which none was: then the interval ends at the last turn that is judged, or later. NaN
    below ten clusters."""
    M_from: Floats
    """[starts] the slope over all updates from each turn on."""


def turn_slopes(paths: ArrayLike, clusters: ArrayLike, *, how: Resampling = RESAMPLING) -> list[TurnSlope]:
    """M of each turn (METRICS C9): slope of x(t+1) - x(t) on x(t), with x(t-1) as the instrument.

    What the order of the options does at a turn is noise in x(t) that would pass for a return to the mean; the turn
    before was read under another order, so that its noise is independent (METRICS A5). Turn 1 is its own instrument.

    Args:
        paths: [n, turns] the probability of an option at each turn of a conversation, given what was sampled before.
        clusters: [n] the question.

    >>> paths = [[0.2, 0.4, 0.4], [0.6, 0.8, 0.8], [0.5, 0.5, 0.5], [0.3, 0.1, 0.1]]
    >>> second = turn_slopes(paths, ["a", "b", "c", "d"])[1]
    >>> second.M
    0.0
    """
    rows = _rows(paths, clusters)
    slopes = []
    for turn in range(rows.columns[0].shape[1] - 1):
        moments = _moments(rows.columns[0], turn)
        estimate = float(_slope(moments.sum(axis=0)[None])[0]) if rows.n else NAN
        if rows.n_clusters < 2:
            slopes.append(TurnSlope(M=estimate, status="too_few" if not rows.n else "one_cluster", **rows.counts))
            continue
        interval = moment_interval(moments, rows.codes, _slope, how=how)
        status = "ok" if np.isfinite(estimate) else "constant"
        slopes.append(TurnSlope(M=estimate, status=status, **rows.counts, **interval.fields()))
    return slopes


def settling_turn(
    paths: ArrayLike, clusters: ArrayLike, margin: float = MARGINS["martingale"], *, how: Resampling = RESAMPLING
) -> SettlingTurn:
    """The first turn from which the slope (see `turn_slopes`), over all updates from it on and from every later turn
    on, lies within the margin (METRICS C9). A start is judged if three updates follow it, or all that there are.

    The interval is by bootstrap of clusters; a resample in which nothing settles counts as the turn after the last. Of
    fewer than ten clusters, it goes from the first turn from which no t interval of a slope lies outside the margin to
    the first from which all lie inside it, each by a jackknife over clusters.

    >>> still = [[0.2, 0.2, 0.2, 0.2], [0.7, 0.7, 0.7, 0.7]]
    >>> settling_turn(still, [0, 1]).turn
    1.0
    """
    rows = _rows(paths, clusters)
    n_turns = rows.columns[0].shape[1]
    n_starts = max(1, n_turns - SHORTEST)
    if not rows.n or n_turns < 2:
        return SettlingTurn(M_from=np.full(n_starts, NAN), status="too_few", **rows.counts)
    moments = np.hstack([_moments(rows.columns[0], turn) for turn in range(n_turns - 1)])

    def judge(sums: Floats) -> Floats:
        """[draws] the first turn from which all starts are within the margin; one past the last if none is."""
        return _onwards(np.abs(_from(sums, n_turns - 1, n_starts)) <= margin)

    total = moments.sum(axis=0)[None]
    turn = float(judge(total)[0])
    params = {"margin": margin, **how.params}
    fields: dict[str, Any] = {"M_from": _from(total, n_turns - 1, n_starts)[0], "params": params, **rows.counts}
    settled = turn <= n_starts
    fields["turn"] = turn if settled else NAN
    if rows.n_clusters < MIN_BOOTSTRAP_CLUSTERS:
        lo, hi, method = _few(moments, rows, n_turns - 1, n_starts, margin, how.level)
        status = "ok" if settled else "not_settled"
        return SettlingTurn(ci_lo=lo, ci_hi=hi, status=status, ci_method=method, **fields)
    drawn = bootstrap_moments(moments, rows.codes, judge, how=how)
    lo, hi = Tails(n_clusters=rows.n_clusters).ends(drawn, how.level)
    return SettlingTurn(
        never=float((drawn > n_starts).mean()),
        ci_lo=float(np.floor(lo)),
        ci_hi=float(np.ceil(hi)),
        ci_method="expanded percentile cluster bootstrap",
        status="ok" if settled else "not_settled",
        **fields,
    )


def _few(
    moments: Floats, rows: Rows, n_updates: int, n_starts: int, margin: float, level: float
) -> tuple[float, float, str]:
    """First turn from which no slope is shown to exceed the margin, and from which all are shown not to; how told."""
    g = rows.n_clusters
    if g < 2:
        return NAN, NAN, f"none: {g} clusters"
    sums = cluster_sums(moments, rows.codes, g)
    left_out = _from(sums.sum(axis=0) - sums, n_updates, n_starts)
    slopes = _from(sums.sum(axis=0)[None], n_updates, n_starts)[0]
    ends = np.array(
        [t_interval(m, jackknife_se(others), g - 1, level) for m, others in zip(slopes, left_out.T, strict=True)]
    )
    if not np.isfinite(ends).all():
        return NAN, NAN, "none: a slope hangs on one cluster"
    within = np.asarray((np.abs(ends) <= margin).all(axis=1))
    beyond = np.logical_or(ends[:, 0] > margin, ends[:, 1] < -margin)
    return float(_onwards(np.logical_not(beyond))), float(_onwards(within)), f"jackknife of each slope, t({g - 1})"


def _rows(paths: ArrayLike, clusters: ArrayLike) -> Rows:
    """Those without a gap."""
    table = np.atleast_2d(np.asarray(paths, dtype=np.float64))
    return complete_rows(clusters, paths=table)


def _moments(paths: Floats, turn: int) -> Floats:
    """[n, 6] what the slope at a turn (from 0) is made of: 1, z, x, zx, d, zd."""
    x, d = paths[:, turn], paths[:, turn + 1] - paths[:, turn]
    z = paths[:, max(turn - 1, 0)]
    return np.column_stack([np.ones(len(x)), z, x, z * x, d, z * d])


def _slope(sums: Floats) -> Floats:
    """[...] from [..., 6]. Without any update it is 0, whatever the beliefs are."""
    n, z, x, zx, d, zd = np.moveaxis(sums, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        up, down = zd - z * d / n, zx - z * x / n
        return np.where(np.abs(up) < ROUNDING * n, 0.0, up / down)


def _from(sums: Floats, n_updates: int, n_starts: int) -> Floats:
    """[draws, starts] the slope over the updates from each turn on."""
    by_turn = sums.reshape(len(sums), n_updates, 6)
    return np.stack([_slope(by_turn[:, start:].sum(axis=1)) for start in range(n_starts)], axis=1)


def _onwards(settled: NDArray[np.bool_]) -> Floats:
    """[...] the first turn, from 1, from which all starts [..., starts] hold; one past the last if none does."""
    onwards = np.logical_and.accumulate(settled[..., ::-1], axis=-1)[..., ::-1]
    return np.where(onwards.any(axis=-1), onwards.argmax(axis=-1), settled.shape[-1]) + 1.0
