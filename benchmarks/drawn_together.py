"""How far a probe draws together what a model holds along fixed directions, and whether that is told.

python benchmarks/drawn_together.py [--tables 1000]

A table has 60 triples of words, or 12 or 20, each read before and after each of its words is ruled out. The
log-probability of each word lies along a direction of its own, with noise; what is computed is what is held, so that
no number of the two differs. One of spread (`rms_logodds`, `c2`) is called different where its paired interval, over
triples, leaves 0; `compare` strikes it out where the probe is told to be off in spread. In the last row the belief
keeps the ratio of the words that remain, and what is read after a rejection knows the word that is ruled out and
nothing else.
"""

import argparse
from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

from doxascope.metrics import belief_consistency
from doxascope.metrics.contract import Floats
from doxascope.probes.cross_validation import PENALTIES
from doxascope.probes.evidence.calibration import CONSTANT, spread
from doxascope.probes.evidence.crossfit import logits_of_options, out_of_fold_r2, ridge_of_options
from doxascope.probes.groups import grouped_folds

TRIPLES, WIDTH, FOLDS = (60, 20, 12), 16, 5
KEPT = 0.02
"""What a word that is ruled out keeps."""
NOISES = (0.1, 0.3, 0.6, 1.0, 2.0, float("inf"))
"""Standard deviations, in nats, of what lies along the directions besides the belief; the last: the belief does not."""


def table(rng: np.random.Generator, noise: float, triples: int) -> tuple[Floats, Floats]:
    """Features [n, d] and beliefs [n, 3]: of each triple one before, and one after each word is ruled out."""
    prior = softmax(rng.normal(0, 1.2, (triples, 3)), axis=1)
    held = [prior, *(np.ones_like(prior) * evenly(word) for word in range(3))]
    prob = np.stack(held, axis=1).reshape(-1, 3)
    along = np.log(prob) if np.isfinite(noise) else np.zeros_like(prob)
    x = rng.normal(0, 1, (len(prob), WIDTH))
    x[:, :3] = along + (noise if np.isfinite(noise) else 1.0) * x[:, :3]
    return x @ np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0], prob


def evenly(word: int) -> Floats:
    """[3] the belief after one of the words is ruled out, alike in the others."""
    return np.where(np.arange(3) == word, KEPT, (1 - KEPT) / 2)


def of_word(rng: np.random.Generator, triples: int) -> tuple[Floats, Floats]:
    """Beliefs [n, 3] that keep ratios, and what a probe reads of them that knows of a posterior the word alone."""
    prior = softmax(rng.normal(0, 1.2, (triples, 3)), axis=1)
    held, known = [prior], [prior]
    for word in range(3):
        left = np.where(np.arange(3) == word, 0, prior)
        held.append(np.where(np.arange(3) == word, KEPT, (1 - KEPT) * left / left.sum(axis=1, keepdims=True)))
        known.append(np.ones_like(prior) * evenly(word))
    return np.stack(held, axis=1).reshape(-1, 3), np.stack(known, axis=1).reshape(-1, 3)


def numbers(prob: Floats) -> Floats:
    """[2, triples] after each word is ruled out, on average: the squared change of the log-odds of the two words that
    remain, and 1 - c2.
    """
    each = prob.reshape(-1, 4, 3)
    word = np.tile(np.arange(3), len(each))
    scored = belief_consistency(np.repeat(each[:, 0], 3, axis=0), each[:, 1:].reshape(-1, 3), word)
    change = np.log(scored.prior2[:, 0] / scored.prior2[:, 1]) - np.log(scored.post2[:, 0] / scored.post2[:, 1])
    return np.stack([change**2, 1 - scored.c2]).reshape(2, -1, 3).mean(axis=2)


def read(x: Floats, prob: Floats, seed: int) -> tuple[Floats, float]:
    """What a probe of them reads, each triple by a fit without it, [n, 3]; and its R2."""
    folds = grouped_folds(np.repeat(np.arange(len(prob) // 4), 4), FOLDS, seed)
    fits = ridge_of_options(x, prob, folds, PENALTIES)
    logits = np.empty_like(prob)
    for fold, readouts in enumerate(fits.readouts):
        logits[folds == fold] = np.column_stack([readout.logit(x[folds == fold]) for readout in readouts])
    logit = logits_of_options(prob)
    means = np.stack([logit[folds != fold].mean(axis=0) for fold in folds])
    return softmax(logits, axis=1), out_of_fold_r2(logit.ravel(), fits.score.ravel(), means.ravel())


def judged(rng: np.random.Generator, noise: float | None, seed: int, triples: int) -> list[float]:
    """R2, by how much `rms_logodds` and 1 - `c2` are too small, the smallest spread, whether something is told to be
    off, whether nothing can be told; and of either number whether the two are called different, and whether they are
    though nothing is told to be off.

    Without a noise the probe is that of the word alone.
    """
    if noise is None:
        (prob, probed), r2 = of_word(rng, triples), np.nan
    else:
        x, prob = table(rng, noise, triples)
        probed, r2 = read(x, prob, seed)
    known, told = numbers(prob), numbers(probed)
    less = known - told
    different = abs(less.mean(axis=1)) > 1.96 * less.std(axis=1, ddof=1) / np.sqrt(triples)
    word = np.tile(np.repeat(np.arange(4), 3), triples)  # 0: before
    cells = 3 * word + np.tile(np.arange(3), len(prob))
    group = np.repeat(np.arange(triples), 12)
    scenarios = [word == 0, word > 0]
    of = [spread(probed.ravel()[rows], prob.ravel()[rows], cells[rows], group[rows]) for rows in scenarios]
    varied = [found for found in of if np.isfinite(found.ratio)]
    off, untold = any(found.fault[0] for found in varied), not all(found.known for found in varied)
    change, distance = told.mean(axis=1) / known.mean(axis=1) if known.mean() > CONSTANT else (np.inf, np.inf)
    least = min(found.ratio for found in varied)
    calls = [float(call) for each in different for call in (each, each and not off)]
    return [r2, float(np.sqrt(change)), float(distance), least, off, untold and not off, *calls]


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="drawn_together", description="What a probe draws together.")
    parser.add_argument("--tables", type=int, default=1000)
    asked = parser.parse_args(arguments)
    head = "triples, noise in nat, R2, rms read by held, 1 - c2 read by held, spread, struck, untold, rms called "
    head += "different, and not struck, c2 called different, and not struck"
    print("| " + head.replace(", ", " | ") + " |")
    print("|---:" * (head.count(",") + 1) + "|")
    rows = [(TRIPLES[0], noise) for noise in NOISES] + [(n, noise) for n in TRIPLES[1:] for noise in (0.1, 0.6)]
    for triples, noise in [*rows, (TRIPLES[0], None)]:
        rng = np.random.default_rng(0)
        means = np.mean([judged(rng, noise, seed, triples) for seed in range(asked.tables)], axis=0)
        label = "the word alone" if noise is None else f"{noise:g}"
        print(f"| {triples} | {label} | " + " | ".join(f"{value:.3f}" for value in means) + " |", flush=True)


if __name__ == "__main__":
    main()
