"""Two read-outs or two moments of one belief, compared over instances (METRICS B8, B10)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from ..divergence import jsd
from ..inference.intervals import Interval, moment_interval
from ..inference.rows import complete_rows
from ..score import NAN, Score
from ..validation import TIE, Floats, probabilities


def readout_agreement(free: ArrayLike, closed: ArrayLike) -> Floats:
    """1 - JSD, in [0, 1], of two read-outs of one two-class belief [..., 2] (METRICS B8).

    belief-consistency App. D calls it calibration. It is agreement between
    free answers and a closed set, not calibration to truth. NaN in, NaN out.
    """
    return 1 - jsd(free, closed)


calibration_consistency = readout_agreement
"""The paper's name for `readout_agreement`."""


@dataclass(frozen=True, kw_only=True)
class InvalidAssociation(Score):
    """METRICS B10, of the rejected option's share before (a) and after (b) the rejection."""

    headline: ClassVar[str] = "increase_rate"
    norm_prior: float
    """mean a."""
    norm_post: float
    """mean b."""
    wnorm_prior: float
    """sum ab / sum b."""
    wnorm_post: float
    """sum ab / sum a."""
    increase_rate: float
    """mean ab / (mean a mean b); 1 when a and b are uncorrelated, the same from either side."""
    pearson: float
    spearman: float


def invalid_association(
    prior_norm: ArrayLike,
    post_norm: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    seed: int = 0,
    draws: int = 2000,
    level: float = 0.95,
) -> InvalidAssociation:
    """Is the rejected option given more often where it was likely before? (METRICS B10).

    Args:
        prior_norm: [n] share of the rejected option among the three before the rejection.
        post_norm: [n] the same after.
        clusters: [n]; if given, `increase_rate` has a cluster-bootstrap interval. 1 is no association.
        seed: of the resamples.
        draws: number of resamples.
        level: of the interval.

    If it never occurs after (`never_after`) or before (`never_before`), what would divide by zero is NaN.
    """
    rows = complete_rows(
        clusters, prior_norm=probabilities(prior_norm, "prior_norm"), post_norm=probabilities(post_norm, "post_norm")
    )
    a, b = rows.columns
    if not rows.n:
        return InvalidAssociation(
            norm_prior=NAN, norm_post=NAN, wnorm_prior=NAN, wnorm_post=NAN, increase_rate=NAN,
            pearson=NAN, spearman=NAN, status="too_few", **rows.counts,
        )  # fmt: skip
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
        interval = moment_interval(moments, rows.codes, _increase_rate, seed=seed, draws=draws, level=level)
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


def _increase_rate(sums: Floats) -> Floats:
    """[draws, (ab, a, b, n)] -> mean ab / (mean a mean b)."""
    both, before, after, n = sums.T
    return both * n / (before * after)
