"""What the vectorised statistics save: each against the plain way to the same number, in one run.

    make bench        or: python benchmarks/metrics.py

Rounds alternate between the two, so that a machine whose speed drifts favours neither; the figure is the median
ratio. A plain way that would take minutes is run for a stated number of draws and extrapolated: its draws are
independent and cost the same. All run on one thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import platform
import statistics
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import scipy
import sklearn
import statsmodels
import statsmodels.api as sm
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from scipy.special import psi

from doxascope.metrics import (
    Resampling,
    bootstrap_moments,
    bootstrap_rows,
    knn_cmi,
    martingale_icm_test,
    martingale_moments,
    martingale_slope,
    plugin_cmi,
    sign_flip_test,
    stratified_permutation,
)
from doxascope.metrics.contract import NAN, TIE
from doxascope.metrics.inference.clusters import complete_rows

ROUNDS = 5
REFITS = 20
"""Refits and plain permutations that are timed; the rest is extrapolated."""
FLIPS = 4999


def knn_cmi_plain(action: ArrayLike, theta: ArrayLike, p: ArrayLike, k: int = 3) -> float:
    """The definition, row by row in O(n^2) time: the reference that `knn_cmi` must agree with."""
    a, t, p = complete_rows(action=action, theta=theta, p=np.asarray(p, dtype=np.float64)).columns
    n = len(p)
    if n <= k:
        return NAN
    terms = []
    for i in range(n):
        to_p = np.abs(p - p[i])
        to_ap, to_tp = np.maximum(to_p, a != a[i]), np.maximum(to_p, t != t[i])
        distance = np.maximum(to_ap, to_tp)
        radius = np.partition(np.delete(distance, i), k - 1)[k - 1] + TIE
        k_own, n_a, n_t, n_p = ((d <= radius).sum() - 1 for d in (distance, to_ap, to_tp, to_p))
        terms.append(psi(k_own) - psi(n_a) - psi(n_t) + psi(n_p))
    return float(np.mean(terms))


@dataclass(frozen=True)
class Row:
    """One comparison: medians in seconds, and the ratios of the rounds, sorted."""

    name: str
    ours: float
    plain: float
    ratios: list[float]

    def __str__(self) -> str:
        spread = f"{self.ratios[0]:.0f} to {self.ratios[-1]:.0f}"
        return f"| {self.name} | {self.ours:.3f} | {self.plain:.2f} | {statistics.median(self.ratios):.0f} | {spread} |"


def timed(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def compare(name: str, ours: Callable[[], object], plain: Callable[[], object], times: float = 1) -> Row:
    """Time both in turn; the plain way counts `times` as often as it is run."""
    rounds = [(timed(ours), times * timed(plain)) for _ in range(ROUNDS)]
    fast, slow = zip(*rounds, strict=True)
    ratios = sorted(b / a for a, b in rounds)
    return Row(name, statistics.median(fast), statistics.median(slow), ratios)


def beliefs(n: int, n_clusters: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Priors and posteriors [n] of a martingale, and their question."""
    rng = np.random.default_rng(seed)
    prior = rng.uniform(0.2, 0.8, n)
    return prior, prior + rng.uniform(-0.2, 0.2, n), np.arange(n) % n_clusters


def choices(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Actions, states and beliefs [n] of an agent that uses its belief alone."""
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return (rng.random(n) < p).astype(int), (rng.random(n) < p).astype(int), p


def slope_bootstrap(n: int, draws: int) -> Callable[[], np.ndarray]:
    """The cluster bootstrap of the martingale slope, moments and all."""
    prior, post, clusters = beliefs(n, 1000)
    return lambda: bootstrap_moments(
        martingale_moments(prior, post), clusters, martingale_slope, how=Resampling(draws=draws)
    )


def slope_refits(n: int, draws: int) -> Callable[[], np.ndarray]:
    """The same draws, with an ordinary regression on the rows of each."""
    prior, post, clusters = beliefs(n, 1000)
    delta, design = post - prior, sm.add_constant(prior)
    return lambda: bootstrap_rows(
        lambda rows: float(sm.OLS(delta[rows], design[rows]).fit().params[1]), clusters, how=Resampling(draws=draws)
    )


def knn_tree_loop(action: np.ndarray, theta: np.ndarray, p: np.ndarray, k: int = 3) -> float:
    """The estimator as k-d tree code usually has it: one query and three counts per point, in a loop."""
    columns = np.column_stack([action, theta, p]).astype(float)
    joint, with_action, with_theta, alone = (cKDTree(columns[:, c]) for c in ([0, 1, 2], [0, 2], [1, 2], [2]))
    total = 0.0
    for point in columns:
        radius = np.asarray(joint.query(point, k + 1, p=np.inf)[0])[-1] + 1e-12
        own, n_a, n_t, n_p = (
            len(tree.query_ball_point(point[c], radius, p=np.inf)) - 1
            for tree, c in ((joint, [0, 1, 2]), (with_action, [0, 2]), (with_theta, [1, 2]), (alone, [2]))
        )
        total += psi(own) - psi(n_a) - psi(n_t) + psi(n_p)
    return total / len(columns)


def flips_loop(values: np.ndarray, draws: int) -> float:
    """Sign flips one by one."""
    rng = np.random.default_rng(0)
    observed = abs(values.sum())
    hits = sum(abs((values * rng.choice([-1, 1], len(values))).sum()) >= observed for _ in range(draws))
    return (hits + 1) / (draws + 1)


def icm_loop(prior: np.ndarray, delta: np.ndarray, clusters: np.ndarray, draws: int) -> float:
    """The conditional-moment test one draw at a time."""
    rng = np.random.default_rng(0)
    order = np.argsort(prior)

    def cvm(d: np.ndarray) -> float:
        return float((np.cumsum(d[order]) ** 2).sum()) / len(d) ** 2

    observed = cvm(delta)
    hits = sum(cvm(delta * rng.choice([-1, 1], clusters.max() + 1)[clusters]) >= observed for _ in range(draws))
    return (hits + 1) / (draws + 1)


def strata_loop(action: np.ndarray, theta: np.ndarray, stratum: np.ndarray, draws: int) -> float:
    """The within-stratum permutation one draw at a time."""
    rng = np.random.default_rng(0)
    members = [np.flatnonzero(stratum == s) for s in np.unique(stratum)]
    observed = plugin_cmi(action, theta, stratum).cmi
    hits = 0
    for _ in range(draws):
        shuffled = theta.copy()
        for rows in members:
            shuffled[rows] = rng.permutation(shuffled[rows])
        hits += plugin_cmi(action, shuffled, stratum).cmi >= observed
    return (hits + 1) / (draws + 1)


def peak_bytes(work: Callable[[], object]) -> int:
    """The most memory that one call holds."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def describe() -> str:
    """Machine and versions."""
    versions = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn, "statsmodels": statsmodels}
    libraries = ", ".join(f"{name} {module.__version__}" for name, module in versions.items())
    return f"{platform.machine()}, Python {platform.python_version()}, {libraries}, one thread, {ROUNDS} rounds"


