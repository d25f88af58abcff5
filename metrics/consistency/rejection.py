"""Belief consistency: does the ratio of two options survive the rejection of a third? (METRICS B2, B7-B10, B12)

An instance is a prior over three options, a posterior after one of them was rejected, and the index of the rejected
one. Options stand in the order of the prompt; the two that remain are called alpha and beta.
"""

from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..contract import (
    NAN,
    RANGE_SLACK,
    RESAMPLING,
    TIE,
    Floats,
    Resampling,
    Score,
    distributions,
    floats,
    probabilities,
    refuse,
    row_counts,
    same_shape,
)
from ..divergence import LOGIT_EPS, clipped_logit, entropy_bits, jsd, jsd_leak
from ..inference.clusters import complete_beliefs
from ..inference.intervals import Interval, moment_interval
from ..inference.means import studentised_mean

AT_ONCE = 10_000
"""Instances that are scored at once: what is needed on the way is that of so many."""


def counts_to_probabilities(counts: ArrayLike) -> Floats:
    """Relative frequencies over the last axis (METRICS B1; belief-consistency eq. 1). All zero gives NaN."""
    counts = np.asarray(counts, dtype=np.float64)
    refuse(counts, counts < 0, "counts:", " is negative")
    total = counts.sum(axis=-1, keepdims=True)
    return counts / np.where(total > 0, total, np.nan)


class Consistency(Score, headline="c2"):
    """What one instance, or a batch of n, shows (METRICS B2). One instance: floats; a batch: arrays [n]."""

    c2: Any
    """1 - JSD of the two-class prior and posterior, in [0, 1] (eq. 4)."""
    c3: Any
    """1 - JSD of (prior2, 0) and the three-class posterior, in [0, 1]: rule-following and belief mixed."""
    leak: Any
    """The part of 1 - c3 that is rule-breaking alone, in bits (METRICS B3)."""
    prior2: Any
    """[..., 2] prior on (alpha, beta), renormalised (eq. 2)."""
    post2: Any
    entropy_prior: Any
    """Bits, in [0, 1]."""
    entropy_post: Any
    p_invalid_raw: Any
    """Posterior mass of the rejected option, the mass on no option kept in the denominator."""
    p_invalid_norm: Any
    """The same among the three options alone."""
    p_error_prior: Any
    """Prior mass on no option: the paper's verbal error."""
    p_error_post: Any
    mse: Any
    mae: Any
    switch: Any
    """Chance that one draw before and one after disagree (eq. 5)."""
    hswitch: Any
    """The same, less what an unchanged belief would do (eq. 6). Not symmetric."""
    included_paper: Any
    """False where the paper drops the instance: alpha and beta have no mass before or after."""


def belief_consistency(prior: ArrayLike, post: ArrayLike, rejected: ArrayLike) -> Consistency:
    """Score instances (METRICS B2; belief-consistency eqs. 2-6).

    Args:
        prior: [3] or [n, 3], the raw probability of each option; what is missing to 1 is on no option.
        post: the same after the rejection.
        rejected: int or [n], index of the rejected option.

    An undefined quantity is NaN, never a number: a prior or a posterior without mass on alpha and beta has no
    c2. Raises ValueError for shapes that differ, values outside [0, 1], sums above 1, or an unknown option.
    """
    single = np.ndim(prior) == 1
    prior, post = (_of_three(x, name) for x, name in ((prior, "prior"), (post, "post")))
    rejected = np.atleast_1d(rejected)
    same_shape(prior=prior, post=post)
    same_shape(prior=prior[:, 0], rejected=rejected)
    ends = range(AT_ONCE, len(prior) + AT_ONCE, AT_ONCE) or [AT_ONCE]
    chunks = [_fields(*(x[end - AT_ONCE : end] for x in (prior, post, rejected))) for end in ends]
    fields: dict[str, Any] = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    if single:
        fields = {name: value[0] if value.ndim > 1 else value[0].item() for name, value in fields.items()}
    return Consistency(**fields, n_rows=int(np.sum(fields["included_paper"])))


