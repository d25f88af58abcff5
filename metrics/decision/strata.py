"""Does the stated belief carry all that an action knows of the state? Within strata of it (METRICS E2-E4)."""

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

from ..contract import NAN, RESAMPLING, TIE, Floats, Resampling, Score, distributions, floats, probabilities
from ..inference.clusters import cluster_codes, cluster_sums, complete_rows
from ..inference.intervals import jackknife_se, t_interval
from ..inference.randomisation import tail_p

FEW_CONTEXTS = 100
"""Below this a normal test of residuals rejects too often (docs/calibration.md)."""
ENUMERATE_TABLES = 100_000
"""Up to this many combinations of tables the permutation law is computed, not drawn."""
LABELS_AT_ONCE = 2_000_000
"""Permuted labels held in memory."""


def quantile_bins(p: ArrayLike, bins: int = 5) -> NDArray[np.intp]:
    """Quantile bin of each belief, 0, 1, ... upward (METRICS E7).

    Bins are right-closed, repeated edges merge, a constant belief has one bin, a NaN has bin -1. With
    `bins = n // 15` these are strata for the tests of this module (METRICS E2).

    >>> quantile_bins([0.1, 0.2, 0.8, 0.9], bins=2).tolist()
    [0, 0, 1, 1]
    """
    p = probabilities(p, "p")
    if bins < 1:
        raise ValueError(f"bins: {bins}; give one or more")
    defined = np.isfinite(p)
    codes = np.full(p.shape, -1, dtype=np.intp)
    if defined.any():
        constant = np.ptp(p[defined]) <= TIE
        codes[defined] = 0 if constant else pd.qcut(p[defined], bins, labels=False, duplicates="drop")
    return codes


class Cmi(Score, headline="cmi"):
    """Conditional mutual information of a table, in nats. `n_clusters` counts the rows, one per context."""

    cmi: float = NAN


def plugin_cmi(action: ArrayLike, theta: ArrayLike, stratum: ArrayLike) -> Cmi:
    """Plug-in I(action; theta | stratum), at least 0 and biased upward (METRICS E2).

    Arguments are [n], any labels.

    >>> theta, stratum = [0, 1, 0, 1], ["low", "low", "high", "high"]
    >>> round(plugin_cmi(theta, theta, stratum).cmi, 3), round(float(np.log(2)), 3)  # the action is theta itself
    (0.693, 0.693)
    """
    tables, counts = _tables(action, theta, stratum)
    if not counts["n_rows"]:
        return Cmi(status="too_few", **counts)
    return Cmi(cmi=float(_cmi(tables[None])[0]), **counts)


class PermutationCmi(Score, headline="debiased"):
    """METRICS E3. The interval is of `debiased`."""

    cmi: float = NAN
    """Plug-in, nats."""
    null_mean: float = NAN
    """Mean of the plug-in value when theta is permuted within strata."""
    debiased: float = NAN
    """cmi - null_mean: the effect to report."""