def growth(name: str, works: Mapping[str, Callable[[], object]]) -> str:
    """Seconds of each size, fastest of three."""
    cells = (f"{size}: {min(timed(work) for _ in range(3)):.3f} s" for size, work in works.items())
    return f"| {name} | {', '.join(cells)} |"


def main() -> None:
    """Check that both ways agree, then measure and print."""
    action, theta, p = choices(5000)
    fast = knn_cmi(action, theta, p).cmi
    gap_knn = max(abs(fast - knn_cmi_plain(action, theta, p)), abs(fast - knn_tree_loop(action, theta, p)))
    few = 8
    gap_slope = np.abs(slope_bootstrap(100_000, few)() - slope_refits(100_000, few)()).max()

    differences = np.random.default_rng(1).normal(0.1, 1, 200)
    prior, post, clusters = beliefs(1000, 100)
    action3 = np.random.default_rng(2).integers(0, 3, 300)
    theta3 = np.random.default_rng(3).integers(0, 2, 300)
    strata = np.arange(300) // 15
    part = FLIPS / REFITS
    rows = [
        compare(
            f"cluster bootstrap of M, 100,000 rows, 1,000 clusters, 2,000 draws; a refit each ({REFITS} timed)",
            slope_bootstrap(100_000, 2000),
            slope_refits(100_000, REFITS),
            2000 / REFITS,
        ),
        compare(
            "kNN CMI, n = 5,000; k-d tree loop",
            lambda: knn_cmi(action, theta, p),
            lambda: knn_tree_loop(action, theta, p),
        ),
        compare(
            "kNN CMI, n = 5,000; the definition row by row",
            lambda: knn_cmi(action, theta, p),
            lambda: knn_cmi_plain(action, theta, p),
        ),
        compare(
            "sign flips of 200 clusters, 4,999 draws; a loop",
            lambda: sign_flip_test(differences),
            lambda: flips_loop(differences, FLIPS),
        ),
        compare(
            f"conditional-moment test, 1,000 rows, 100 clusters, 4,999 draws; a loop ({10 * REFITS} timed)",
            lambda: martingale_icm_test(prior, post, clusters),
            lambda: icm_loop(prior, post - prior, clusters, 10 * REFITS),
            part / 10,
        ),
        compare(
            f"within-stratum permutation, 300 rows, 20 strata, 4,999 draws; a loop ({REFITS} timed)",
            lambda: stratified_permutation(action3, theta3, strata),
            lambda: strata_loop(action3, theta3, strata, REFITS),
            part,
        ),
    ]
    print(describe() + "\n")
    print("| what; against what | ours, s | plain, s | ratio | rounds |\n|---|---|---|---|---|")
    print("\n".join(map(str, rows)))
    print("\n| growth | |\n|---|---|")
    print(
        growth(
            "bootstrap, rows (2,000 draws)", {f"{n:,}": slope_bootstrap(n, 2000) for n in (25_000, 100_000, 400_000)}
        )
    )
    print(growth("bootstrap, draws (100,000 rows)", {f"{b:,}": slope_bootstrap(100_000, b) for b in (500, 2000, 8000)}))
    sizes = {n: choices(n) for n in (5000, 20_000, 80_000)}
    print(growth("kNN CMI, rows", {f"{n:,}": lambda c=c: knn_cmi(*c) for n, c in sizes.items()}))
    flips = {f"{b:,}": lambda b=b: sign_flip_test(differences, how=Resampling(draws=b)) for b in (1000, 4000, 16_000)}
    print(growth("sign flips, draws (200 clusters)", flips))
    held = ", ".join(f"{n:,}: {peak_bytes(lambda c=c: knn_cmi(*c)) / n:.0f}" for n, c in sizes.items())
    print(f"\nkNN CMI, peak bytes per row at n = {held}")
    print(f"cluster bootstrap, peak {peak_bytes(slope_bootstrap(100_000, 2000)) / 1e6:.0f} MB")
    print(f"largest difference from the plain way: slope {gap_slope:.0e}, CMI {gap_knn:.0e}")


if __name__ == "__main__":
    main()
