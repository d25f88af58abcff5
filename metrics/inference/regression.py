"""Linear regression, and least squares without each cluster in turn, for errors that hold where a few clusters carry
the slope (METRICS A2).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..contract import NAN, Floats, floats, one_of, probabilities
from .clusters import cluster_sums, complete_numbers

FEW_EFFECTIVE = 10
"""Below this effective number of clusters a result says `few_effective_clusters`."""
ROUNDING = 1e-9
"""Relative size of what rounding leaves of scores that cancel, and how far it moves a t statistic."""
SINGULAR = 1e-10
"""Share of a direction's information left without a cluster at or below which the rest does not identify it."""
ALONG = 1e-7
"""A contrast with a larger share of its length along a lost direction is lost with it."""


class Contrast(NamedTuple):
    """A linear combination of coefficients, tested against zero. Undefined numbers are NaN."""

    estimate: float
    se: float
    t: float
    p: float
    df: float
    method: str
    """How interval and p were made."""
    effective_clusters: float = NAN
    """Of CR3: the clusters that carry the contrast."""
    status: str = "ok"

    @property
    def concern(self) -> str:
        """The status, or that too few clusters carry the contrast."""
        few = self.status == "ok" and few_effective(self.effective_clusters)
        return "few_effective_clusters" if few else self.status


def studentised(estimate: float, se: float, df: float, method: str, effective: float = NAN) -> Contrast:
    """A contrast with the t test of zero that its standard error allows."""
    if not se > 0:
        return Contrast(estimate, se, NAN, NAN, df, method, effective)
    t = estimate / se
    return Contrast(estimate, se, t, float(2 * scipy.stats.t.sf(abs(t), df)), df, method, effective)


def few_effective(effective: float, fewest: float = FEW_EFFECTIVE) -> bool:
    """Whether so many effective clusters are too few; that of ten equal ones falls short of 10 by rounding.

    NaN: they were not counted, as of errors that do not go by clusters, and nothing is said. Where they are counted and
    nothing varies, none carries anything: that is 0, and few.
    """
    return effective < fewest - ROUNDING


def herfindahl(leverage: Floats) -> float:
    """Effective number of clusters of partial leverages [G] that sum to one: 1 / sum of squares."""
    return float(1 / (leverage**2).sum())


def jackknifed(estimate: float, moved: Floats, leverage: Floats, rounding: float) -> Contrast:
    """CR3 test of an estimate (METRICS A2).

    Args:
        estimate: from all clusters.
        moved: [G] how far it moves without each cluster; NaN where the rest does not identify it.
        leverage: [G] partial leverage of each cluster, summing to one.
        rounding: a move of this size or less is none.

    se^2 = (G - 1) / G sum of squared moves; t with max(G* - 1, 1) degrees of freedom. Statuses: `one_cluster`,
    `leverage_one` (it hangs on one cluster), `zero_cluster_variance` (no cluster moves it).
    """
    g = len(moved)
    effective = herfindahl(leverage)
    df = max(effective - 1, 1.0)
    failed = Contrast(estimate, NAN, NAN, NAN, df, "", effective)
    if g < 2:
        return failed._replace(status="one_cluster")
    if not np.isfinite(moved).all():
        return failed._replace(status="leverage_one")
    if np.abs(moved).max() <= rounding:
        return failed._replace(status="zero_cluster_variance")
    se = float(np.sqrt((g - 1) / g * (moved**2).sum()))
    return studentised(estimate, se, df, f"t({df:.3g}), CR3 over {g} clusters", effective)


