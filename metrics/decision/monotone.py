"""Is the favourable action chosen more often when the belief is higher? (METRICS E7)"""

from itertools import combinations
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score
from ..inference.clusters import complete_beliefs, complete_rows
from ..inference.paired import adjust
from ..inference.randomisation import tail_p
from .prediction import isotonic_fit


class MonotonePairwise(Score, headline="frac_significant"):
    """METRICS E7."""

    frac_significant: float
    """Of all pairs, unadjusted: the paper's number."""
    frac_violations: float
    n_bins: int
    """Bins where a1 or a2 occurs."""
    n_pairs: int
    n_violations: int
    n_significant: int
    n_significant_holm: int
    """After Holm over all pairs."""
    shares: Floats
    """[n_bins] of a1 among a1 and a2, from the lowest bin up."""
    p_values: Floats
    """[n_violations] one-sided Fisher, unadjusted."""


def monotone_pairwise(
    bins: ArrayLike, actions: ArrayLike, a1: object, a2: object, alpha: float = 0.05
) -> MonotonePairwise:
    """Pairs of belief bins where the lower one chooses a1 more often (METRICS E7; rational-agents eq. 5).

    Args:
        bins: [n] bin numbers in the order of the belief (`quantile_bins`); a negative one is missing.
        actions: [n] labels.
        a1: the action that should become more frequent as the belief rises.
        a2: what it is compared with; other actions are left out.
        alpha: level of each one-sided Fisher test.

    One row per context: repetitions make flat curves look significant. Fewer than two bins give NaN.

    >>> bins = np.repeat([0, 1], 20)  # of low and of high belief
    >>> actions = ["go"] * 18 + ["wait"] * 2 + ["go"] * 5 + ["wait"] * 15
    >>> monotone_pairwise(bins, actions, a1="go", a2="wait").frac_significant
    1.0
    """
    tables, counts = _bin_tables(bins, actions, a1, a2)
    shares = tables[:, 0] / tables.sum(axis=1)
    pairs = list(combinations(range(len(tables)), 2))
    violates = np.array([shares[j] > shares[k] + TIE for j, k in pairs], dtype=bool)
    p_values = np.array(
        [
            scipy.stats.fisher_exact(tables[[j, k]], alternative="greater")[1]
            for (j, k), against in zip(pairs, violates, strict=True)
            if against
        ],
        dtype=np.float64,
    )
    n_violations, n_significant = len(p_values), int((p_values < alpha).sum())
    # A pair in the right order has p above one half: its exact value moves no Holm decision, its number does.
    family = np.r_[p_values, np.ones(len(pairs) - n_violations)]
    n_holm = int(adjust(family, alpha=alpha).reject.sum())
    return MonotonePairwise(
        frac_significant=n_significant / len(pairs) if pairs else NAN,
        frac_violations=n_violations / len(pairs) if pairs else NAN,
        n_bins=len(tables),
        n_pairs=len(pairs),
        n_violations=n_violations,
        n_significant=n_significant,
        n_significant_holm=n_holm,
        shares=shares,
        p_values=p_values,
        p_method="Fisher exact, one-sided, per pair",
        status="ok" if pairs else "too_few",
        params={"alpha": alpha},
        **counts,
    )


class OrderTest(Score, headline="deviance"):
    """METRICS E7."""

    deviance: float = NAN
    """2 (log likelihood of free shares - of isotonic ones); 0 when the shares rise."""


def monotone_order_test(
    bins: ArrayLike, actions: ArrayLike, a1: object, a2: object, *, how: Resampling = RESAMPLING
) -> OrderTest:
    """One test that the share of a1 rises with the belief, instead of one per pair (METRICS E7).

    Arguments as for `monotone_pairwise`, one row per context. The null law is a parametric bootstrap at the
    constant share: of all rising curves the flat one violates the order most often by chance.

    >>> bins = np.repeat([0, 1], 20)  # of low and of high belief
    >>> actions = ["go"] * 18 + ["wait"] * 2 + ["go"] * 5 + ["wait"] * 15
    >>> monotone_order_test(bins, actions, a1="go", a2="wait").p < 0.01
    True
    """
    how = how.drawing(4999)
    tables, counts = _bin_tables(bins, actions, a1, a2)
    hits, sizes = tables[:, 0].astype(np.float64), tables.sum(axis=1)
    if len(sizes) < 2:
        return OrderTest(status="too_few", **counts)
    deviance = float(_order_deviance(hits[None], sizes)[0])
    pooled = hits.sum() / sizes.sum()
    drawn = np.random.default_rng(how.seed).binomial(sizes, pooled, size=(how.n_draws, len(sizes))).astype(np.float64)
    return OrderTest(
        deviance=deviance,
        p=tail_p(deviance, _order_deviance(drawn, sizes), exact=False, slack=1e-9),
        p_method=f"parametric bootstrap of a flat curve, {how.n_draws} draws",
        params={"draws": how.n_draws, "seed": how.seed},
        **counts,
    )


