"""How far a probe draws together what a model holds along fixed directions, and whether that is told.

python benchmarks/drawn_together.py [--tables 1000]

A table has 60 triples of words, each read before and after each of its words is ruled out. The log-probability of each
word lies along a direction of its own, with noise; what is computed is what is held, so that no number of the two
differs. One of spread (`rms_logodds`) is called different where its paired interval, over triples, leaves 0; `compare`
strikes it out where the probe is told to be drawn together.
"""

import argparse
from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

from doxascope.metrics.contract import Floats
from doxascope.probes.cross_validation import PENALTIES
from doxascope.probes.evidence.calibration import SPREAD, spread
from doxascope.probes.evidence.crossfit import one_against_rest, out_of_fold_r2
from doxascope.probes.groups import grouped_folds

TRIPLES, WIDTH, FOLDS = 60, 16, 5
KEPT = 0.02
"""What a word that is ruled out keeps."""
NOISES = (0.0, 0.3, 0.6, 1.0, 2.0, float("inf"))
"""Standard deviations, in nats, of what lies along the directions besides the belief; the last: the belief does not."""


def table(rng: np.random.Generator, noise: float) -> tuple[Floats, Floats]:
    """Features [n, d] and beliefs [n, 3]: of each triple one before, and one after each word is ruled out."""
    prior = softmax(rng.normal(0, 1.2, (TRIPLES, 3)), axis=1)
    held = [prior, *(np.where(np.arange(3) == word, KEPT, (1 - KEPT) / 2) * np.ones_like(prior) for word in range(3))]
    prob = np.stack(held, axis=1).reshape(-1, 3)
    along = np.log(prob) if np.isfinite(noise) else np.zeros_like(prob)
    x = rng.normal(0, 1, (len(prob), WIDTH))
    x[:, :3] = along + (noise if np.isfinite(noise) else 1.0) * x[:, :3]
    return x @ np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0], prob


def changes(prob: Floats) -> Floats:
    """[triples, 3] change of the log-odds of the two words that remain, after each word is ruled out."""
    log = np.log(prob).reshape(TRIPLES, 4, 3)
    others = [(1, 2), (0, 2), (0, 1)]
    after = [log[:, 1 + word, i] - log[:, 1 + word, j] for word, (i, j) in enumerate(others)]
    return np.stack(after, axis=1) - np.stack([log[:, 0, i] - log[:, 0, j] for i, j in others], axis=1)


def read(x: Floats, prob: Floats, seed: int) -> tuple[Floats, float]:
    """What a probe of them reads, each triple by a fit without it, [n, 3]; and its R2."""
    folds = grouped_folds(np.repeat(np.arange(TRIPLES), 4), FOLDS, seed)
    fits = one_against_rest(x, prob, folds, PENALTIES)
    logits = np.empty_like(prob)
    for fold, readouts in enumerate(fits.readouts):
        logits[folds == fold] = np.column_stack([readout.logit(x[folds == fold]) for readout in readouts])
    logit = np.log(prob) - np.log1p(-prob)
    means = np.stack([logit[folds != fold].mean(axis=0) for fold in folds])
    return softmax(logits, axis=1), out_of_fold_r2(logit.ravel(), fits.score.ravel(), means.ravel())


def judged(rng: np.random.Generator, noise: float, seed: int) -> list[float]:
    """R2, by how much `rms_logodds` is too small, the spread that is told, whether the two are called different, and
    whether they are though the spread is not told.
    """
    x, prob = table(rng, noise)
    probed, r2 = read(x, prob, seed)
    squares = [(changes(each) ** 2).mean(axis=1) for each in (prob, probed)]
    less = squares[0] - squares[1]
    different = abs(less.mean()) > 1.96 * less.std(ddof=1) / np.sqrt(TRIPLES)
    moment = np.tile(np.repeat([0, 1, 1, 1], 3), TRIPLES)
    option = np.tile(np.arange(3), len(prob))
    told = min(spread(probed.ravel()[moment == m], prob.ravel()[moment == m], option[moment == m]) for m in (0, 1))
    ratio = np.sqrt(squares[1].mean() / squares[0].mean())
    return [r2, float(ratio), told, float(different), float(different and told >= SPREAD)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="drawn_together", description="What a probe draws together.")
    parser.add_argument("--tables", type=int, default=1000)
    asked = parser.parse_args(arguments)
    print("| noise, nat | R2 | rms read by held | spread told | called different | and not told |")
    print("|---:|---:|---:|---:|---:|---:|")
    for noise in NOISES:
        rng = np.random.default_rng(0)
        made = np.array([judged(rng, noise, seed) for seed in range(asked.tables)])
        means = made.mean(axis=0)
        print(f"| {noise:g} | " + " | ".join(f"{value:.3f}" for value in means) + " |", flush=True)


if __name__ == "__main__":
    main()
