"""Linear regression with the standard errors that METRICS asks for (METRICS A2)."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..score import NAN
from ..validation import Floats, one_of
from .jackknife import ROUNDING, ClusterJackknife, Contrast, studentised

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
    y: Floats,
    x: Floats,
    *,
    se: str,
    codes: NDArray[np.intp] | None = None,
    weights: Floats | None = None,
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