def stratified_permutation(
    action: ArrayLike, theta: ArrayLike, stratum: ArrayLike, *, how: Resampling = RESAMPLING
) -> PermutationCmi:
    """Test of action independent of theta within strata of the belief (METRICS E2, E3).

    Args:
        action: [n] labels, one row per context: a context that is repeated counts as many.
        theta: [n] labels.
        stratum: [n] neighbourhood of the belief, 10 to 20 contexts each.

    The law of the tables given their margins is computed exactly when small enough (binary labels), else
    drawn with p = (b + 1) / (B + 1). If no permutation changes a table, p = 1 and the status is `no_freedom`.

    For binary labels the interval is a jackknife over contexts. A bootstrap would draw contexts twice, and
    twins are information of the kind that is measured.

    >>> theta, stratum = [0, 1] * 6, ["low"] * 6 + ["high"] * 6
    >>> found = stratified_permutation(theta, theta, stratum)  # the action is theta itself
    >>> round(found.cmi, 3), round(found.p, 3)
    (0.693, 0.01)
    """
    how = how.drawing(4999)
    tables, counts = _tables(action, theta, stratum)
    if not counts["n_rows"]:
        return PermutationCmi(status="too_few", **counts)
    observed = float(_cmi(tables[None])[0])
    supports = _binary_laws(tables) if tables.shape[1:] == (2, 2) else None
    params: dict[str, Any] = {}
    if supports is not None and prod(len(v) for v, _ in supports) <= ENUMERATE_TABLES:
        values, weights = _combine(supports)
        p = float(weights[values >= observed - TIE].sum())
        p = min(p, 1.0)
        null_mean = float(values @ weights)
        method = "within-stratum permutation, exact"
    else:
        drawn = _draw(tables, how.n_draws, np.random.default_rng(how.seed))
        p = tail_p(observed, drawn, exact=False, slack=TIE)
        null_mean = float(drawn.mean() if supports is None else sum(v @ w for v, w in supports))
        method = f"within-stratum permutation, {how.n_draws} draws"
        params = {"draws": how.n_draws, "seed": how.seed}
    rows, columns = (tables.sum(axis=axis) for axis in (2, 1))
    free = (((rows > 0).sum(axis=1) > 1) & ((columns > 0).sum(axis=1) > 1)).any()
    return PermutationCmi(
        cmi=observed,
        null_mean=null_mean,
        debiased=observed - null_mean,
        p=p,
        p_method=method,
        status="ok" if free else "no_freedom",
        params=params | {"level": how.level},
        **(_jackknife(tables, how.level) if supports is not None and free else {}),
        **counts,
    )


class CmhTest(Score, headline="chi2"):
    """METRICS E3."""

    chi2: float = NAN
    """1 df, no continuity correction."""


def cmh_test(action: ArrayLike, theta: ArrayLike, stratum: ArrayLike) -> CmhTest:
    """Cochran-Mantel-Haenszel test of binary action and theta (METRICS E3). Arguments [n].

    Sees only dependence with one sign in all strata. Without a stratum where both vary the result is NaN.

    >>> theta, stratum = [0, 1] * 6, ["low"] * 6 + ["high"] * 6
    >>> round(cmh_test(theta, theta, stratum).p, 4)  # the action is theta itself
    0.0016
    """
    tables, counts = _tables(action, theta, stratum)
    if max(tables.shape[1:]) > 2:
        raise ValueError(f"action and theta: {tables.shape[1:]} levels; this test takes two of each")
    if tables.shape[1:] == (2, 2):
        tables = tables[tables.sum(axis=(1, 2)) > 1]
        margins = tables.sum(axis=1).prod(axis=1) * tables.sum(axis=2).prod(axis=1)
        if (margins > 0).any():
            from statsmodels.stats.contingency_tables import StratifiedTable  # a second to import

            test: Any = StratifiedTable(list(tables.astype(np.float64))).test_null_odds(correction=False)
            chi2, p = float(test.statistic), float(test.pvalue)
            return CmhTest(chi2=chi2, p=p, p_method="Cochran-Mantel-Haenszel chi2(1)", **counts)
    return CmhTest(status="no_variation" if counts["n_rows"] else "too_few", **counts)


def rao_blackwell_cmi(pi: ArrayLike, p_star: ArrayLike, stratum: ArrayLike) -> Cmi:
    """I(action; theta | stratum) with both replaced by what a white box knows of them (METRICS E4).

    Args:
        pi: [n] probability of one of two actions, or [n, k] of each; exact, not sampled.
        p_star: [n] true P(theta = 1 | x).
        stratum: [n] neighbourhood of the belief.

    No sampling noise of action or theta is left, so the upward bias of `plugin_cmi` all but goes.

    >>> pi, p_star = [0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0]
    >>> round(rao_blackwell_cmi(pi, p_star, ["low", "low", "high", "high"]).cmi, 3)  # log 2: all that there is
    0.693
    """
    pi = np.asarray(pi, dtype=np.float64)
    pi = distributions(pi, "pi") if pi.ndim == 2 else np.column_stack([1 - probabilities(pi, "pi"), pi])
    p_star = probabilities(p_star, "p_star")
    rows = complete_rows(pi=pi, p_star=p_star, stratum=stratum)
    pi, p_star, stratum = rows.columns
    if not rows.n:
        return Cmi(status="too_few", **rows.counts)
    both = pi[:, :, None] * np.stack([1 - p_star, p_star], axis=1)[:, None, :]
    joint = cluster_sums(both, *cluster_codes(stratum, rows.n))
    return Cmi(cmi=float(_cmi(joint[None])[0]), **rows.counts)