def _fields(prior: Floats, post: Floats, rejected: NDArray[Any]) -> dict[str, Any]:
    """Those of a batch."""
    prior, post = _masses(prior, "prior"), _masses(post, "post")
    rows, kept = np.arange(len(prior)), _kept(rejected)
    prior2, post2 = (_normalise(np.take_along_axis(x, kept, axis=1)) for x in (prior, post))
    post3 = _normalise(post)
    ideal3 = np.zeros_like(prior)
    np.put_along_axis(ideal3, kept, prior2, axis=1)
    invalid_norm = post3[rows, rejected]
    share = switch(prior2, post2)
    difference = np.abs(prior2 - post2)
    return {
        "c2": 1 - jsd(prior2, post2),
        "c3": 1 - jsd(ideal3, post3),
        "leak": jsd_leak(invalid_norm),
        "prior2": prior2,
        "post2": post2,
        "entropy_prior": entropy_bits(prior2),
        "entropy_post": entropy_bits(post2),
        "p_invalid_raw": post[rows, rejected],
        "p_invalid_norm": invalid_norm,
        "p_error_prior": 1 - prior.sum(axis=1),
        "p_error_post": 1 - post.sum(axis=1),
        "mse": (difference**2).mean(axis=1),
        "mae": difference.mean(axis=1),
        "switch": share.switch,
        "hswitch": share.hswitch,
        "included_paper": np.isfinite(prior2[:, 0]) & np.isfinite(post2[:, 0]),
    }


def _kept(rejected: NDArray[Any]) -> NDArray[np.intp]:
    """[n, 2] the options that remain."""
    if not np.isin(rejected, (0, 1, 2)).all():
        raise ValueError(f"rejected: {rejected.tolist()} holds an index that is not 0, 1 or 2")
    return np.array([[1, 2], [0, 2], [0, 1]])[rejected]


class Switch(Score, headline="switch"):
    """METRICS B7, eqs. 5 and 6."""

    switch: Any
    hswitch: Any


def switch(prior2: ArrayLike, post2: ArrayLike) -> Switch:
    """Risk that the choice switches, from two-class distributions [..., 2] (METRICS B7; eqs. 5 and 6)."""
    prior2, post2 = distributions(prior2, "prior2"), distributions(post2, "post2")
    same_shape(prior2=prior2, post2=post2)
    a, b = prior2[..., 0], post2[..., 0]
    return Switch(switch=a * (1 - b) + (1 - a) * b, hswitch=a * np.maximum(a - b, 0) + (1 - a) * np.maximum(b - a, 0))


def _of_three(values: ArrayLike, name: str) -> Floats:
    """[n, 3] of one instance or a batch."""
    array = floats(values)
    if array.ndim not in (1, 2) or array.shape[-1] != 3:
        raise ValueError(f"{name}: shape {array.shape}; give [3] or [n, 3]")
    return np.atleast_2d(array)


def _masses(values: Floats, name: str) -> Floats:
    """Raw option probabilities [n, 3] that may leave mass for no option."""
    array = probabilities(values, name)
    totals = array.sum(axis=-1)
    refuse(totals, totals > 1 + RANGE_SLACK, f"{name}: sums to", ", more than 1")
    return array / np.maximum(totals, 1.0)[..., None]


def _normalise(masses: Floats) -> Floats:
    total = masses.sum(axis=-1, keepdims=True)
    return masses / np.where(total > 0, total, np.nan)


# Two read-outs or two moments of one belief, compared over instances (METRICS B8, B10).


def readout_agreement(free: ArrayLike, closed: ArrayLike) -> Floats:
    """1 - JSD, in [0, 1], of two read-outs of one two-class belief [..., 2] (METRICS B8).

    belief-consistency App. D calls it calibration. It is agreement between
    free answers and a closed set, not calibration to truth. NaN in, NaN out.
    """
    return 1 - jsd(free, closed)


calibration_consistency = readout_agreement
"""The paper's name for `readout_agreement`."""


