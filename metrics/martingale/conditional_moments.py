"""Does the mean update depend on the prior in any way at all? The test of it, and the three tests of the martingale
property that are to be read together (METRICS A4).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score
from ..inference.clusters import BLOCK, complete_beliefs
from ..inference.intervals import t_interval
from ..inference.paired import adjust
from ..inference.randomisation import flipped, tail_p
from ..inference.regression import linear_fit
from .contrasts import martingale_within
from .slope import martingale_joint_test, martingale_score

SIGNS_AT_ONCE = 2_000_000
"""Held in memory: long blocks of draws are what makes a loop over rows cheap."""


class ConditionalMoment(Score, headline="cvm"):
    """Integrated conditional moment statistics of E[update | prior] = 0."""

    cvm: float = NAN
    """Cramer-von Mises form: mean square of the cumulative updates, over n."""
    ks: float = NAN
    """Kolmogorov-Smirnov form: their largest absolute value, over root n."""
    p_cvm: float = NAN
    p_ks: float = NAN


def martingale_icm_test(
    prior: ArrayLike, post: ArrayLike, groups: ArrayLike | None = None, *, how: Resampling = RESAMPLING
) -> ConditionalMoment:
    """Test E[post - prior | prior] = 0 without a functional form (METRICS A4).

    The updates are summed over all rows whose prior is at most each prior in turn. The null flips the signs
    of whole clusters: all of them up to twelve, else `draws` from `seed`. Exact if updates are symmetric
    given the prior, otherwise valid in large samples. Sees a U shape or a shift that the slope is blind to.

    Args:
        prior: [n] beliefs in [0, 1] or NaN.
        post: [n].
        groups: [n] question of each row; without them each row is its own.
    """
    how = how.drawing(4999)
    rows = complete_beliefs(groups, prior=prior, post=post)
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
    block = max(BLOCK, SIGNS_AT_ONCE // rows.n_clusters)
    null, exact, told = flipped(statistics, rows.n_clusters, how, block)
    total = float(np.abs(d).sum())
    p_cvm = tail_p(cvm, null[:, 0], exact=exact, slack=TIE * total**2 / rows.n)
    p_ks = tail_p(ks, null[:, 1], exact=exact, slack=TIE * total / np.sqrt(rows.n))
    return ConditionalMoment(cvm=cvm, ks=ks, p_cvm=p_cvm, p_ks=p_ks, p=p_cvm, **told, **rows.counts)


class BinnedUpdates(Score, headline="mean_delta"):
    """Mean update by bin of the prior; arrays [bins]. The picture beside the test (METRICS A4)."""

    mean_prior: Floats
    mean_delta: Floats
    errors: Floats
    lo: Floats
    hi: Floats
    p_bin: Floats
    p_holm: Floats
    n: Floats


def binned_updates(
    prior: ArrayLike, post: ArrayLike, groups: ArrayLike | None = None, *, bins: int = 10, how: Resampling = RESAMPLING
) -> BinnedUpdates:
    """Mean of post - prior in bins of equal count, each with a t interval over clusters (METRICS A4).

    Priors that tie stay in one bin, so there may be fewer than `bins`. Holm adjusts over the bins. A bin of
    one cluster, or one in which all updates are equal, has a mean and no error (NaN).
    """
    rows = complete_beliefs(groups, prior=prior, post=post)
    b, q = rows.columns
    if bins < 1:
        raise ValueError(f"bins: {bins}; give at least one")
    names = ("mean_prior", "mean_delta", "errors", "lo", "hi", "p_bin", "n")
    if not rows.n:
        blank: dict[str, Any] = dict.fromkeys((*names, "p_holm"), np.zeros(0))
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
        ends = t_interval(mean.estimate, error, fit.df, how.level)
        table.append((b[here].mean(), mean.estimate, error, *ends, mean.p, len(d)))
    fields: dict[str, Any] = dict(zip(names, np.array(table, dtype=np.float64).T, strict=True))
    return BinnedUpdates(
        **fields,
        p_holm=adjust(fields["p_bin"]).p_adjusted,
        ci_method="t over the clusters of each bin",
        params={"bins": bins, "level": how.level},
        **rows.counts,
    )


class MartingaleTests(Score, headline="p_min"):
    """Slope, joint and conditional-moment test of one sample, as one family of three."""

    p_min: float = NAN
    """Smallest adjusted p: the test of the property as a whole."""
    p_tests: Mapping[str, float]
    """`slope`, `joint`, `cvm`: each as it is."""
    p_holm: Mapping[str, float]
    """The same, adjusted."""
    joint_status: str = "ok"
    """Of the joint test, which by itself wants more clusters than the slope does."""


def martingale_tests(
    prior: ArrayLike,
    post: ArrayLike,
    groups: ArrayLike | None = None,
    cells: ArrayLike | None = None,
    *,
    how: Resampling = RESAMPLING,
) -> MartingaleTests:
    """Test the martingale property against a slope, a shift, and any shape at all, with Holm (METRICS A4).

    Arguments as in `martingale_icm_test`, and `cells` as in `martingale_within`: with them the slope is that within
    cells, which is then the one that is printed. It is tested by CR3, the joint null by studentised sign flips; without
    groups every row is a cluster. A test that is undefined (NaN) is not of the family, and a sample without any is
    `too_few`. Otherwise the status is that of the slope: the family holds its level where the slope does.
    """
    how = how.drawing(4999)
    pooled = cells is None
    slope = martingale_score(prior, post, groups, se="CR3") if pooled else martingale_within(prior, post, groups, cells)
    joint = martingale_joint_test(prior, post, groups, se="CR3", how=how)
    moment = martingale_icm_test(prior, post, groups, how=how)
    p = {"slope": slope.p, "joint": joint.p, "cvm": moment.p_cvm}
    family = adjust(list(p.values()))
    holm = dict(zip(p, family.p_adjusted.tolist(), strict=True))
    smallest = min((value for value in holm.values() if np.isfinite(value)), default=NAN)
    return MartingaleTests(
        p_min=smallest,
        p_tests=p,
        p_holm=holm,
        p=smallest,
        p_method=f"Holm over {family.family_size}",
        **slope.row_fields,
        joint_status=joint.status,
        status=slope.status if family.status == "ok" else family.status,
        params={"draws": how.n_draws, "seed": how.seed},
    )
