"""How often the causal gain of a detector says *follows* of one that is, or is not, made of what the answer hangs on
(METRICS W10).

    python benchmarks/causal_gain.py [--draws 2000]

Activations of forty rows, one of each question, have principal components of three kinds: alike, falling by a power,
and one that is thirty times as wide as the others. The answer is linear in them, with a slope that lies alike in all
directions, or on the components as they are wide, and differs between rows. Detectors that read nothing have weights
drawn alike in all directions, or are differences of means, or what tells apart best (the same over the covariance), of
labels that were tossed over a hundred other rows; those that read it are differences of means of the hundred rows in
which the answer is high and low, of which a fifth of the labels are wrong.
"""

import argparse
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from scipy.stats import binomtest

from doxascope.experiments.probing.detector_causal import FOLLOWS, OPPOSITE, CausalGain, steps_along
from doxascope.metrics.contract import Floats
from doxascope.metrics.inference.means import cluster_mean
from doxascope.probes.detectors import Detector

ROWS, OTHERS, WIDTH = 40, 100, 64
SPREADS = {
    "alike": np.ones(WIDTH),
    "falling": 1 / np.arange(1, WIDTH + 1),
    "one wide": np.r_[30.0, np.ones(WIDTH - 1)],
}
WIDE, NOTHING = "where wide", ("drawn", "means", "best")
SLOPES: dict[str, Callable[[Floats], Floats]] = {"in all directions": np.ones_like, WIDE: lambda spread: spread}


def weights(rng: np.random.Generator, kind: str, x: Floats, answer: Floats) -> Floats:
    """[d] of a detector that is made on other rows [n, d] and the log-odds of their answers [n]."""
    if kind == "drawn":
        return rng.normal(size=x.shape[1])
    lie = rng.uniform(size=len(x)) < 0.5
    if kind == "of the answer":
        lie = (answer < np.median(answer)) ^ (rng.uniform(size=len(x)) < 0.2)
    means = x[lie].mean(axis=0) - x[~lie].mean(axis=0)
    return np.linalg.solve(np.cov(x.T) + 1e-6 * np.eye(x.shape[1]), means) if kind == "best" else means


def verdict(rng: np.random.Generator, kind: str, spread: Floats, slopes: Callable[[Floats], Floats]) -> str:
    """On one set of activations, turned at random."""
    turn = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
    x = rng.normal(size=(ROWS + OTHERS, WIDTH)) * spread @ turn
    slope = slopes(spread) * rng.normal(size=WIDTH) @ turn
    w = weights(rng, kind, x[ROWS:], x[ROWS:] @ slope)
    steps = steps_along(x[:ROWS, None], Detector("d", w[None], 0.0, (0,), 0.0, ""), int(rng.integers(2**31)))[:, 0]
    of_rows = slope + 0.5 * np.linalg.norm(slope) / WIDTH**0.5 * rng.normal(size=(ROWS, WIDTH))
    falls = -of_rows @ steps.T
    return CausalGain(cluster_mean(falls[:, 0], np.arange(ROWS)), falls[:, 1:].mean(axis=0)).verdict


def beside(rng: np.random.Generator, signal: float, told: float) -> str:
    """Of a detector of the instruction, where a lie is told at this share of the rows in which one is asked for."""
    asked = rng.uniform(size=ROWS) < 0.5
    lie = rng.uniform(size=ROWS) < np.where(asked, told, 1 - told)
    x = rng.normal(size=(ROWS, 8 * WIDTH))
    x[:, 0] += signal * (2 * asked - 1)
    x[:, 1] += signal * (2 * lie - 1)
    reads, answer = np.eye(8 * WIDTH)[:2]
    steps = steps_along(x[:, None], Detector("d", reads[None], 0.0, (0,), 0.0, ""), int(rng.integers(2**31)))[:, 0]
    falls = np.outer(1 + 0.5 * rng.normal(size=ROWS), answer @ steps.T)
    return CausalGain(cluster_mean(falls[:, 0], np.arange(ROWS)), falls[:, 1:].mean(axis=0)).verdict


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description="Verdicts of the causal gain of simulated detectors.")
    parser.add_argument("--draws", type=int, default=2000)
    draws = parser.parse_args().draws
    print("| components | answer's slope | detector | follows | moves the other way |\n|---|---|---|---|---|")
    for i, (spread, slope, kind) in enumerate(product(SPREADS, SLOPES, (*NOTHING, "of the answer"))):
        if spread != "alike" or slope == WIDE:  # elsewhere the two slopes are one
            rng = np.random.default_rng(i)
            said = [verdict(rng, kind, SPREADS[spread], SLOPES[slope]) for _ in range(draws)]
            print(f"| {spread} | {slope} | {kind} | {shares(said)} |", flush=True)
    print("\n| signal | lies where asked | follows | moves the other way |\n|---|---|---|---|")
    for i, (signal, told) in enumerate(product((1.0, 2.0, 3.0), (0.5, 0.8))):
        rng = np.random.default_rng(100 + i)
        print(f"| {signal:g} | {told:.0%} | {shares([beside(rng, signal, told) for _ in range(draws)])} |", flush=True)


def shares(said: Sequence[str]) -> str:
    """Of both verdicts, with their intervals."""
    cells = []
    for what in (FOLLOWS, OPPOSITE):
        low, high = binomtest(said.count(what), len(said)).proportion_ci(method="wilson")
        cells.append(f"{said.count(what) / len(said):.3f} [{low:.3f}, {high:.3f}]")
    return " | ".join(cells)


if __name__ == "__main__":
    main()
