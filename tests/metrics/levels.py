"""How often tests reject what is true, where beliefs sit near 0 and 1: slow, run by hand.

`python tests/metrics/levels.py [seeds]` prints one line for each design, with the share of seeds in which each test
rejects at 5%. `rejections` is what a calibration run calls.
"""

import sys
from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import expit

from doxascope.metrics import martingale_joint_test, martingale_score

Sample = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Prior, posterior and question of each row."""


def bayesian(rng: np.random.Generator, questions: int, logits: np.ndarray, steps: int = 1) -> Sample:
    """An exact Bayesian who sees one signal of accuracy .6 to .9 per step; logits [questions] are of the prior."""
    belief = expit(logits)
    truth = rng.random(questions) < belief
    chain = [belief]
    for _ in range(steps):
        accuracy = rng.uniform(0.6, 0.9, questions)
        says = rng.random(questions) < np.where(truth, accuracy, 1 - accuracy)
        like, like_not = np.where(says, accuracy, 1 - accuracy), np.where(says, 1 - accuracy, accuracy)
        belief = belief * like / (belief * like + (1 - belief) * like_not)
        chain.append(belief)
    b = np.stack(chain, axis=1)
    return b[:, :-1].ravel(), b[:, 1:].ravel(), np.repeat(np.arange(questions), steps)


def extreme(rng: np.random.Generator, questions: int, steps: int = 1) -> Sample:
    """Priors whose log-odds are N(-6, 3)."""
    return bayesian(rng, questions, rng.normal(-6, 3, questions), steps)


def u_shaped(rng: np.random.Generator, questions: int, steps: int = 1) -> Sample:
    """Priors near 0 or near 1."""
    return bayesian(rng, questions, rng.normal(0, 4, questions), steps)


def uneven(rng: np.random.Generator, questions: int) -> Sample:
    """Questions of 1 to 50 rows with a shared shift, and updates with heavy tails."""
    sizes = np.exp(rng.uniform(0, np.log(50), questions)).astype(int)
    question = np.repeat(np.arange(questions), sizes)
    b = np.clip(rng.beta(0.5, 0.5, questions)[question] + rng.normal(0, 0.03, len(question)), 0.01, 0.99)
    room = np.minimum(b, 1 - b)
    shift = np.clip(0.1 * rng.standard_cauchy(questions), -1, 1)[question]
    return b, b + room * np.clip(0.5 * shift + rng.uniform(-0.5, 0.5, len(b)), -1, 1), question


def entrenched(rng: np.random.Generator, questions: int, slope: float) -> Sample:
    """Four rows per question with a slope of the update on the prior."""
    question = np.repeat(np.arange(questions), 4)
    b = rng.uniform(0.2, 0.8, len(question))
    shared = rng.uniform(-0.06, 0.06, questions)[question]
    return b, b + slope * (b - 0.5) + shared + rng.uniform(-0.06, 0.06, len(b)), question


def slopes(sample: Sample) -> dict[str, float]:
    """p of each test of one sample."""
    return {
        "CR1": martingale_score(*sample, se="CR1", draws=1).p,
        "CR3": martingale_score(*sample).p,
        "joint flips": martingale_joint_test(*sample, draws=999).p,
    }


def rejections(
    draw: Callable[[np.random.Generator], Sample], tests: Callable[[Sample], Mapping[str, float]], seeds: int
) -> dict[str, float]:
    """Share of seeds in which each test rejects at 5%, an undefined p counted as no rejection."""
    hits: dict[str, float] = {}
    for seed in range(seeds):
        for name, p in tests(draw(np.random.default_rng(seed))).items():
            hits[name] = hits.get(name, 0.0) + (p <= 0.05) / seeds
    return hits


def main(seeds: int) -> None:
    """Print the table."""
    designs: dict[str, Callable[[np.random.Generator], Sample]] = {}
    for g in (15, 30, 60, 150):
        designs[f"extreme, {g} questions"] = lambda rng, g=g: extreme(rng, g)
        designs[f"extreme, {g} questions x 4 steps"] = lambda rng, g=g: extreme(rng, g, 4)
    designs["extreme, 20 questions x 30 steps"] = lambda rng: extreme(rng, 20, 30)
    designs["U-shaped, 30 questions"] = lambda rng: u_shaped(rng, 30)
    designs["uneven clusters, 30 questions"] = lambda rng: uneven(rng, 30)
    designs["power at -.06, 60 questions"] = lambda rng: entrenched(rng, 60, -0.06)
    for name, draw in designs.items():
        shares = rejections(draw, slopes, seeds)
        print(f"{name:<36}", "  ".join(f"{test} {share:6.1%}" for test, share in shares.items()), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 600)
