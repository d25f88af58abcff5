"""Log-odds that may be averaged (METRICS 0.4), and entropy and Jensen-Shannon divergence in bits (METRICS B3, B4)."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, logit, rel_entr

from .contract import Floats, distributions, probabilities, same_shape

LOGIT_EPS = 1e-6
"""Probabilities are moved this far off 0 and 1 before log-odds are averaged."""


def clipped_logit(p: ArrayLike, name: str, eps: float = LOGIT_EPS) -> tuple[Floats, int]:
    """Natural log-odds with `eps` kept off both ends, and how many were moved. NaN in, NaN out.

    >>> clipped_logit([0.5, 1.0], "p")[1]
    1
    """
    if not 0 < eps < 0.5:
        raise ValueError(f"eps: {eps!r}; give a probability between 0 and 0.5, such as 1e-6")
    p = probabilities(p, name)
    n_clipped = int(((p < eps) | (p > 1 - eps)).sum())
    return logit(np.clip(p, eps, 1 - eps)), n_clipped


LN2 = np.log(2.0)


def entropy_bits(p: ArrayLike) -> Floats:
    """Shannon entropy over the last axis, in [0, log2 k] bits (METRICS B4). NaN in, NaN out.

    >>> float(entropy_bits([0.5, 0.25, 0.25]))
    1.5
    """
    return entr(distributions(p, "p")).sum(axis=-1) / LN2


def jsd(p: ArrayLike, q: ArrayLike) -> Floats:
    """Jensen-Shannon *divergence* over the last axis, in [0, 1] bits (METRICS B3; belief-consistency eq. 4).

    Nothing is normalised here: mass that belongs to no option must be dealt with, not lost.
    Raises ValueError if a row does not sum to one. NaN in, NaN out.

    >>> jsd([[1, 0], [0.5, 0.5]], [[0, 1], [0.5, 0.5]]).tolist()
    [1.0, 0.0]
    """
    p, q = distributions(p, "p"), distributions(q, "q")
    same_shape(p=p, q=q)
    return jsd_of_checked(p, q)


def jsd_of_checked(p: Floats, q: Floats) -> Floats:
    """`jsd` of distributions that were checked, whose shapes may be broadcast.

    >>> jsd_of_checked(np.eye(2), np.array([0.0, 1.0])).tolist()
    [1.0, 0.0]
    """
    total = p + q  # twice the mixture: halving it first would turn a subnormal into zero and the result into Inf
    bits = (rel_entr(2 * p, total) + rel_entr(2 * q, total)).sum(axis=-1) / (4 * LN2)
    return np.clip(bits, 0.0, 1.0)  # rounding alone can leave it by 1e-16


def jsd_leak(m: ArrayLike) -> Floats:
    """The part of the three-class JSD that is rule-breaking alone: h(m/2) - h(m)/2, in bits (METRICS B3).

    >>> jsd_leak([0.0, 1.0]).tolist()
    [0.0, 1.0]
    """
    m = probabilities(m, "m")
    half, whole = ((entr(p) + entr(1 - p)) / LN2 for p in (m / 2, m))
    return half - whole / 2