class InvalidAssociation(Score, headline="increase_rate"):
    """METRICS B10, of the rejected option's share before (a) and after (b) the rejection."""

    norm_prior: float = NAN
    """mean a."""
    norm_post: float = NAN
    """mean b."""
    wnorm_prior: float = NAN
    """sum ab / sum b."""
    wnorm_post: float = NAN
    """sum ab / sum a."""
    increase_rate: float = NAN
    """mean ab / (mean a mean b); 1 when a and b are uncorrelated, the same from either side."""
    pearson: float = NAN
    spearman: float = NAN


def invalid_association(
    prior_norm: ArrayLike, post_norm: ArrayLike, clusters: ArrayLike | None = None, *, how: Resampling = RESAMPLING
) -> InvalidAssociation:
    """Is the rejected option given more often where it was likely before? (METRICS B10).

    Args:
        prior_norm: [n] share of the rejected option among the three before the rejection.
        post_norm: [n] the same after.
        clusters: [n]; if given, `increase_rate` has a cluster-bootstrap interval. 1 is no association.

    If it never occurs after (`never_after`) or before (`never_before`), what would divide by zero is NaN.
    """
    rows = complete_beliefs(clusters, prior_norm=prior_norm, post_norm=post_norm)
    a, b = rows.columns
    if not rows.n:
        return InvalidAssociation(status="too_few", **rows.counts)
    mean_a, mean_b, mean_ab = float(a.mean()), float(b.mean()), float((a * b).mean())
    constant = min(np.ptp(a), np.ptp(b)) <= TIE
    if mean_b == 0:
        status = "never_after"
    elif mean_a == 0:
        status = "never_before"
    else:
        status = "constant" if constant else "ok"
    interval = Interval()
    if clusters is not None and mean_a > 0 and mean_b > 0:
        moments = np.column_stack([a * b, a, b, np.ones(rows.n)])
        interval = moment_interval(moments, rows.codes, lambda s: s[:, 0] * s[:, 3] / (s[:, 1] * s[:, 2]), how=how)
    return InvalidAssociation(
        norm_prior=mean_a,
        norm_post=mean_b,
        wnorm_prior=mean_ab / mean_b if mean_b > 0 else NAN,
        wnorm_post=mean_ab / mean_a if mean_a > 0 else NAN,
        increase_rate=mean_ab / (mean_a * mean_b) if mean_a > 0 and mean_b > 0 else NAN,
        pearson=NAN if constant else float(scipy.stats.pearsonr(a, b).statistic),
        spearman=NAN if constant else float(scipy.stats.spearmanr(a, b).statistic),
        status=status,
        **interval.fields(),
        **rows.counts,
    )


# How far the odds of two options move when a third is rejected, and how far they may have (METRICS B12).


class LogoddsChange(Score, headline="rms"):
    """Root mean square change of log-odds, in nats: 0 for a ratio that is kept, without a ceiling."""

    rms: float = NAN
    mean_abs: float = NAN
    median_abs: float = NAN
    """Half of the changes are at most this; a few large ones do not move it."""
    n_clipped: int = 0
    """Probabilities moved to `eps` off 0 or 1 so that their log-odds are finite."""


def rms_logodds_change(
    prior: ArrayLike,
    post: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    eps: float = LOGIT_EPS,
    how: Resampling = RESAMPLING,
) -> LogoddsChange:
    """RMS |change of the log-odds| of the two options that remain (METRICS B12).

    Args:
        prior: [n] share of the first of them among the two, before; NaN is missing.
        post: [n] the same after.
        groups: [n] item, the unit of the interval. None: every row its own.
        eps: probabilities are moved this far off 0 and 1.

    Near 0 and 1 the divergence forgives what this sees. It is 0 for a read-out of the words alone, so print it beside
    that of the word-identity null.
    """
    rows = complete_beliefs(groups, prior=prior, post=post)
    (x, clipped_x), (y, clipped_y) = (
        clipped_logit(column, name, eps) for column, name in zip(rows.columns, ("prior", "post"), strict=True)
    )
    params: dict[str, Any] = {"eps": eps}
    if not rows.n:
        return LogoddsChange(status="too_few", params=params, **rows.counts)
    change = np.abs(y - x)
    rms = float(np.sqrt((change**2).mean()))
    squares = studentised_mean(change**2, rows.codes, how=how)
    return LogoddsChange(
        rms=rms,
        mean_abs=float(change.mean()),
        median_abs=float(np.median(change)),
        n_clipped=clipped_x + clipped_y,
        se=squares.se / (2 * rms) if rms > 0 else squares.se,
        ci_lo=float(np.sqrt(np.maximum(squares.lo, 0.0))),
        ci_hi=float(np.sqrt(np.maximum(squares.hi, 0.0))),
        ci_method=f"root of a {squares.method}" if np.isfinite(squares.se) else squares.method,
        status="ok" if rows.n_clusters > 1 else "one_cluster",
        params=params | squares.params,
        **rows.counts,
    )


