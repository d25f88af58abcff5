"""Products of two numbers, right or a little wrong."""

import numpy as np

from .question import Question

PROVENANCE = "computed: the product of two drawn numbers, or one that is off by at most a fifth"


def arithmetic(n: int, seed: int = 0) -> list[Question]:
    """`n` questions, each true with probability 1/2. More of them begin with the same ones."""
    return [_question(i, np.random.default_rng([seed, i])) for i in range(n)]


def _question(i: int, rng: np.random.Generator) -> Question:
    a, b = (int(x) for x in rng.integers(3, 100, size=2))
    right = bool(rng.integers(2))
    off = int(rng.integers(1, a * b // 5 + 1)) * int(rng.choice([-1, 1]))
    shown = a * b + (0 if right else off)
    id_ = f"arithmetic-{i}"
    return Question(id_, id_, f"Is {a} times {b} equal to {shown}?", "Yes", "No", PROVENANCE, float(right))