@dataclass(frozen=True, kw_only=True)
class ClusterJackknife:
    """The fits of y = Q coefficients, Q [n, k] orthonormal, without each cluster in turn."""

    q: Floats
    """[n, k] the design with its weights, as QR leaves it."""
    r: Floats
    """[k, k]"""
    residuals: Floats
    """[n] of the fit to all, times the root of the weights."""
    gram: Floats
    """[G, k, k] of each cluster's rows; they sum to the identity."""
    moved: Floats
    """[G, k] how far the coefficients move, within what the rest identifies."""
    lost: Floats
    """[G, k, k] projection on what the rest does not identify."""

    @classmethod
    def fit(cls, x: Floats, residuals: Floats, codes: NDArray[np.intp]) -> "ClusterJackknife":
        """Downdate a fit on x [n, k] by the moments of each cluster: no regression is fitted again.

        With A_g the gram matrix of cluster g and s_g its scores, leaving it out moves the coefficients by
        -(I - A_g)^-1 s_g.
        """
        q, r = np.linalg.qr(x)
        n_clusters = int(codes.max()) + 1
        gram = np.stack([cluster_sums(q * column[:, None], codes, n_clusters) for column in q.T], axis=2)
        scores = cluster_sums(q * residuals[:, None], codes, n_clusters)
        left, directions = np.linalg.eigh(np.eye(q.shape[1]) - gram)
        remains = left > SINGULAR
        turned = np.einsum("gji,gj->gi", directions, scores)
        moved = -np.einsum("gij,gj->gi", directions, np.where(remains, turned / np.where(remains, left, 1.0), 0.0))
        gone = directions * ~remains[:, None, :]
        return cls(q=q, r=r, residuals=residuals, gram=gram, moved=moved, lost=gone @ gone.transpose(0, 2, 1))

    def contrast(self, estimate: float, weights: Floats) -> Contrast:
        """CR3 test of weights [k] on the coefficients of x, with the leverages of this contrast alone."""
        a = np.linalg.solve(self.r.T, weights)
        unit = a / np.linalg.norm(a)
        missing = np.linalg.norm(self.lost @ unit, axis=1) > ALONG
        leverage = np.einsum("i,gij,j->g", unit, self.gram, unit)
        rounding = ROUNDING * float(np.abs((self.q @ a) * self.residuals).sum())
        return jackknifed(estimate, np.where(missing, NAN, self.moved @ a), leverage, rounding)


def effective_clusters(prior: ArrayLike, groups: ArrayLike | None = None, *, weights: ArrayLike | None = None) -> float:
    """How many clusters carry a slope on `prior` [n]: the inverse Herfindahl index of their leverages (METRICS A2).

    Args:
        prior: [n] beliefs in [0, 1]; NaN is dropped.
        groups: [n] cluster of each row. None: every row its own.
        weights: [n] positive, of weighted least squares.

    As many as there are if all spread their priors alike, and one if a single question holds all of the spread.
    A prior that does not vary has none: NaN.
    """
    w = np.ones(len(np.atleast_1d(floats(prior)))) if weights is None else floats(weights)
    rows = complete_numbers(groups, prior=probabilities(prior, "prior"), weights=w)
    b, w = rows.columns
    if rows.n < 2:
        return NAN
    spread = w * (b - np.average(b, weights=w)) ** 2
    total = float(spread.sum())
    if total <= 1e-24:
        return NAN
    return herfindahl(cluster_sums(spread / total, rows.codes, rows.n_clusters))


# Linear regression with the standard errors that METRICS asks for (METRICS A2).

ERRORS = ("iid", "HC3", "CR1", "CR3")
EXACT_SS = 1e-24
"""A sum of squares at or below this is zero: what rounding leaves of an exact fit."""
LEVERAGE_SLACK = 1e-10


@dataclass(frozen=True, kw_only=True)
class LinearFit:
    """A fit with k coefficients. Undefined standard errors are NaN, and `status` says why."""

    params: Floats
    cov: Floats
    """[k, k]; NaN under CR3, which gives each contrast its own error."""
    df: float
    """Degrees of freedom of the t statistics: n - k, or G - 1 under CR1."""
    rss: float
    r2: float
    """NaN if the response is constant."""
    method: str
    status: str = "ok"
    jackknife: ClusterJackknife | None = None
    """Under CR3."""

    @property
    def se(self) -> Floats:
        """[k] standard errors."""
        return np.sqrt(np.diag(self.cov))

    def contrast(self, weights: Floats) -> Contrast:
        """Test that a linear combination of the coefficients is zero."""
        estimate = float(weights @ self.params)
        if self.jackknife:
            return self.jackknife.contrast(estimate, weights)
        variance = float(weights @ self.cov @ weights)
        se = float(np.sqrt(variance)) if variance >= 0 else NAN  # where scores cancel, rounding can make it negative
        return studentised(estimate, se, self.df, f"t({self.df:g}), {self.method}")._replace(status=self.status)

    def wald(self, contrasts: Floats) -> tuple[float, float]:
        """F and p of H0: all contrasts [q, k] are zero. NaN where the covariance cannot bear the test."""
        q = len(contrasts)
        cov = contrasts @ self.cov @ contrasts.T
        if not np.isfinite(cov).all() or self.df < q or not (np.diag(cov) > 0).all():
            return NAN, NAN
        # With G clusters the rank is G - 1 at most, and lower if scores of clusters are proportional.
        scale = np.sqrt(np.diag(cov))
        if np.linalg.eigvalsh(cov / np.outer(scale, scale))[0] <= ROUNDING:
            return NAN, NAN
        values = contrasts @ self.params
        f = float(values @ np.linalg.solve(cov, values)) / q
        return f, float(scipy.stats.f.sf(f, q, self.df))


