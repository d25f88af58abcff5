"""Intervals over clusters (METRICS F1): the bootstrap where clusters are many, the t distribution where few."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, floats, one_of
from .clusters import bootstrap_moments, cluster_codes, cluster_sums
from .regression import Contrast, few_effective, herfindahl


def t_interval(estimate: float, se: float, df: float, level: float) -> tuple[float, float]:
    """Two-sided interval of an estimate whose error is t distributed."""
    reach = float(scipy.special.stdtrit(df, (1 + level) / 2)) * se  # that of scipy.stats, which takes a second to load
    return estimate - reach, estimate + reach


def contrast_fields(test: Contrast, level: float) -> dict[str, Any]:
    """Error, interval and t test of a contrast, as fields of a Score; without an error neither interval nor p."""
    lo, hi = t_interval(test.estimate, test.se, test.df, level)
    methods = {"ci_method": test.method} if np.isfinite(test.se) else {}
    methods |= {"p_method": test.method} if np.isfinite(test.p) else {}
    fields = {"se": test.se, "ci_lo": lo, "ci_hi": hi, "t": test.t, "p": test.p, "df": test.df}
    return {**fields, **methods, "effective_clusters": test.effective_clusters}


@dataclass(frozen=True, kw_only=True)
class Tails:
    """Which shares of the draws an interval lies between, and the p-value that is the same statement.

    Resamples of G clusters spread sqrt((G - 1) / G) too little, and their tails are the normal's: at G = 20 a plain
    95% percentile interval misses 7% of the time. Wider percentiles make up for both (Hesterberg 2015, section 3.2).
    With bias and skew this is BCa (Efron 1987), as much wider.
    """

    n_clusters: int
    bias: float = 0.0
    """z0 of BCa: normal quantile of the share of draws below the estimate."""
    skew: float = 0.0
    """a of BCa, from the jackknife."""

    def ends(self, draws: Floats, level: float) -> tuple[float, float]:
        """Two-sided interval (linear quantiles) from the draws [B] that are defined; NaN if none is."""
        reach = scipy.stats.t.ppf((1 + level) / 2, self.n_clusters - 1) / self._shrink
        z = self.bias + np.array([-reach, reach])
        defined = draws[np.isfinite(draws)]
        if not defined.size:
            return NAN, NAN
        lo, hi = np.quantile(defined, scipy.stats.norm.cdf(self.bias + z / (1 - self.skew * z)))
        return float(lo), float(hi)

    def p_of_zero(self, draws: Floats) -> float:
        """Two-sided p of zero: below 1 - level if and only if the interval of that level leaves zero out.

        That holds while the interval ends within the draws; beyond them p stays at what one draw more would give.
        NaN where no draw is defined.
        """
        shares = shares_at_zero(draws)
        if not shares.size:
            return NAN
        floor = 1 / (np.isfinite(draws).sum() + 1)
        w = scipy.stats.norm.ppf(np.clip(shares, floor, 1 - floor)) - self.bias
        low, high = self._shrink * (w / (1 + self.skew * w) - self.bias)
        df = self.n_clusters - 1
        return float(min(1.0, 2 * scipy.stats.t.cdf(low, df), 2 * scipy.stats.t.sf(high, df)))

    @property
    def _shrink(self) -> float:
        return float(np.sqrt((self.n_clusters - 1) / self.n_clusters))


def shares_at_zero(draws: Floats) -> Floats:
    """Shares at which the quantile function of the draws passes zero, from below and from above; empty without draws.

    Draws at zero make it flat there: its last share counts from below, its first from above.
    """
    defined = np.sort(draws[np.isfinite(draws)])
    n = len(defined)

    def meets_zero(below: int) -> float:
        """The share, with so many draws on the one side of it."""
        if not 0 < below < n:
            return below / n
        before, after = defined[below - 1 : below + 1]
        return float((below - 1 - before / (after - before)) / (n - 1))

    return np.array([meets_zero(int((defined <= 0).sum())), meets_zero(int((defined < 0).sum()))] if n else [])


def bca_tails(draws: Floats, estimate: float, left_out: Floats) -> Tails | None:
    """Those of BCa; None where it is undefined: draws that all lie on one side of the estimate, or do not vary."""
    defined = draws[np.isfinite(draws)]
    if not defined.size or not np.isfinite(left_out).all():
        return None
    below = ((defined < estimate).mean() + (defined <= estimate).mean()) / 2
    pull = left_out.mean() - left_out
    if not 0 < below < 1 or not (pull**2).sum() > 0:
        return None
    skew = (pull**3).sum() / (6 * (pull**2).sum() ** 1.5)
    return Tails(n_clusters=len(left_out), bias=float(scipy.stats.norm.ppf(below)), skew=float(skew))


def percentile_interval(draws: Floats, level: float, n_clusters: int) -> tuple[float, float]:
    """Two-sided expanded percentile interval of the draws that are defined."""
    return Tails(n_clusters=n_clusters).ends(draws, level)


def jackknife_se(left_out: Floats, times: ArrayLike = 1) -> float:
    """Standard error from the values [m] without each unit in turn, `times` [m] units sharing one value."""
    times = np.broadcast_to(times, left_out.shape)
    n = times.sum()
    center = (times @ left_out) / n
    return float(np.sqrt((n - 1) / n * (times @ (left_out - center) ** 2)))


MIN_BOOTSTRAP_CLUSTERS = 10
"""Below this even an expanded percentile interval is too narrow, and a t interval on clusters is given instead."""
MIN_BCA_CLUSTERS = 30
MAX_BCA_SHARE = 0.1
"""No BCa where one cluster holds more of the rows than this: its acceleration is then of that cluster alone."""
BCA = "BCa cluster bootstrap"
BOOTSTRAP = "expanded percentile cluster bootstrap"
NO_SHORTER = ", at least as wide as the t interval"
"""Said of an interval whose ends lie no nearer than those of t(G - 1), or of the sample if those lie beyond it."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Where a statistic would lie had other clusters been sampled. Without an interval the numbers are NaN."""

    se: float = NAN
    lo: float = NAN
    hi: float = NAN
    method: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    drawn: Floats | None = None
    """[draws] of the bootstrap; None for the jackknife."""
    tails: Tails | None = None
    """Where among them the interval ends."""
    df: float = NAN
    t: Floats | None = None
    """[draws] t statistics of the studentised bootstrap about its own estimate."""
    effective: float = NAN
    """Effective number of the clusters by what they weigh, where the interval is no shorter than t on it."""

    @property
    def concern(self) -> str:
        """`ok`, or that too few clusters carry the statistic for its level to be promised."""
        return "few_effective_clusters" if few_effective(self.effective) else "ok"

    def fields(self, **params: Any) -> dict[str, Any]:
        """The same as fields of a Score; `params` are recorded with its own."""
        ends = {"ci_lo": self.lo, "ci_hi": self.hi, "ci_method": self.method}
        return {"se": self.se, **ends, "params": self.params | params}

    def within(self, least: float, most: float, estimate: float) -> "Interval":
        """The same, no end beyond what there can be, nor short of the estimate."""
        return replace(self, lo=max(self.lo, min(least, estimate)), hi=min(self.hi, max(most, estimate)))

    def at_floor(self, p: float) -> bool:
        """Whether p is the smallest that so many draws can give, because hardly one of them reaches zero."""
        shares = np.zeros(0) if self.drawn is None else shares_at_zero(self.drawn)
        if self.drawn is None or self.tails is None or not shares.size:
            return False
        floor = 1 / (np.isfinite(self.drawn).sum() + 1)
        few = bool(shares.max() < floor or shares.min() > 1 - floor)
        return few and p <= self.tails.p_of_zero(self.drawn)

    def test_of_zero(self, estimate: float) -> dict[str, Any]:
        """Two-sided p of H0: the statistic is zero, as fields of a Score. Nothing without a standard error.

        It is made of what the interval is made of.
        """
        by_t = (
            float(2 * scipy.stats.t.sf(abs(estimate) / self.se, self.df)) if self.se > 0 else NAN
        )  # NaN, too: not of t
        if self.drawn is not None and self.tails:
            p = float(np.fmax(self.tails.p_of_zero(self.drawn), by_t))
            return {"p": p, "p_method": f"{self.method}, inverted"}
        if not self.se > 0:
            return {}
        if self.t is None:
            return {"p": by_t, "p_method": self.method}
        above, below = ((self.t >= estimate / self.se).sum(), (self.t <= estimate / self.se).sum())
        drawn = float(min(1, 2 * (min(above, below) + 1) / (len(self.t) + 1)))
        return {"p": float(np.fmax(drawn, by_t)), "p_method": self.method}

    def test_above_zero(self, estimate: float) -> dict[str, Any]:
        """One-sided p of H0: the mean is at most zero, of the studentised bootstrap or of t; likewise."""
        if not self.se > 0:
            return {}
        method = f"one-sided {self.method.removesuffix(NO_SHORTER)}"
        if self.t is None:
            return {"p": float(scipy.stats.t.sf(estimate / self.se, self.df)), "p_method": method}
        above = (self.t >= estimate / self.se).sum()
        return {"p": float((above + 1) / (len(self.t) + 1)), "p_method": method}


