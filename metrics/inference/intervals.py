"""Intervals over clusters (METRICS F1): the bootstrap where clusters are many, the t distribution where few."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..score import NAN
from ..validation import TIE, Floats, check_draws, check_level, floats, one_of
from .jackknife import few_effective, herfindahl
from .resampling import bootstrap_moments
from .rows import cluster_codes, cluster_sums
from .tails import Tails, bca_tails, jackknife_se, shares_at_zero, t_interval

MIN_BOOTSTRAP_CLUSTERS = 10
"""Below this even an expanded percentile interval is too narrow, and a t interval on clusters is given instead."""
MIN_BCA_CLUSTERS = 30
MAX_BCA_SHARE = 0.1
"""No BCa where one cluster holds more of the rows than this: its acceleration is then of that cluster alone."""
BCA = "BCa cluster bootstrap"
BOOTSTRAP = "expanded percentile cluster bootstrap"
NO_SHORTER = ", no shorter than t"
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
    seed: int,
    draws: int,
    level: float,
    kind: str = "percentile",
    largest: float = 0.0,
    shares: Floats | None = None,
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
        seed: of the bootstrap, recorded here.
        draws: number of resamples.
        level: of the interval.
        kind: `percentile` or `bca`.
        largest: share of the rows that the largest cluster holds.
        shares: [G] what each cluster weighs, summing to one. Given, the standard error is CR3, t has one degree of
            freedom less than the effective number of clusters, and no interval is shorter: of few unequal clusters a
            bootstrap misses the difference of two means in 8 to 14%.
    """
    one_of(kind, ("percentile", "bca"), "interval")
    check_level(level)
    check_draws(draws)
    if n_clusters < 2:
        return Interval(method="none: one cluster" if n_clusters else "")
    if n_clusters < MIN_BOOTSTRAP_CLUSTERS:
        return _of_few(estimate, left_out(), level, shares)
    drawn = resample()
    params = {"level": level, "draws": draws, "seed": seed}
    defined = drawn[np.isfinite(drawn)]
    if len(defined) < 2:
        return Interval(method="none: undefined in the resamples", params=params)
    tails, method = bootstrap_tails(drawn, estimate, left_out, n_clusters, kind, largest)
    lo, hi = tails.ends(drawn, level)
    se = float(defined.std(ddof=1))
    made = Interval(se=se, lo=lo, hi=hi, method=method, params=params, drawn=drawn, tails=tails)
    return made if shares is None else _no_shorter(made, estimate, left_out(), level, shares)


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


def _no_shorter(made: Interval, estimate: float, others: Floats, level: float, shares: Floats) -> Interval:
    """The interval of the bootstrap, with the ends of CR3 where these lie further out."""
    se, df, effective = _leaving_out(others, estimate, shares)
    if not np.isfinite(se):
        return replace(made, se=NAN, lo=NAN, hi=NAN, tails=None, method="none: it hangs on one cluster")
    lo, hi = t_interval(estimate, se, df, level)
    ends = {"lo": min(made.lo, lo), "hi": max(made.hi, hi), "method": f"{made.method}{NO_SHORTER}"}
    return replace(made, se=se, df=df, effective=effective, **ends)


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
    seed: int,
    draws: int = 2000,
    level: float = 0.95,
    kind: str = "bca",
    weights: ArrayLike | None = None,
) -> Interval:
    """`cluster_interval` of a smooth function of sums over rows (arguments: `bootstrap_moments`).

    `weights` [n] are what the rows weigh, none negative: with them the interval is no shorter than CR3 with t.
    """
    moments = floats(moments)
    codes, n_clusters = cluster_codes(clusters, len(moments))
    held = None if weights is None else cluster_sums(floats(weights), codes, n_clusters)
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = cluster_sums(moments, codes, n_clusters)
        total = sums.sum(axis=0)
        return cluster_interval(
            float(statistic(total[None])[0]),
            n_clusters,
            left_out=lambda: statistic(total - sums),
            resample=lambda: bootstrap_moments(moments, codes, statistic, seed=seed, draws=draws),
            seed=seed,
            draws=draws,
            level=level,
            kind=kind,
            largest=largest_share(codes),
            shares=None if held is None else held / held.sum(),
        )


def largest_share(codes: NDArray[np.intp]) -> float:
    """Share of the rows [n] that the largest cluster holds; 0 without rows."""
    return float(np.bincount(codes).max() / len(codes)) if len(codes) else 0.0
