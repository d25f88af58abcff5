"""What asking does: beliefs read in passing against beliefs that were asked for (METRICS W6)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..inference.means import cluster_mean
from ..inference.permutation import sign_flip_test
from ..inference.rows import complete_rows
from ..logodds import clipped_logit
from ..score import NAN, Score
from ..validation import probabilities, same_shape


@dataclass(frozen=True, kw_only=True)
class QueryEffect(Score):
    """METRICS W6."""

    headline: ClassVar[str] = "effect"
    effect: float
    """Mean of queried - passive, in [-1, 1]."""
    rms: float
    """Root mean square of it: effects that cancel in the mean do not here."""
    logit_effect: float
    """Mean difference of log-odds."""
    n_clipped: int
    """Probabilities moved to 1e-6 off 0 or 1 so that their log-odds are finite."""


def query_effect(
    passive: ArrayLike,
    queried: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    seed: int = 0,
    draws: int = 2000,
    level: float = 0.95,
) -> QueryEffect:
    """Difference between a belief that is asked for and the one that is there unasked (METRICS W6).

    Args:
        passive: [n] beliefs read at a position without a question (probe or lens).
        queried: [n] at the same position with the question appended.
        groups: [n] item, the unit of the interval and of the sign flips behind `p`. None: every row its own.
        seed: of the bootstrap and the flips, like `draws` and `level` of the bootstrap.
        draws: resamples.
        level: of the interval.

    What the passive read-out itself gets wrong is part of the difference: pass its gate first (`readout_gate`).
    """
    arrays = {name: np.atleast_1d(probabilities(x, name)) for name, x in (("passive", passive), ("queried", queried))}
    same_shape(**arrays)
    rows = complete_rows(groups, **arrays)
    if not rows.n:
        return QueryEffect(effect=NAN, rms=NAN, logit_effect=NAN, n_clipped=0, status="too_few", **rows.counts)
    before, after = rows.columns
    (logit_before, clipped_before), (logit_after, clipped_after) = (
        clipped_logit(x, name) for x, name in ((before, "passive"), (after, "queried"))
    )
    mean = cluster_mean(after - before, rows.codes, seed=seed, draws=draws, level=level)
    flips = sign_flip_test(after - before, rows.codes, seed=seed)
    return QueryEffect(
        effect=mean.mean,
        rms=float(np.sqrt(np.mean((after - before) ** 2))),
        logit_effect=float(np.mean(logit_after - logit_before)),
        n_clipped=clipped_before + clipped_after,
        p=flips.p,
        p_method=flips.p_method,
        status=mean.status,
        **mean.interval(),
        **rows.counts,
    )