class MonotoneShares(Score, headline="discordant"):
    """METRICS E7, exact choice shares. All fields are descriptive: there is no sampling noise."""

    discordant: float = NAN
    """Share of context pairs that are ordered against each other, among pairs tied in neither."""
    iso_rms: float = NAN
    """Root mean square distance of the shares from the best rising curve."""
    iso_r2: float = NAN
    tau: float = NAN
    """Kendall's tau-b of belief and share: responsiveness."""


def monotone_exact_shares(p: ArrayLike, share: ArrayLike) -> MonotoneShares:
    """Distance of exact choice shares from a rising function of the belief (METRICS E7).

    Args:
        p: [n] beliefs.
        share: [n] pi(a1) / (pi(a1) + pi(a2)).

    A constant share has no r2; without a pair that is tied in neither, `discordant` is NaN.

    >>> round(monotone_exact_shares(p=[0.1, 0.5, 0.9], share=[0.2, 0.6, 0.4]).discordant, 3)  # one pair of three
    0.333
    """
    rows = complete_beliefs(p=p, share=share)
    (p, share), counts, n = rows.columns, rows.counts, rows.n
    if n < 2:
        return MonotoneShares(status="too_few", **counts)
    residual = float(((share - isotonic_fit(p, share, p)) ** 2).sum())
    total = float(((share - share.mean()) ** 2).sum())
    concordant = discordant = 0
    for i in range(n - 1):  # row by row: memory stays O(n)
        dp, ds = p[i + 1 :] - p[i], share[i + 1 :] - share[i]
        untied = (np.abs(dp) > TIE) & (np.abs(ds) > TIE)
        against = int((untied & (dp * ds < 0)).sum())
        discordant += against
        concordant += int(untied.sum()) - against
    comparable = concordant + discordant
    constant = total <= TIE**2
    varied = np.ptp(p) > TIE and not constant
    status = "ok" if varied else "constant_share" if constant else "constant_belief"
    return MonotoneShares(
        discordant=discordant / comparable if comparable else NAN,
        iso_rms=float(np.sqrt(residual / n)),
        iso_r2=NAN if constant else 1 - residual / total,
        tau=float(scipy.stats.kendalltau(p, share).statistic) if varied else NAN,
        status=status,
        **counts,
    )


def _bin_tables(
    bins: ArrayLike, actions: ArrayLike, a1: object, a2: object
) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Counts [bins, 2] of a1 and a2, from the lowest bin up, where either occurs."""
    bins = np.atleast_1d(np.asarray(bins, dtype=np.float64))
    rows = complete_rows(bins=np.where(bins < 0, np.nan, bins), actions=np.asarray(actions, dtype=object))
    bins, actions = rows.columns
    chosen = np.array([[a == a1, a == a2] for a in actions], dtype=np.int64).reshape(-1, 2)
    codes = np.unique(bins, return_inverse=True)[1]
    tables = np.zeros((int(codes.max()) + 1 if len(codes) else 0, 2), dtype=np.int64)
    np.add.at(tables, codes, chosen)
    return tables[tables.sum(axis=1) > 0], rows.counts


def _order_deviance(hits: Floats, sizes: Floats) -> Floats:
    """2 x log likelihood ratio [m] of free against isotonic binomial shares, from hits [m, bins].

    The isotonic fit is the max-min formula: for each bin, the largest over starts of the smallest over ends
    of the pooled share. With a handful of bins that is quicker for many rows than pooling violators in each.
    """
    n_bins = len(sizes)
    fitted = np.full(hits.shape, -np.inf)
    for start in range(n_bins):
        pooled = np.cumsum(hits[:, start:], axis=1) / np.cumsum(sizes[start:])
        lowest = np.minimum.accumulate(pooled[:, ::-1], axis=1)[:, ::-1]
        fitted[:, start:] = np.maximum(fitted[:, start:], lowest)
    misses = sizes - hits
    free, rising = ((xlogy(hits, share) + xlogy(misses, 1 - share)).sum(axis=1) for share in (hits / sizes, fitted))
    return np.maximum(2 * (free - rising), 0.0)