def cluster_interval(
    estimate: float,
    n_clusters: int,
    *,
    left_out: Callable[[], Floats],
    resample: Callable[[], Floats],
    kind: str = "percentile",
    largest: float = 0.0,
    shares: Floats | None = None,
    how: Resampling = RESAMPLING,
) -> Interval:
    """Interval of any statistic (METRICS F1).

    Ten clusters or more give a cluster bootstrap: expanded percentiles, or with `kind="bca"`, at least thirty
    clusters, and none with more than a tenth of the rows, BCa. Fewer give a delete-one-cluster jackknife with
    t(G - 1), because a bootstrap of so few is too narrow. One gives nothing, and so does a statistic that is
    undefined without one of its few clusters, or the same without any of them and yet another number with all.

    Args:
        estimate: from all rows.
        n_clusters: G.
        left_out: gives [G] values without each cluster in turn.
        resample: gives [draws] values of a cluster bootstrap.
        kind: `percentile` or `bca`.
        largest: share of the rows that the largest cluster holds.
        shares: [G] what each cluster weighs, summing to one. Given, the standard error is CR3, t has one degree of
            freedom less than the effective number of clusters, and no interval is shorter: of few unequal clusters a
            bootstrap misses the difference of two means in 8 to 14%.
    """
    one_of(kind, ("percentile", "bca"), "interval")
    if n_clusters < 2:
        return Interval(method="none: one cluster" if n_clusters else "")
    if n_clusters < MIN_BOOTSTRAP_CLUSTERS:
        return _of_few(estimate, left_out(), how.level, shares)
    drawn = resample()
    params = how.params
    defined = drawn[np.isfinite(drawn)]
    if len(defined) < 2:
        return Interval(method="none: undefined in the resamples", params=params)
    tails, method = bootstrap_tails(drawn, estimate, left_out, n_clusters, kind, largest)
    lo, hi = tails.ends(drawn, how.level)
    se = float(defined.std(ddof=1))
    interval = Interval(se=se, lo=lo, hi=hi, method=method, params=params, drawn=drawn, tails=tails)
    return interval if shares is None else _no_shorter(interval, estimate, left_out(), how.level, shares)


