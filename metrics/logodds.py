"""Beliefs as natural log-odds that may be averaged (METRICS 0.4)."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit

from .validation import Floats, probabilities

LOGIT_EPS = 1e-6
"""Probabilities are moved this far off 0 and 1 before log-odds are averaged."""


def clipped_logit(p: ArrayLike, name: str, eps: float = LOGIT_EPS) -> tuple[Floats, int]:
    """Natural log-odds with `eps` kept off both ends, and how many were moved. NaN in, NaN out."""
    if not 0 < eps < 0.5:
        raise ValueError(f"eps: {eps!r}; give a probability between 0 and 0.5, such as 1e-6")
    p = probabilities(p, name)
    n_clipped = int(((p < eps) | (p > 1 - eps)).sum())
    return logit(np.clip(p, eps, 1 - eps)), n_clipped
