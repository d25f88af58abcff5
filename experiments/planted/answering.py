"""An agent that answers the same question again and again, afresh or in one conversation."""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from .trajectories import Floats, Seed


@dataclass(frozen=True)
class Conversations:
    """Sampled answers as counts, and the probabilities that they came from; q questions of k options."""

    p_single: Floats
    """[q, k] of a single turn."""
    single: Floats
    """[q, 2, k] counts of two halves of the single-turn answers."""
    p_multi: Floats
    """[q, runs, turns, k] at each turn given the history."""
    multi: Floats
    """[q, k] counts over the turns of the first conversation."""


@dataclass(frozen=True)
class Answering:
    """Plants B = debias (P_single - 1/k) for every option; debias 0 has no B-score at all.

    Each conversation has a mood of its own (SD `mood` on the log scale, around a distribution whose mean is kept), so
    that its turns are dependent.
    """

    options: int = 4
    queries: int = 30
    runs: int = 10
    turns: int = 8
    debias: float = 0.0
    skew: float = 0.5
    """SD of the single-turn log-probabilities over options."""
    mood: float = 0.15
    """Size of a conversation's deviation, as a share of the smallest probability: at most 1."""

    def sample(self, n: int, seed: Seed) -> Conversations:
        """Draw n questions."""
        rng = np.random.default_rng(seed)
        k = self.options
        p_single = softmax(self.skew * rng.standard_normal((n, k)), axis=1)
        mean = p_single - self.debias * (p_single - 1 / k)
        push = rng.uniform(-1, 1, (n, self.runs, 1, k))
        push -= push.mean(axis=-1, keepdims=True)  # within (-2, 2), and sums to zero
        room = mean.min(axis=1)[:, None, None, None] / 2
        multi = np.repeat(mean[:, None, None] + self.mood * room * push, self.turns, axis=2)
        single = rng.multinomial(self.queries // 2, np.repeat(p_single[:, None], 2, axis=1)).astype(np.float64)
        counts = rng.multinomial(self.queries, multi[:, 0, 0]).astype(np.float64)
        return Conversations(p_single=p_single, single=single, p_multi=multi, multi=counts)