def errors(se: str | None, groups: ArrayLike | None) -> str:
    """Which standard errors to use: those asked for, else by whether there are clusters."""
    if se is None:
        return "iid" if groups is None else "CR3"
    one_of(se, ERRORS, "se")
    if se == "CR1" and groups is None:
        raise ValueError("se: 'CR1' clusters by question; give groups")
    return se


def linear_fit(
    y: Floats, x: Floats, *, se: str, codes: NDArray[np.intp] | None = None, weights: Floats | None = None
) -> LinearFit:
    """Least squares of y [n] on x [n, k], an intercept being one of the columns (METRICS A2).

    `se` is `iid`, `HC3` (both t with n - k), `CR1`, clustered by `codes` with the factor G/(G-1) (n-1)/(n-k) and t
    with G - 1, or `CR3`, the cluster jackknife with t(G* - 1) of each contrast. `weights` [n] make it weighted least
    squares.

    Statuses: `rank_deficient` (coefficients NaN), `no_df` (n = k), `perfect_fit` (standard errors 0),
    `one_cluster`, `leverage_one` (HC3 divides by zero), `zero_cluster_variance` (each cluster's scores
    cancel; the standard error would be zero though the fit is not exact).
    """
    n, k = x.shape
    w = np.ones(n) if weights is None else weights / weights.mean()
    scaled = x * np.sqrt(w)[:, None]
    blank = np.full((k, k), np.nan)
    if n < k or np.linalg.matrix_rank(scaled) < k:
        return LinearFit(params=blank[0], cov=blank, df=NAN, rss=NAN, r2=NAN, method=se, status="rank_deficient")

    from statsmodels.regression.linear_model import WLS  # a second to import

    model: Any = WLS(y, x, weights=cast(Any, w))
    plain = model.fit()
    params = np.asarray(plain.params)
    rss = float(w @ (y - x @ params) ** 2)
    tss = float(w @ (y - np.average(y, weights=w)) ** 2)
    n_groups = 0 if codes is None else len(np.unique(codes))
    status, cov, jackknife = "ok", blank, None
    if n == k:
        status = "no_df"
    elif rss <= EXACT_SS:
        status, cov = "perfect_fit", np.zeros((k, k))
    elif se in ("CR1", "CR3") and n_groups < 2:
        status = "one_cluster"
    elif se == "HC3" and (1 - (np.linalg.qr(scaled)[0] ** 2).sum(axis=1) < LEVERAGE_SLACK).any():
        status = "leverage_one"
    elif se == "CR3" and codes is not None:
        jackknife = ClusterJackknife.fit(scaled, (y - x @ params) * np.sqrt(w), codes)
    elif se == "CR1" and codes is not None:
        # statsmodels' default is the normal distribution; use_t makes it t with G - 1.
        robust = model.fit(cov_type="cluster", cov_kwds={"groups": codes}, use_t=True)
        cov = np.asarray(robust.cov_params())
        if _scores_cancel(scaled, (y - x @ params) * np.sqrt(w), codes):
            status, cov = "zero_cluster_variance", blank
    else:
        cov = np.asarray((model.fit(cov_type="HC3", use_t=True) if se == "HC3" else plain).cov_params())
    return LinearFit(
        params=params,
        cov=cov,
        df=n_groups - 1 if se in ("CR1", "CR3") else n - k,
        rss=rss,
        r2=1 - rss / tss if tss > EXACT_SS else NAN,
        method=f"{se} over {n_groups} clusters" if se in ("CR1", "CR3") else se,
        status=status,
        jackknife=jackknife,
    )


def _scores_cancel(x: Floats, residuals: Floats, codes: NDArray[np.intp]) -> bool:
    """Whether some coefficient's scores sum to zero in every cluster, but for rounding.

    Its CR1 variance is then zero too, or the 1e-17 that a product of matrices leaves of it.
    """
    influence = np.linalg.pinv(x) * residuals
    sums = np.array([np.bincount(codes, weights=row) for row in influence])
    return bool((np.abs(sums).max(axis=1) <= ROUNDING * np.abs(influence).sum(axis=1)).any())
