"""Updates of exact Bayesians whose beliefs lie where those of language models do: near 0 and 1, few, and unequal."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit, logit

from .trajectories import Floats

Sample = tuple[Floats, Floats, NDArray[np.int64]]
"""Prior, posterior and question of each row."""


def log_odds(rng: Generator, questions: int) -> Floats:
    """[questions] prior log-odds N(-6, 3): a median of .25%, one in forty above .5."""
    return rng.normal(-6, 3, questions)


def signalled(rng: Generator, log_odds: Floats, steps: int = 1, strength: float = 0.7) -> Sample:
    """An exact Bayesian from prior `log_odds` [questions], who sees normal signals; log-odds vary by `strength`."""
    sign = np.where(rng.random(len(log_odds)) < expit(log_odds), 1, -1)
    chain = [log_odds]
    for _ in range(steps):
        chain.append(chain[-1] + rng.normal(sign * strength**2 / 2, strength))
    b = expit(np.stack(chain, axis=1))
    return b[:, :-1].ravel(), b[:, 1:].ravel(), np.repeat(np.arange(len(log_odds)), steps)


def witnessed(rng: Generator, log_odds: Floats, accuracy: float) -> Sample:
    """The same with one yes or no of known accuracy: from priors near 0, small steps down and rare jumps up."""
    true = rng.random(len(log_odds)) < expit(log_odds)
    says = rng.random(len(log_odds)) < np.where(true, accuracy, 1 - accuracy)
    post = log_odds + np.where(says, 1, -1) * logit(accuracy)
    return expit(log_odds), expit(post), np.arange(len(log_odds))


def unequal(rng: Generator, questions: int) -> Sample:
    """U-shaped beliefs; questions of 1 to 50 rows that share a heavy-tailed shift in either direction."""
    sizes = np.exp(rng.uniform(0, np.log(50), questions)).astype(int)
    question = np.repeat(np.arange(questions), sizes)
    b = np.clip(rng.beta(0.5, 0.5, questions)[question] + rng.normal(0, 0.03, len(question)), 0.01, 0.99)
    shift = np.clip(0.1 * rng.standard_cauchy(questions), -1, 1)[question]
    return b, b + np.minimum(b, 1 - b) * np.clip(0.5 * shift + rng.uniform(-0.5, 0.5, len(b)), -1, 1), question


def rounded(rng: Generator, questions: int) -> Sample:
    """Reports to the nearest .05, from .1 to .9, that move by one step or not at all; two of each question."""
    b = rng.choice(np.arange(0.1, 0.95, 0.05), questions * 2)
    up = rng.choice([-0.05, 0.0, 0.05], questions * 2)
    return b, np.asarray(np.round(b + up, 2), np.float64), np.repeat(np.arange(questions), 2)


GRID = np.array([0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0])


def absorbed(rng: Generator, questions: int) -> Sample:
    """Round beliefs, most of them 0, 1 or next to it, that move to the next with the chance that keeps the mean; at 0
    and 1 they stay, and so do a third of the others.
    """
    place = rng.choice(len(GRID), questions, p=np.array([6, 5, 3, 2, 1, 1, 1, 1, 1, 2, 3]) / 26)
    prior = GRID[place]
    low, high = GRID[np.maximum(place - 1, 0)], GRID[np.minimum(place + 1, len(GRID) - 1)]
    moves = (prior > 0) & (prior < 1) & (rng.random(questions) < 2 / 3)
    to = np.where(rng.random(questions) * (high - low) < prior - low, high, low)
    return prior, np.where(moves, to, prior), np.arange(questions)


def entrenched(rng: Generator, questions: int, slope: float) -> Sample:
    """Four updates per question, with a slope on the prior, and a shift that a question's updates share."""
    question = np.repeat(np.arange(questions), 4)
    b = rng.uniform(0.2, 0.8, len(question))
    shared = rng.uniform(-0.05, 0.05, questions)[question]
    return b, b + slope * (b - 0.5) + shared + rng.uniform(-0.05, 0.05, len(b)), question