class RatioBounds(Score, headline="rms_lo"):
    """What the mass on no option leaves open about two options. Floats for one instance, arrays [n] for a batch."""

    rms_lo: float
    """RMS change of log-odds, were the unallocated mass spread as kindly as it can be."""
    rms_hi: float
    """The same, as unkindly."""
    prior_lo: Any
    """Share of the first option among the two, had the other all of the unallocated mass."""
    prior_hi: Any
    """The same, had the first option all of it."""
    post_lo: Any
    post_hi: Any
    n_clipped: int = 0
    """Ends of bounds moved to 1e-6 off 0 or 1."""


def ratio_bounds(prior: ArrayLike, post: ArrayLike, rejected: ArrayLike) -> RatioBounds:
    """Partial-identification bounds of the ratio under coverage below 1 (METRICS B12).

    Args:
        prior: [3] or [n, 3], the raw probability of each option; what is missing to 1 may belong to either of the
            two that remain, in any split.
        post: the same after the rejection.
        rejected: int or [n], index of the rejected option.

    The bounds are sharp: each end is reached by some split. An instance without any mass that could be on the two
    is NaN.
    """
    single = np.ndim(prior) == 1
    before, after = (np.atleast_2d(probabilities(x, name)) for x, name in ((prior, "prior"), (post, "post")))
    same_shape(prior=before, post=after)
    if before.shape[1] != 3:
        raise ValueError(f"prior: shape {before.shape}; give [3] or [n, 3]")
    where = np.atleast_1d(np.asarray(rejected))
    same_shape(prior=before[:, 0], rejected=where)
    kept = _kept(where)
    (prior_lo, prior_hi), (post_lo, post_hi) = (
        _share_bounds(masses, kept, name) for masses, name in ((before, "prior"), (after, "post"))
    )
    ends = [clipped_logit(x, "share") for x in (prior_lo, prior_hi, post_lo, post_hi)]
    lo0, hi0, lo1, hi1 = (odds for odds, _ in ends)
    least = np.maximum(np.maximum(lo1 - hi0, lo0 - hi1), 0.0)
    most = np.maximum(hi1 - lo0, hi0 - lo1)
    known = np.isfinite(least + most)
    shares: dict[str, Any] = {"prior_lo": prior_lo, "prior_hi": prior_hi, "post_lo": post_lo, "post_hi": post_hi}
    if single:
        shares = {name: float(value[0]) for name, value in shares.items()}
    return RatioBounds(
        rms_lo=float(np.sqrt((least[known] ** 2).mean())) if known.any() else NAN,
        rms_hi=float(np.sqrt((most[known] ** 2).mean())) if known.any() else NAN,
        n_clipped=sum(n for _, n in ends),
        status="ok" if known.any() else "too_few",
        params={"eps": LOGIT_EPS},
        **shares,
        **row_counts(int(known.sum()), int((~known).sum())),
    )


def _share_bounds(masses: Floats, kept: np.ndarray, name: str) -> tuple[Floats, Floats]:
    """Least and largest share [n] of the first of the two kept options."""
    totals = masses.sum(axis=1)
    refuse(totals, totals > 1 + RANGE_SLACK, f"{name}: sums to", ", more than 1")
    first, second = np.take_along_axis(masses, kept, axis=1).T
    free = np.maximum(1 - totals, 0.0)
    total = first + second + free
    total = np.where(total > 0, total, np.nan)
    return first / total, np.minimum((first + free) / total, 1.0)
