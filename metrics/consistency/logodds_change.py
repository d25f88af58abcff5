"""How far the odds of two options move when a third is rejected, and how far they may have (METRICS B12)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..contract import NAN, RESAMPLING, Floats, Resampling, Score, probabilities, refuse, row_counts, same_shape
from ..divergence import LOGIT_EPS, clipped_logit
from ..inference.clusters import complete_rows
from ..inference.means import studentised_mean

SLACK = 1e-9


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
    before, after = np.atleast_1d(probabilities(prior, "prior")), np.atleast_1d(probabilities(post, "post"))
    same_shape(prior=before, post=after)
    rows = complete_rows(groups, prior=before, post=after)
    (x, clipped_x), (y, clipped_y) = (
        clipped_logit(column, name, eps) for column, name in zip(rows.columns, ("prior", "post"), strict=True)
    )
    params: dict[str, Any] = {"eps": eps}
    if not rows.n:
        return LogoddsChange(status="too_few", params=params, **rows.counts)
    change = np.abs(y - x)
    rms = float(np.sqrt((change**2).mean()))
    made = studentised_mean(change**2, rows.codes, how=how)
    return LogoddsChange(
        rms=rms,
        mean_abs=float(change.mean()),
        median_abs=float(np.median(change)),
        n_clipped=clipped_x + clipped_y,
        se=made.se / (2 * rms) if rms > 0 else made.se,
        ci_lo=float(np.sqrt(np.maximum(made.lo, 0.0))),
        ci_hi=float(np.sqrt(np.maximum(made.hi, 0.0))),
        ci_method=f"root of a {made.method}" if np.isfinite(made.se) else made.method,
        status="ok" if rows.n_clusters > 1 else "one_cluster",
        params=params | made.params,
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
    """Ends of bounds moved to `eps` off 0 or 1."""


def ratio_bounds(prior: ArrayLike, post: ArrayLike, rejected: ArrayLike, *, eps: float = LOGIT_EPS) -> RatioBounds:
    """Partial-identification bounds of the ratio under coverage below 1 (METRICS B12).

    Args:
        prior: [3] or [n, 3], the raw probability of each option; what is missing to 1 may belong to either of the
            two that remain, in any split.
        post: the same after the rejection.
        rejected: int or [n], index of the rejected option.
        eps: shares are moved this far off 0 and 1.

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
    if not np.isin(where, (0, 1, 2)).all():
        raise ValueError(f"rejected: {where.tolist()} holds an index that is not 0, 1 or 2")
    kept = np.array([[1, 2], [0, 2], [0, 1]])[where]
    (prior_lo, prior_hi), (post_lo, post_hi) = (
        _share_bounds(masses, kept, name) for masses, name in ((before, "prior"), (after, "post"))
    )
    ends = [clipped_logit(x, "share", eps) for x in (prior_lo, prior_hi, post_lo, post_hi)]
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
        params={"eps": eps},
        **shares,
        **row_counts(int(known.sum()), int((~known).sum())),
    )


def _share_bounds(masses: Floats, kept: np.ndarray, name: str) -> tuple[Floats, Floats]:
    """Least and largest share [n] of the first of the two kept options."""
    totals = masses.sum(axis=1)
    refuse(totals, totals > 1 + SLACK, f"{name}: sums to", ", more than 1")
    first, second = np.take_along_axis(masses, kept, axis=1).T
    free = np.maximum(1 - totals, 0.0)
    total = first + second + free
    total = np.where(total > 0, total, np.nan)
    return first / total, np.minimum((first + free) / total, 1.0)