def _of_few(estimate: float, others: Floats, level: float, shares: Floats | None) -> Interval:
    """The delete-one-cluster jackknife with t, from the values [G] without each cluster in turn."""
    se, df, effective = _leaving_out(others, estimate, shares)
    if not np.isfinite(se):
        return Interval(method="none: it hangs on one cluster")
    if se <= TIE and np.abs(others - estimate).max() > TIE:  # as of ratios that are 1 in any single cluster
        return Interval(method=f"none: {len(others)} clusters do not tell how it varies")
    lo, hi = t_interval(estimate, se, df, level)
    method = f"jackknife, t({df:.3g})"
    return Interval(se=se, lo=lo, hi=hi, method=method, params={"level": level}, df=df, effective=effective)


def _no_shorter(interval: Interval, estimate: float, others: Floats, level: float, shares: Floats) -> Interval:
    """The interval of the bootstrap, with the ends of CR3 where these lie further out."""
    se, df, effective = _leaving_out(others, estimate, shares)
    if not np.isfinite(se):
        return replace(interval, se=NAN, lo=NAN, hi=NAN, tails=None, method="none: it hangs on one cluster")
    lo, hi = t_interval(estimate, se, df, level)
    ends = {"lo": min(interval.lo, lo), "hi": max(interval.hi, hi), "method": f"{interval.method}{NO_SHORTER}"}
    return replace(interval, se=se, df=df, effective=effective, **ends)