class GcmTest(Score, headline="T"):
    """METRICS E4."""

    T: float = NAN
    """Standard normal if action and theta are independent given the belief."""


def gcm_test(
    action: ArrayLike, theta: ArrayLike, m_hat: ArrayLike, e_hat: ArrayLike, groups: ArrayLike | None = None
) -> GcmTest:
    """Generalised covariance measure of two residuals (METRICS E4; Shah and Peters 2020, eq. 3).

    Args:
        action: [n] numbers: 0/1 or an exact action probability.
        theta: [n] 0/1, or the exact p*.
        m_hat: [n] E[action | belief], fitted on other contexts.
        e_hat: [n] E[theta | belief], fitted on other contexts.
        groups: [n] context; products are summed within it first. None: every row its own.

    Products without variance, or fewer than two groups, give NaN. With nuisances that were fitted on few other contexts
    the test rejects too often (10% at fifty contexts): below a hundred groups the status is `few_contexts`.

    >>> theta = np.arange(40) % 2
    >>> half = np.full(40, 0.5)  # what the belief tells of either
    >>> noise = np.arange(40) // 2 % 2
    >>> gcm_test(noise, theta, half, half).T  # independent
    0.0
    """
    columns = (("action", action), ("theta", theta), ("m_hat", m_hat), ("e_hat", e_hat))
    rows = complete_rows(groups, **{name: floats(x) for name, x in columns})
    a, t, m, e = rows.columns
    products = cluster_sums((a - m) * (t - e), rows.codes, rows.n_clusters)
    if rows.n_clusters < 2:
        return GcmTest(status="too_few", **rows.counts)
    sd = float(products.std())  # ddof 0, as in the source
    if sd <= TIE:
        return GcmTest(status="zero_variance", **rows.counts)
    T = float(np.sqrt(rows.n_clusters) * products.mean() / sd)
    status = "few_contexts" if rows.n_clusters < FEW_CONTEXTS else "ok"
    p = float(2 * scipy.stats.norm.sf(abs(T)))
    return GcmTest(T=T, p=p, p_method="normal", status=status, **rows.counts)


class SufficiencyR2(Score, headline="r2"):
    """METRICS E4."""

    r2: float = NAN
    """Share of Var(pi) that lies between strata, in [0, 1]: the correlation ratio."""
    r2_adjusted: float = NAN
    """The same less what S strata explain of n rows by chance; may be negative."""


def sufficiency_r2(pi: ArrayLike, stratum: ArrayLike) -> SufficiencyR2:
    """How much of the policy the stated belief explains (METRICS E4): the effect size to lead with.

    Args:
        pi: [n] exact probability of one action, or [n, k] of each (variances add up over actions).
        stratum: [n] neighbourhood of the belief.

    A constant policy gives NaN.

    >>> sufficiency_r2([0.2, 0.2, 0.9, 0.9], ["low", "low", "high", "high"]).r2
    1.0
    """
    rows = complete_rows(pi=probabilities(pi, "pi"), stratum=stratum)
    pi, stratum = rows.columns
    pi = pi if pi.ndim > 1 else pi[:, None]
    n = rows.n
    total = float(((pi - pi.mean(axis=0)) ** 2).sum()) if n else 0.0
    if n < 2 or total <= TIE**2:
        return SufficiencyR2(status="too_few" if n < 2 else "constant", **rows.counts)
    codes, n_strata = cluster_codes(stratum, n)
    means = cluster_sums(pi, codes, n_strata) / np.bincount(codes)[:, None]
    within = float(((pi - means[codes]) ** 2).sum())
    return SufficiencyR2(
        r2=1 - within / total,
        r2_adjusted=1 - (within / (n - n_strata)) / (total / (n - 1)) if n > n_strata else NAN,
        **rows.counts,
    )


