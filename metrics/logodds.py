"""Beliefs as natural log-odds that may be averaged (METRICS 0.4)."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit

from .validation import Floats, probabilities

LOGIT_EPS = 1e-6
"""Probabilities are moved this far off 0 and 1 before log-odds are averaged."""


def clipped_logit(p: ArrayLike, name: str) -> tuple[Floats, int]:
    """Natural log-odds with `LOGIT_EPS` kept off both ends, and how many were moved. NaN in, NaN out."""
    p = probabilities(p, name)
    n_clipped = int(((p < LOGIT_EPS) | (p > 1 - LOGIT_EPS)).sum())
    return logit(np.clip(p, LOGIT_EPS, 1 - LOGIT_EPS)), n_clipped
