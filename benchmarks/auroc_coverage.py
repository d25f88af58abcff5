"""How often the intervals of an AUROC and of the difference of two hold what is true, in few unequal clusters.

    python benchmarks/auroc_coverage.py [--samples 400]

Clusters share a level and a share of label 1; two scores know the label equally well. Ten minutes on one core.
"""

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from doxascope.metrics import Resampling, auroc, auroc_difference

APART, LEVEL = 0.8, 0.7
"""Mean of a score at label 1 less that at 0, and the spread of clusters, in standard deviations of a row."""
TRUE = float(norm.cdf(APART / np.sqrt(2 * (1 + LEVEL**2))))


def sample(n_clusters: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Cluster [n], label [n], and two scores [2, n]."""
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(n_clusters), 1 + rng.poisson(rng.gamma(1, 4, n_clusters)))
    shares = rng.beta(2, 2, n_clusters)
    labels = (rng.random(len(clusters)) < shares[clusters]).astype(float)
    levels_and_noise = [
        LEVEL * rng.normal(size=n_clusters)[clusters] + rng.normal(size=len(clusters)) for _ in range(2)
    ]
    return clusters, labels, APART * labels + np.array(levels_and_noise)


def main() -> None:
    """A line for each number of clusters."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=400)
    n_samples = parser.parse_args().samples
    print(f"true AUROC {TRUE:.3f}, {n_samples} samples of each\n")
    print("| clusters | AUROC held | difference held |\n|---|---|---|")
    for n_clusters in (8, 15, 30, 80):
        held: list[tuple[bool, bool]] = []
        for seed in range(n_samples):
            clusters, labels, (first, second) = sample(n_clusters, seed)
            how = Resampling(draws=499, seed=seed)
            alone = auroc(first, labels, clusters, how=how)
            if np.isfinite(alone.ci_lo):
                difference = auroc_difference(first, second, labels, clusters, how=how)
                held.append((alone.ci_lo <= TRUE <= alone.ci_hi, difference.ci_lo <= 0 <= difference.ci_hi))
        print(f"| {n_clusters} | {np.mean(held, axis=0)[0]:.3f} | {np.mean(held, axis=0)[1]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