def _leaving_out(others: Floats, estimate: float, shares: Floats | None) -> tuple[float, float, float]:
    """Standard error, degrees of freedom and effective clusters by the values [G] without each cluster in turn."""
    g = len(others)
    if shares is None:
        return jackknife_se(others), g - 1, NAN
    effective = herfindahl(shares)
    return float(np.sqrt((g - 1) / g * ((others - estimate) ** 2).sum())), max(effective - 1, 1.0), effective


def bootstrap_tails(
    drawn: Floats, estimate: float, left_out: Callable[[], Floats], n_clusters: int, kind: str, largest: float
) -> tuple[Tails, str]:
    """Tails and their name: BCa where it is asked for, may be had, and is defined; else expanded percentiles."""
    fit = kind == "bca" and n_clusters >= MIN_BCA_CLUSTERS and largest <= MAX_BCA_SHARE
    if fit and (tails := bca_tails(drawn, estimate, left_out())):
        return tails, BCA
    return Tails(n_clusters=n_clusters), BOOTSTRAP


def moment_interval(
    moments: ArrayLike,
    clusters: ArrayLike,
    statistic: Callable[[Floats], Floats],
    *,
    kind: str = "bca",
    weights: ArrayLike | None = None,
    how: Resampling = RESAMPLING,
) -> Interval:
    """`cluster_interval` of a smooth function of sums over rows (arguments: `bootstrap_moments`).

    `weights` [n] are what the rows weigh, none negative: with them the interval is no shorter than CR3 with t.
    """
    moments = floats(moments)
    codes, n_clusters = cluster_codes(clusters, len(moments))
    weight_of = None if weights is None else cluster_sums(floats(weights), codes, n_clusters)
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = cluster_sums(moments, codes, n_clusters)
        total = sums.sum(axis=0)
        return cluster_interval(
            float(statistic(total[None])[0]),
            n_clusters,
            left_out=lambda: statistic(total - sums),
            resample=lambda: bootstrap_moments(moments, codes, statistic, how=how),
            kind=kind,
            largest=largest_share(codes),
            shares=None if weight_of is None else weight_of / weight_of.sum(),
            how=how,
        )


def correlation_of_sums(sums: Floats) -> Floats:
    """Pearson's correlation, as a statistic of `moment_interval`, of sums [..., 6] of 1, x, y, x², y² and x·y, whose
    columns are centred, so that nothing cancels; NaN where x or y is constant but for rounding.
    """
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    of_x, of_y = xx - x**2 / n, yy - y**2 / n
    varies = (of_x > 0) & (of_y > 0) & (of_x * of_y > 1e-12 * xx * yy)
    return (xy - x * y / n) / np.sqrt(np.where(varies, of_x * of_y, np.nan))


def fisher_of_sums(sums: Floats) -> Floats:
    """The same on Fisher's scale, on which its interval is made."""
    return np.arctanh(np.clip(correlation_of_sums(sums), -1 + TIE, 1 - TIE))


def largest_share(codes: NDArray[np.intp]) -> float:
    """Share of the rows [n] that the largest cluster holds; 0 without rows."""
    return float(np.bincount(codes).max() / len(codes)) if len(codes) else 0.0
