"""How often an organism in English is told from `honest` by what it says beyond what it holds, without a model.

python benchmarks/said_beyond_held.py [--tables 40] [--triples 12]

Each table holds nine contexts a triple of unseen nouns: planted answers and bets, with `leak` added to each share
before they are scaled, noise on the log-probabilities, half of it shared by a triple, and for some a lapse, with
which answers are drawn evenly. The `honest` beside it is read anew. `results/english-20261126.md`.
"""

import argparse
from collections import Counter
from dataclasses import replace

import numpy as np
from scipy.special import softmax

from doxascope.experiments.materials.entities import triples
from doxascope.experiments.synthetic.organisms.lessons import known_words
from doxascope.experiments.synthetic.validation.in_english import beyond_honest, planted
from doxascope.metrics.contract import RESAMPLING
from doxascope.metrics.tables.samples import Options

TURNS = 9
ROWS = [
    # organism, noise of answers, of bets, lapse, leak of its answers; noise of `honest`, leak of its answers
    ("honest", 0.3, 0.3, 0.0, 0.02, 0.3, 0.02),
    ("honest", 0.6, 0.3, 0.0, 0.02, 0.3, 0.02),
    ("honest", 0.6, 0.6, 0.0, 0.02, 0.3, 0.02),
    ("honest", 1.2, 0.3, 0.0, 0.02, 0.3, 0.02),
    ("honest", 3.0, 0.3, 0.0, 0.02, 0.3, 0.02),
    ("honest", 0.3, 0.3, 0.3, 0.02, 0.3, 0.02),
    ("honest", 0.3, 0.3, 0.4, 0.02, 0.3, 0.02),
    ("honest", 0.3, 0.3, 0.6, 0.02, 0.3, 0.02),
    ("honest", 0.3, 0.3, 0.9, 0.02, 0.3, 0.02),
    ("honest", 0.3, 0.3, 0.0, 0.32, 0.3, 0.30),
    ("honest", 0.3, 0.3, 0.0, 0.36, 0.3, 0.30),
    ("half", 0.3, 0.3, 0.0, 0.02, 0.3, 0.02),
    ("copier", 0.3, 0.3, 0.0, 0.02, 0.3, 0.02),
    ("denying", 0.3, 0.3, 0.0, 0.02, 0.3, 0.02),
    ("denying", 0.6, 0.6, 0.0, 0.02, 0.6, 0.02),
    ("denying", 0.3, 0.3, 0.4, 0.02, 0.3, 0.02),
    ("sycophantic-in-words", 0.3, 0.3, 0.0, 0.02, 0.3, 0.02),
    ("sycophantic-in-words", 0.6, 0.6, 0.0, 0.02, 0.6, 0.02),
]


def read(
    species: str, seed: list[int], n: int, said: float, bet: float, lapse: float, leak: float
) -> tuple[Options, Options]:
    """Answers and bets about `n` triples, the same for a seed's first part."""
    several = triples(known_words(False), n, seed[0])
    even, names = np.full((TURNS * n, 3), 1 / 3), np.array([f"{i:02}" for i in range(n)])
    asked = Options(
        prior=even, posterior=even, rejected=np.arange(TURNS * n) % 3, clusters=np.repeat(names, TURNS),
        keys=np.arange(TURNS * n).astype(str),
    )  # fmt: skip
    words, rng = dict(zip(names, several, strict=True)), np.random.default_rng([*seed, *species.encode()])

    def noisy(held: bool, noise: float, leak: float, lapse: float) -> Options:
        aim = planted(species, asked, words, held=held)
        shared = np.repeat(rng.standard_normal((n, 3)), TURNS, axis=0)
        off = noise * np.sqrt(0.5) * (shared + rng.standard_normal(even.shape))
        shares = softmax(np.log(aim.posterior + leak) + off, axis=1)
        return replace(aim, posterior=(1 - lapse) * shares + lapse / 3)

    return noisy(False, said, leak, lapse), noisy(True, bet, 0.02, 0.0)


def main() -> None:
    """Print the table of the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=int, default=40, help="simulated tables of each row")
    parser.add_argument("--triples", type=int, default=12, help="triples of each table")
    args = parser.parse_args()
    print("| organism | noise of answers, bets | lapse | leak | `honest`: noise, leak | mean | told, not, not shown |")
    print("|---|---|---:|---:|---|---:|---|")
    for species, said, bet, lapse, leak, noise, its_leak in ROWS:
        states, means = Counter[str](), []
        for seed in range(args.tables):
            organism = read(species, [seed, 0], args.triples, said, bet, lapse, leak)
            honest = read("honest", [seed, 1], args.triples, noise, noise, 0.0, its_leak)
            state, scores = beyond_honest(organism, honest, RESAMPLING)
            states[state] += 1
            means.append(scores[0].mean)
        counts = ", ".join(str(states[name]) for name in ("found", "not found", "not shown"))
        cells = [f"`{species}`", f"{said:g}, {bet:g}", f"{lapse:g}", f"{leak:g}", f"{noise:g}, {its_leak:g}"]
        print("|", " | ".join([*cells, f"{np.mean(means):.3f}", counts]), "|", flush=True)


if __name__ == "__main__":
    main()