def _tables(action: ArrayLike, theta: ArrayLike, stratum: ArrayLike) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Counts [strata, actions, states]."""
    rows = complete_rows(stratum=stratum, action=action, theta=theta)
    codes, uniques = zip(*(pd.factorize(x) for x in rows.columns), strict=True)
    tables = np.zeros([len(u) for u in uniques], dtype=np.int64)
    np.add.at(tables, codes, 1)
    return tables, rows.counts


def _cmi(tables: NDArray[Any]) -> Floats:
    """CMI [m] in nats of [m, strata, actions, states] counts or masses, which all sum to one total."""
    joint = tables / tables[:1].sum()
    a, t, s = joint.sum(axis=3), joint.sum(axis=2), joint.sum(axis=(2, 3))
    bits = entr(a).sum(axis=(1, 2)) + entr(t).sum(axis=(1, 2)) - entr(joint).sum(axis=(1, 2, 3)) - entr(s).sum(axis=1)
    return np.maximum(bits, 0.0)  # rounding alone can leave it by 1e-16


def _binary_laws(tables: NDArray[np.int64]) -> list[tuple[Floats, Floats]]:
    """Per stratum: contribution to the CMI of every table with its margins, and the chance of that table."""
    total = tables.sum()
    laws = []
    for table in tables:
        n, first_a, first_t = table.sum(), table[0].sum(), table[:, 0].sum()
        x = np.arange(max(0, first_a + first_t - n), min(first_a, first_t) + 1)
        possible = np.stack([x, first_a - x, first_t - x, n - first_a - first_t + x], axis=1)
        laws.append(
            (
                np.array([_cmi(t.reshape(1, 1, 2, 2))[0] for t in possible]) * n / total,
                scipy.stats.hypergeom.pmf(x, n, first_a, first_t),
            )
        )
    return laws


def _jackknife(tables: NDArray[np.int64], level: float) -> dict[str, Any]:
    """Interval of the debiased CMI of binary labels, from leaving out each context in turn.

    Rows of one cell give the same value, so four tables per stratum stand for all.
    """
    n = int(tables.sum())

    def excess(table: NDArray[np.int64]) -> float:
        """n times the debiased CMI of one stratum."""
        if not table.sum():
            return 0.0
        (law,) = _binary_laws(table[None])
        return float(table.sum() * (_cmi(table[None, None])[0] - law[0] @ law[1]))

    whole = [excess(table) for table in tables]
    values, times = [], []
    for table, excess_of in zip(tables, whole, strict=True):
        for cell in zip(*np.nonzero(table), strict=True):
            fewer = table.copy()
            fewer[cell] -= 1
            values.append((sum(whole) - excess_of + excess(fewer)) / (n - 1))
            times.append(int(table[cell]))
    se = jackknife_se(np.array(values), times)
    lo, hi = t_interval(sum(whole) / n, se, n - 1, level)
    return {"se": se, "ci_lo": lo, "ci_hi": hi, "ci_method": f"jackknife over contexts, t({n - 1})"}


def _combine(laws: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Law of the sum of independent contributions."""
    values, weights = np.zeros(1), np.ones(1)
    for value, weight in laws:
        values = np.add.outer(values, value).ravel()
        weights = np.multiply.outer(weights, weight).ravel()
    return values, weights


def _draw(tables: NDArray[np.int64], draws: int, rng: np.random.Generator) -> Floats:
    """CMI of `draws` tables with theta permuted within strata."""
    n = int(tables.sum())
    cells = np.array(list(product(*map(range, tables.shape))))
    stratum, action, theta = np.repeat(cells, tables.ravel(), axis=0).T  # sorted by stratum
    width = int(np.prod(tables.shape))
    out = []
    step = max(1, LABELS_AT_ONCE // n)
    for start in range(0, draws, step):
        m = min(step, draws - start)
        order = np.argsort(stratum + rng.random((m, n)), axis=1)  # a shuffle that stays within the stratum
        cell = np.ravel_multi_index(
            (np.broadcast_to(stratum, (m, n)), np.broadcast_to(action, (m, n)), theta[order]), tables.shape
        )
        counts = np.bincount((np.arange(m)[:, None] * width + cell).ravel(), minlength=m * width)
        out.append(_cmi(counts.reshape(m, *tables.shape)))
    return np.concatenate(out)
