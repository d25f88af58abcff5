"""Does the mean update depend on the prior in any way at all? (METRICS A4)"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..inference.multiplicity import adjust
from ..inference.permutation import ENUMERATE_UP_TO, describe_flips, sign_vectors, tail_p
from ..inference.regression import linear_fit
from ..inference.resampling import BLOCK
from ..inference.rows import complete_numbers
from ..inference.tails import t_interval
from ..score import NAN, Score
from ..validation import TIE, Floats, probabilities

SIGNS_AT_ONCE = 2_000_000
"""Held in memory: long blocks of draws are what makes a loop over rows cheap."""


@dataclass(frozen=True, kw_only=True)
class ConditionalMoment(Score):
    """Integrated conditional moment statistics of E[update | prior] = 0."""

    headline: ClassVar[str] = "cvm"
    cvm: float = NAN
    """Cramer-von Mises form: mean square of the cumulative updates, over n."""
    ks: float = NAN
    """Kolmogorov-Smirnov form: their largest absolute value, over root n."""
    p_cvm: float = NAN
    p_ks: float = NAN


def martingale_icm_test(
    prior: ArrayLike,
    post: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    draws: int = 4999,
    seed: int = 0,
) -> ConditionalMoment:
    """Test E[post - prior | prior] = 0 without a functional form (METRICS A4).

    The updates are summed over all rows whose prior is at most each prior in turn. The null flips the signs
    of whole clusters: all of them up to twelve, else `draws` from `seed`. Exact if updates are symmetric
    given the prior, otherwise valid in large samples. Sees a U shape or a shift that the slope is blind to.

    Args:
        prior: [n] beliefs in [0, 1] or NaN.
        post: [n].
        groups: [n] question of each row; without them each row is its own.
        draws: sampled sign vectors.
        seed: of the sample.
    """
    rows = complete_numbers(groups, prior=probabilities(prior, "prior"), post=probabilities(post, "post"))
    b, q = rows.columns
    if rows.n < 2:
        return ConditionalMoment(status="too_few", **rows.counts)
    order = np.argsort(b, kind="stable")
    b, d, codes = b[order], (q - b)[order], rows.codes[order]
    # Priors that tie share one cumulative sum, that of the last of them; the others count for nothing.
    times = np.bincount(np.searchsorted(b, b + TIE, side="right") - 1, minlength=rows.n)

    def statistics(signs: Floats) -> Floats:
        """[draws, 2] both statistics under sign vectors [draws, G]: row by row, all draws at once."""
        by_cluster = np.ascontiguousarray(signs.T)
        total, squares, largest = np.zeros((3, len(signs)))
        for code, update, count in zip(codes.tolist(), d.tolist(), times.tolist(), strict=True):
            total += update * by_cluster[code]
            if count:
                squares += count * total**2
                np.maximum(largest, np.abs(total), out=largest)
        return np.column_stack([squares / rows.n**2, largest / np.sqrt(rows.n)])

    cvm, ks = (float(x) for x in statistics(np.ones((1, rows.n_clusters)))[0])
    blocks = sign_vectors(rows.n_clusters, draws=draws, seed=seed, block=max(BLOCK, SIGNS_AT_ONCE // rows.n_clusters))
    null = np.concatenate([statistics(s) for s in blocks])
    exact = rows.n_clusters <= ENUMERATE_UP_TO
    total = float(np.abs(d).sum())
    p_cvm = tail_p(cvm, null[:, 0], exact=exact, slack=TIE * total**2 / rows.n)
    p_ks = tail_p(ks, null[:, 1], exact=exact, slack=TIE * total / np.sqrt(rows.n))
    p_method, params = describe_flips(rows.n_clusters, draws, seed)
    return ConditionalMoment(
        cvm=cvm, ks=ks, p_cvm=p_cvm, p_ks=p_ks, p=p_cvm, p_method=p_method, params=params, **rows.counts
    )


@dataclass(frozen=True, kw_only=True)
class BinnedUpdates(Score):
    """Mean update by bin of the prior; arrays [bins]. The picture beside the test (METRICS A4)."""

    headline: ClassVar[str] = "mean_delta"
    mean_prior: Floats
    mean_delta: Floats
    errors: Floats
    lo: Floats
    hi: Floats
    p_bin: Floats
    p_holm: Floats
    n: Floats


def binned_updates(
    prior: ArrayLike,
    post: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    bins: int = 10,
    level: float = 0.95,
) -> BinnedUpdates:
    """Mean of post - prior in bins of equal count, each with a t interval over clusters (METRICS A4).

    Priors that tie stay in one bin, so there may be fewer than `bins`. Holm adjusts over the bins. A bin of
    one cluster, or one in which all updates are equal, has a mean and no error (NaN).
    """
    rows = complete_numbers(groups, prior=probabilities(prior, "prior"), post=probabilities(post, "post"))
    b, q = rows.columns
    if bins < 1:
        raise ValueError(f"bins: {bins}; give at least one")
    if not rows.n:
        empty = np.zeros(0)
        blank: dict[str, Any] = dict.fromkeys(
            ("mean_prior", "mean_delta", "errors", "lo", "hi", "p_bin", "p_holm", "n"), empty
        )
        return BinnedUpdates(**blank, status="too_few", **rows.counts)
    # qcut drops its one edge when all priors are equal; then there is one bin.
    numbers = np.asarray(pd.qcut(b, bins, labels=False, duplicates="drop"), dtype=np.float64)
    numbers = np.nan_to_num(numbers)
    table = []
    for number in np.unique(numbers):
        here = numbers == number
        d = (q - b)[here]
        fit = linear_fit(d, np.ones((len(d), 1)), se="CR1", codes=rows.codes[here])
        mean = fit.contrast(np.ones(1))
        error = mean.se if mean.se > 0 else NAN
        ends = t_interval(mean.estimate, error, fit.df, level)
        table.append((b[here].mean(), mean.estimate, error, *ends, mean.p, len(d)))
    mean_prior, mean_delta, errors, lo, hi, p_bin, n = np.array(table, dtype=np.float64).T
    return BinnedUpdates(
        mean_prior=mean_prior,
        mean_delta=mean_delta,
        errors=errors,
        lo=lo,
        hi=hi,
        p_bin=p_bin,
        p_holm=adjust(p_bin).p_adjusted,
        n=n,
        ci_method="t over the clusters of each bin",
        params={"bins": bins, "level": level},
        **rows.counts,
    )
