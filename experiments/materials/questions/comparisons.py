"""Which of two numbers is larger: answered by the numbers themselves, which models favour very differently."""

import numpy as np

from .question import Question

PROVENANCE = "computed: the larger of two drawn numbers"


def comparisons(n: int, seed: int = 0) -> list[Question]:
    """`n` questions, each true with probability 1/2. More of them begin with the same ones."""
    return [_question(i, np.random.default_rng([seed, i])) for i in range(n)]


def _question(i: int, rng: np.random.Generator) -> Question:
    a, b = (int(x) for x in rng.choice(np.arange(10, 1000), size=2, replace=False))
    id_ = f"comparison-{i}"
    return Question(id_, id_, f"Which number is larger: {a} or {b}?", str(a), str(b), PROVENANCE, float(a > b))
